//! The families of inputs: names, and what each needs of a case.

use attnproof_oracle::{BiasOrder, Causal};

use crate::case::Case;

/// What K and V are filled with and how queries are made; see [`crate::fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FillKind {
    /// Noise, and V dims that spell position and head.
    #[default]
    Plain,
    /// As plain, with outliers that saturate an 8-bit format and one dim of subnormals.
    Outliers,
    /// K, V and queries are independent, each element nearly normal with variance 1; nothing is aimed at.
    Normal,
    /// As normal, with scores 30 times as large.
    Loud,
    /// V large and of a sign that alternates with the position, scores nearly equal: outputs nearly cancel.
    Cancel,
    /// All keys of a head equal: every weight is the same.
    Equal,
    /// One visible key, taken at random, has a score 40 nats above the typical one.
    Dominant,
    /// V, and half of the dims of K, around the smallest normal value of the format.
    Subnormal,
    /// K and V near the largest finite value (in f32 and bf16 as far below it as sums need), queries so small that
    /// scores are ordinary.
    Extreme,
    /// Scores rise with the position, over 24 nats from the first to the last visible key.
    Ascending,
    /// Scores fall with the position, over 24 nats.
    Descending,
    /// V depends on head and dim only.
    Constant,
    /// Scores have two values, 10 nats apart.
    TwoLevel,
    /// Every score is near -20,000 nats: whatever starts a maximum or a mask at a finite number above wins.
    Deep,
    /// Probe: equal scores, V is a code of +-64 whose partial sums stay small, so that outputs count keys.
    Ballot,
    /// Probe: one key has all the weight exactly, at score 0; its V is a code of its own.
    Needle,
    /// Probe: some 65 keys have weight, and a few of them as much as the rest together.
    Thermometer,
    /// Probe: some 24 keys have weights that are powers of two.
    Octave,
    /// Probe: V is constant over a row, different for each head.
    HeadConstant,
    /// Probe: scores of 50, 100 and 10,000 times the softcap, of either sign.
    Saturation,
}

impl FillKind {
    /// Every kind.
    pub const ALL: [Self; 20] = [
        Self::Plain,
        Self::Outliers,
        Self::Normal,
        Self::Loud,
        Self::Cancel,
        Self::Equal,
        Self::Dominant,
        Self::Subnormal,
        Self::Extreme,
        Self::Ascending,
        Self::Descending,
        Self::Constant,
        Self::TwoLevel,
        Self::Deep,
        Self::Ballot,
        Self::Needle,
        Self::Thermometer,
        Self::Octave,
        Self::HeadConstant,
        Self::Saturation,
    ];

    /// Name in ids and case files, such as `plain` or `head-constant`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Outliers => "outliers",
            Self::Normal => "normal",
            Self::Loud => "loud",
            Self::Cancel => "cancel",
            Self::Equal => "equal",
            Self::Dominant => "dominant",
            Self::Subnormal => "subnormal",
            Self::Extreme => "extreme",
            Self::Ascending => "ascending",
            Self::Descending => "descending",
            Self::Constant => "constant",
            Self::TwoLevel => "two-level",
            Self::Deep => "deep",
            Self::Ballot => "ballot",
            Self::Needle => "needle",
            Self::Thermometer => "thermometer",
            Self::Octave => "octave",
            Self::HeadConstant => "head-constant",
            Self::Saturation => "saturation",
        }
    }

    /// Inverse of [`FillKind::name`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }

    /// Whether the inputs are a probe: exact codes whose faults [`crate::probe::decode`] reads back.
    pub const fn is_probe(self) -> bool {
        matches!(
            self,
            Self::Ballot
                | Self::Needle
                | Self::Thermometer
                | Self::Octave
                | Self::HeadConstant
                | Self::Saturation
        )
    }

    /// Whether queries are aimed at keys by their content, as [`crate::query`] says.
    pub(crate) const fn is_aimed(self) -> bool {
        matches!(self, Self::Plain | Self::Outliers)
    }

    /// What keeps the case from posing this kind's question, if anything does.
    pub(crate) fn refusal(self, case: &Case) -> Option<&'static str> {
        let d = case.shape.d;
        let bends = case.softcap.is_some() && case.alibi && case.bias_order == BiasOrder::CapThenAlibi;
        let rules: &[(bool, &'static str)] = match self {
            Self::Ballot => &[
                (d >= 8, "ballot needs d of at least 8: K spells the position"),
                (case.shape.dv >= 16, "ballot needs dv of at least 16: V is a code"),
                (
                    !case.alibi
                        || (is_power_of_two(case.scale) && [1, 2, 4, 8].contains(&case.shape.q_heads)),
                    "ballot with alibi needs a scale and slopes that are powers of two (hq 1, 2, 4 or 8)",
                ),
                (!case.alibi || case.causal == Causal::BottomRight, "ballot with alibi needs bottom_right"),
                (!bends, "ballot with alibi and softcap needs the order alibi_then_cap"),
            ],
            Self::Needle => &[
                (d >= 32, "needle needs d of at least 32: K is a code"),
                (case.softcap.is_none_or(|cap| cap >= 40.0), "needle needs a softcap of at least 40"),
                (
                    !bends && !(case.softcap.is_some() && case.alibi),
                    "needle needs alibi or softcap, not both",
                ),
            ],
            Self::Thermometer | Self::Octave => &[
                (d >= 20, "thermometer and octave need d of at least 20: K spells level and class"),
                (!case.alibi, "thermometer and octave need a case without alibi"),
                (self == Self::Thermometer || case.softcap.is_none(), "octave needs a case without softcap"),
            ],
            Self::Saturation => &[(case.softcap.is_some(), "saturation needs a softcap")],
            _ => &[],
        };
        rules.iter().find(|(kept, _)| !kept).map(|(_, reason)| *reason)
    }
}

/// Whether `x` is a power of two, so that multiplying by it is exact.
fn is_power_of_two(x: f32) -> bool {
    x.is_normal() && x > 0.0 && x.to_bits() & 0x007F_FFFF == 0
}
