//! The eighteen outcomes of a case. No status stands for another: a skip is never a pass.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Outcome of one case on one layout and kernel; in JSON the kebab-case name. Ordered by severity: of two
/// outcomes of one case, the greater one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Every judged element lies within its bound.
    Pass,
    /// A failure that a waiver in force covers.
    Waived,
    /// The kernel or the adapter says that it cannot run this case.
    Unsupported,
    /// The kernel's manifest neither claims nor disclaims this case.
    Undeclared,
    /// Planned, but never started.
    NotRun,
    /// A pass where a waiver expects a failure.
    UnexpectedPass,
    /// Measured reads differ from predicted reads.
    TrafficMismatch,
    /// Two runs on identical buffers gave different bits.
    Nondeterministic,
    /// An element lies outside its bound.
    Wrong,
    /// An element is NaN or infinite where it must be finite, or the other way round.
    Nonfinite,
    /// The pattern put into the output before the run is still there.
    Unwritten,
    /// A guard region changed, or a read left the kernel's buffers.
    OutOfBounds,
    /// An output has the wrong element type.
    BadDtype,
    /// An output has the wrong shape.
    BadShape,
    /// The kernel, the driver or the case reported an error.
    Error,
    /// The kernel did not answer in time.
    Timeout,
    /// The kernel's process ended by itself.
    Crash,
    /// The KV manager broke one of its invariants.
    Invariant,
}

/// What a status means for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Ran and conforms.
    Pass,
    /// Ran, or tried to, and does not conform.
    Fail,
    /// Could not be asked of this kernel.
    Skip,
    /// Failed, and a waiver says so.
    Excused,
    /// Never started.
    NotRun,
}

impl Status {
    /// Every status, from the most severe to `pass`. Failures stand in the order in which one hides another.
    pub const ALL: [Self; 18] = [
        Self::Invariant,
        Self::Crash,
        Self::Timeout,
        Self::Error,
        Self::BadShape,
        Self::BadDtype,
        Self::OutOfBounds,
        Self::Unwritten,
        Self::Nonfinite,
        Self::Wrong,
        Self::Nondeterministic,
        Self::TrafficMismatch,
        Self::UnexpectedPass,
        Self::NotRun,
        Self::Undeclared,
        Self::Unsupported,
        Self::Waived,
        Self::Pass,
    ];

    /// The name used in JSON, in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Wrong => "wrong",
            Self::Nonfinite => "nonfinite",
            Self::Unwritten => "unwritten",
            Self::OutOfBounds => "out-of-bounds",
            Self::BadShape => "bad-shape",
            Self::BadDtype => "bad-dtype",
            Self::Nondeterministic => "nondeterministic",
            Self::TrafficMismatch => "traffic-mismatch",
            Self::Invariant => "invariant",
            Self::Crash => "crash",
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::Unsupported => "unsupported",
            Self::Undeclared => "undeclared",
            Self::Waived => "waived",
            Self::UnexpectedPass => "unexpected-pass",
            Self::NotRun => "not-run",
        }
    }

    /// Rank by severity: 0 is `pass`, 17 is `invariant`.
    pub const fn severity(self) -> u8 {
        self as u8
    }

    /// The more severe of the two.
    #[must_use]
    pub const fn worse(a: Self, b: Self) -> Self {
        if a.severity() >= b.severity() { a } else { b }
    }

    /// What this status means for a verdict.
    pub const fn class(self) -> Class {
        match self {
            Self::Pass => Class::Pass,
            Self::Unsupported | Self::Undeclared => Class::Skip,
            Self::Waived => Class::Excused,
            Self::NotRun => Class::NotRun,
            Self::Wrong
            | Self::Nonfinite
            | Self::Unwritten
            | Self::OutOfBounds
            | Self::BadShape
            | Self::BadDtype
            | Self::Nondeterministic
            | Self::TrafficMismatch
            | Self::Invariant
            | Self::Crash
            | Self::Timeout
            | Self::Error
            | Self::UnexpectedPass => Class::Fail,
        }
    }
}

impl Class {
    /// One glyph, so that no reader depends on colour: check, cross, dash, tilde, dot.
    pub const fn glyph(self) -> &'static str {
        match self {
            Self::Pass => "\u{2713}",
            Self::Fail => "\u{2717}",
            Self::Skip => "\u{2013}",
            Self::Excused => "~",
            Self::NotRun => "\u{00b7}",
        }
    }

    /// A word for style sheets: `pass`, `fail`, `skip`, `excused` or `not-run`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::Excused => "excused",
            Self::NotRun => "not-run",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_json_names() {
        for status in Status::ALL {
            let json = serde_json::to_string(&status).unwrap();
            assert_eq!(json, format!("\"{}\"", status.name()));
            assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
        }
    }

    #[test]
    fn all_is_complete_and_sorted_by_severity() {
        let ranks: Vec<u8> = Status::ALL.iter().map(|s| s.severity()).collect();
        assert_eq!(ranks, (0..18).rev().collect::<Vec<u8>>());
    }

    #[test]
    fn every_failure_outranks_everything_else() {
        for a in Status::ALL {
            for b in Status::ALL {
                let worse = Status::worse(a, b);
                assert_eq!(worse, Status::worse(b, a));
                if a.class() == Class::Fail {
                    assert_eq!(worse.class(), Class::Fail, "{a} and {b}");
                }
            }
        }
    }

    #[test]
    fn only_pass_is_a_pass() {
        let passes: Vec<Status> = Status::ALL.into_iter().filter(|s| s.class() == Class::Pass).collect();
        assert_eq!(passes, [Status::Pass]);
        assert_eq!(Status::ALL.iter().filter(|s| s.class() == Class::Fail).count(), 13);
    }
}
