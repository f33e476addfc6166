//! What a failure looks like.

use serde::{Deserialize, Serialize};

use super::Num;
use crate::evidence::{SENTENCE, WORD};
use crate::format::{clean, sig};

/// One fault that may be behind a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guess {
    /// Its name, or several joined by `or` that give the same numbers here.
    pub id: String,
    /// What such a kernel does.
    pub says: String,
    /// How far the outputs are from those of such a kernel, in multiples of the bound.
    pub used: Num,
}

/// The faults that explain a failure best, and what the kernel was seen to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Whether the best guess explains the outputs within the bound.
    pub explained: bool,
    /// The fault that fits best.
    pub best: Option<Guess>,
    /// The runner-up.
    pub next: Option<Guess>,
    /// Which keys the kernel attended to, where that is not right.
    pub seen: Vec<String>,
}

impl Guess {
    fn distance(&self) -> String {
        if self.used.0.is_finite() {
            format!("{}x bound", sig(self.used.0, 2))
        } else {
            "no multiple of the bound".to_owned()
        }
    }
}

impl Diagnosis {
    /// In words, one line a statement.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match (&self.best, self.explained) {
            (Some(best), true) => {
                let next = self
                    .next
                    .as_ref()
                    .map_or_else(String::new, |next| format!("; next best {}", next.distance()));
                lines.push(format!(
                    "looks like: {} ({}, {}{next})",
                    clean(&best.says, SENTENCE),
                    clean(&best.id, WORD),
                    best.distance()
                ));
            }
            (Some(best), false) => lines.push(format!(
                "no known fault fits; closest: {} ({}, {})",
                clean(&best.says, SENTENCE),
                clean(&best.id, WORD),
                best.distance()
            )),
            (None, _) => lines.push("no known fault fits".to_owned()),
        }
        lines.extend(self.seen.iter().map(|line| clean(line, SENTENCE)));
        lines
    }
}
