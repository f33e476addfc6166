//! Tiers: which cases run by default.

use crate::case::Case;
use crate::catalogue;

/// A set of built-in cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The thirty decode cases.
    #[default]
    Smoke,
    /// The thirty, the extra family, and probes of up to [`FAST_KEYS`] keys.
    Fast,
    /// Every built-in case.
    Full,
}

/// The longest row of a probe in [`Tier::Fast`].
pub const FAST_KEYS: usize = 1024;

impl Tier {
    /// Every tier, smallest first.
    pub const ALL: [Self; 3] = [Self::Smoke, Self::Fast, Self::Full];

    /// `smoke`, `fast` or `full`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Fast => "fast",
            Self::Full => "full",
        }
    }

    /// Inverse of [`Tier::name`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == word)
    }

    /// The cases of the tier, in catalogue order.
    pub fn cases(self) -> Vec<Case> {
        let mut cases = catalogue::thirty();
        let is_short = |case: &Case| case.script.longest_row() <= FAST_KEYS;
        match self {
            Self::Smoke => {}
            Self::Fast => {
                cases.extend(catalogue::extra());
                cases.extend(catalogue::probes().into_iter().filter(is_short));
            }
            Self::Full => {
                let rest = [catalogue::extra(), catalogue::probes(), catalogue::random()];
                cases.extend(rest.into_iter().flatten());
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_grow() {
        assert_eq!(Tier::Smoke.cases().len(), 30);
        let [fast, full] = [Tier::Fast, Tier::Full].map(|tier| tier.cases().len());
        assert!(fast > 30 + catalogue::extra().len() && full > fast, "{fast} {full}");
        assert_eq!(Tier::ALL.map(|tier| Tier::parse(tier.name())), Tier::ALL.map(Some));
        assert_eq!(Tier::parse("slow"), None);
    }
}
