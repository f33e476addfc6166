//! Exit codes, and the errors that choose them.

use std::fmt;

use attnproof_report::model::{Class, Row};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything required ran and conforms.
    Pass,
    /// A kernel is wrong.
    Wrong,
    /// Usage, or a file that cannot be read as what it should be.
    Usage,
    /// No adapter where one is required, or a device lost again and again.
    Infrastructure,
    /// Nothing ran.
    Nothing,
    /// Some cases did not run.
    Incomplete,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Wrong => 1,
            Self::Usage => 2,
            Self::Infrastructure => 3,
            Self::Nothing => 4,
            Self::Incomplete => 5,
        }
    }

    /// The verdict on a run's rows. With `strict`, an unsupported or undeclared case fails.
    pub fn of_rows(rows: &[Row], strict: bool) -> Self {
        let any = |class: Class| rows.iter().any(|r| r.status.class() == class);
        if rows.is_empty() || rows.iter().all(|r| r.status.class() == Class::Skip) {
            Self::Nothing
        } else if any(Class::Fail) || (strict && any(Class::Skip)) {
            Self::Wrong
        } else if any(Class::NotRun) {
            Self::Incomplete
        } else {
            Self::Pass
        }
    }
}

/// An error that ends the command, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// What went wrong, in one line.
    pub error: anyhow::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl std::error::Error for Failure {}

/// Gives an error its exit code.
pub trait OrExit<T> {
    /// The value, or a [`Failure`] with `exit`.
    ///
    /// # Errors
    /// The error itself, with the code.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|e| Failure { exit, error: e.into() })
    }
}
