//! Tiers: which cases run by default.

use crate::case::Case;
use crate::catalogue;

/// A set of built-in cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The thirty decode cases.
    #[default]
    Smoke,
    /// The thirty and the extra family.
    Fast,
}

impl Tier {
    /// Every tier, smallest first.
    pub const ALL: [Self; 2] = [Self::Smoke, Self::Fast];

    /// `smoke` or `fast`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Fast => "fast",
        }
    }

    /// Inverse of [`Tier::name`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == word)
    }

    /// The cases of the tier, in catalogue order.
    pub fn cases(self) -> Vec<Case> {
        let mut cases = catalogue::thirty();
        if self == Self::Fast {
            cases.extend(catalogue::extra());
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
        assert!(Tier::Fast.cases().len() > 45);
        assert_eq!(Tier::ALL.map(|tier| Tier::parse(tier.name())), Tier::ALL.map(Some));
        assert_eq!(Tier::parse("full"), None);
    }
}
