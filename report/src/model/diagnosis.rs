//! What a failure looks like.

use serde::{Deserialize, Serialize};

use super::Num;
use crate::evidence::{SENTENCE, WORD};
use crate::format::{clean, sig};

/// Longest clause of a guess, in characters.
const SAYS: usize = 120;

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
    /// Whether the outputs change with what slots never written hold.
    #[serde(default)]
    pub unwritten: bool,
    /// Whether the best guess explains the outputs within the bound.
    pub explained: bool,
    /// The fault that fits best.
    pub best: Option<Guess>,
    /// The runner-up.
    pub next: Option<Guess>,
    /// Which keys the kernel attended to, where that is not right.
    pub seen: Vec<String>,
}

/// Beyond this multiple of the bound the nearest fault says nothing.
const NEAR: f64 = 1e4;
/// Faults told of those that give the same numbers.
const TOLD: usize = 2;

impl Guess {
    /// Clause, name and distance, as `the window is ignored (window-ignored, 0.4x bound`.
    fn told(&self) -> String {
        let says: Vec<&str> = self.says.split(", or ").take(TOLD).collect();
        let mut names: Vec<String> = self.id.split(" or ").map(|name| clean(name, WORD)).collect();
        let more = names.len().saturating_sub(TOLD);
        names.truncate(TOLD);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        format!("{} ({}, {}", clean(&says.join(", or "), SAYS), names.join(" or "), self.distance())
    }

    fn distance(&self) -> String {
        let used = self.used.0;
        if used >= NEAR { format!("{used:.1e}x bound") } else { format!("{}x bound", sig(used, 2)) }
    }
}

impl Diagnosis {
    /// In words, one line a statement.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.unwritten {
            lines.push(
                "the output changes with what slots never written hold: the kernel reads them".to_owned(),
            );
        }
        lines.push(match &self.best {
            Some(best) if self.explained => {
                let next = self.next.as_ref().map_or_else(String::new, |next| {
                    if next.used.0.is_finite() {
                        format!("; next best {}", next.distance())
                    } else {
                        "; no other comes near".to_owned()
                    }
                });
                format!("looks like: {}{next})", best.told())
            }
            Some(best) if best.used.0 <= NEAR => format!("no known fault fits; closest: {})", best.told()),
            _ => "no known fault fits, and none comes near".to_owned(),
        });
        lines.extend(self.seen.iter().map(|line| clean(line, SENTENCE)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(id: &str, used: f64) -> Guess {
        Guess { id: id.to_owned(), says: format!("what {id} does"), used: Num(used) }
    }

    #[test]
    fn what_is_known_comes_in_words() {
        let said = |best: Option<Guess>, next: Option<Guess>, explained, unwritten| {
            Diagnosis { unwritten, explained, best, next, seen: Vec::new() }.lines()
        };
        let after = |used| said(Some(guess("a", 0.0213)), Some(guess("b", used)), true, false);
        assert_eq!(after(57.3), ["looks like: what a does (a, 0.021x bound; next best 57x bound)"]);
        assert_eq!(after(478_960.3), ["looks like: what a does (a, 0.021x bound; next best 4.8e5x bound)"]);
        assert_eq!(after(f64::INFINITY), ["looks like: what a does (a, 0.021x bound; no other comes near)"]);
        let several = Guess { says: "x, or y, or z".to_owned(), ..guess("a or b or c", 0.5) };
        let several = said(Some(several), None, true, false);
        assert_eq!(several, ["looks like: x, or y (a or b or 1 more, 0.5x bound)"]);
        let near = said(Some(guess("a", 3.0)), None, false, false);
        assert_eq!(near, ["no known fault fits; closest: what a does (a, 3x bound)"]);
        let none = ["no known fault fits, and none comes near"];
        for far in [3e9, f64::INFINITY, f64::NAN] {
            assert_eq!(said(Some(guess("a", far)), None, false, false), none);
        }
        assert_eq!(said(None, None, false, false), none);
        let unwritten = said(None, None, false, true);
        assert!(unwritten.len() == 2 && unwritten[0].contains("slots never written"), "{unwritten:?}");
    }
}
