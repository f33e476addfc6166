//! What a self-test found: which wrong kernels and KV managers are caught by which cases, as data, text and HTML.

mod html;
mod text;

pub use html::render as render_html;
pub use text::render as render_text;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::format::percent;
use crate::model::{Adapter, Status};

/// A whole self-test. Serialised, it is the JSON that `selftest --json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KillMatrix {
    /// Version of the inputs.
    pub suite: String,
    /// Seed of the inputs.
    pub seed: String,
    /// Version of the program.
    pub version: String,
    /// Kernel that was broken: `cpu-twin` or `wgsl`.
    pub kernel: String,
    /// Where it ran.
    pub adapter: Adapter,
    /// Precision model it was judged by.
    pub model: String,
    /// Whether every fault had all cases to be caught by: only then is a fault that no case reaches a failure.
    pub whole: bool,
    /// The cases, as `family:name`, in catalogue order.
    pub cases: Vec<String>,
    /// One entry a fault, kernels first.
    pub faults: Vec<FaultRow>,
    /// What the right kernels and managers were accused of: must be empty.
    pub false_alarms: Vec<String>,
    /// The pass rules of others, on the same outputs.
    pub criteria: Vec<Criterion>,
    /// How often the diagnosis named the fault, if it was asked.
    pub diagnosis: Option<Accuracy>,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// One fault against all cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultRow {
    /// Its name.
    pub id: String,
    /// Its kind, such as `window`.
    pub kind: String,
    /// What it does wrong.
    pub says: String,
    /// `kernel` or `manager`.
    pub site: String,
    /// Why it is the same function, if it is.
    pub equivalent: Option<String>,
    /// The cases that reach it, by ascending index.
    pub cells: Vec<Cell>,
}

/// One fault in one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Index into [`KillMatrix::cases`].
    pub case: usize,
    /// Layouts in which the case reaches the fault.
    pub reached: u32,
    /// Layouts in which it is caught.
    pub killed: u32,
    /// The layouts in which it is caught: bit n stands for the n-th of the five, classic-paged first.
    pub killed_in: u32,
    /// The gravest status it was caught with.
    pub status: Option<Status>,
}

/// A pass rule and what it catches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Its short name.
    pub name: String,
    /// The rule.
    pub rule: String,
    /// Kernel faults it rejects in at least one case.
    pub killed: usize,
    /// Kernel faults in all, equivalent ones left out.
    pub of: usize,
    /// The same, of those faults only that change finite numbers and nothing else.
    pub killed_numbers: usize,
    /// How many of those there are.
    pub of_numbers: usize,
    /// Outputs of right kernels that it rejects.
    pub false_alarms: usize,
    /// Outputs of right kernels it saw.
    pub right: usize,
}

/// How often a diagnosis is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Failures diagnosed.
    pub asked: usize,
    /// The true fault named first, alone.
    pub named: usize,
    /// Named first together with others that give the same numbers there.
    pub together: usize,
    /// Failures whose true fault was not named, as `fault in case;layout: what was said`.
    pub missed: Vec<String>,
    /// Other failures: by faults that the library has no hypothesis for.
    pub strangers: usize,
    /// Other failures: by faults that it has, but with outputs that change with what slots never written hold.
    pub unwritten: usize,
    /// Those of the other failures that were taken for a known fault that they are not, told as the missed ones.
    pub mistaken: Vec<String>,
}

/// What became of one fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Caught by at least one case.
    Killed,
    /// Reached and never caught.
    Survived,
    /// No case reaches it.
    Unreached,
    /// The same function: nothing to catch, and nothing was.
    Equivalent,
    /// Declared the same function, and yet caught: the declaration is wrong, or the judge is.
    Accused,
}

impl FaultRow {
    /// What became of it.
    pub fn fate(&self) -> Fate {
        let killed = self.cells.iter().any(|cell| cell.killed > 0);
        match (&self.equivalent, killed) {
            (Some(_), true) => Fate::Accused,
            (Some(_), false) => Fate::Equivalent,
            (None, true) => Fate::Killed,
            (None, false) if self.cells.is_empty() => Fate::Unreached,
            (None, false) => Fate::Survived,
        }
    }

    /// Layout-case pairs in which it was reached, and caught.
    pub fn pairs(&self) -> (u32, u32) {
        (self.cells.iter().map(|c| c.reached).sum(), self.cells.iter().map(|c| c.killed).sum())
    }
}

impl KillMatrix {
    /// Faults of that fate.
    pub fn of(&self, fate: Fate) -> impl Iterator<Item = &FaultRow> {
        self.faults.iter().filter(move |fault| fault.fate() == fate)
    }

    /// Whether every fault was caught and nothing right accused. Nothing tested is no pass.
    pub fn passes(&self) -> bool {
        let none = |fate| self.of(fate).next().is_none();
        self.of(Fate::Killed).next().is_some()
            && none(Fate::Survived)
            && none(Fate::Accused)
            && (!self.whole || none(Fate::Unreached))
            && self.false_alarms.is_empty()
    }

    /// For each case with some, the faults that no other case catches.
    pub fn only_killers(&self) -> Vec<(&str, Vec<&str>)> {
        let mut only: Vec<(&str, Vec<&str>)> =
            self.cases.iter().map(|case| (case.as_str(), Vec::new())).collect();
        for fault in &self.faults {
            let mut killers = fault.cells.iter().filter(|cell| cell.killed > 0);
            if let (Some(one), None, None) = (killers.next(), killers.next(), &fault.equivalent)
                && let Some((_, faults)) = only.get_mut(one.case)
            {
                faults.push(&fault.id);
            }
        }
        only.retain(|(_, faults)| !faults.is_empty());
        only
    }

    /// The faults that a case catches.
    pub fn killed_by(&self, case: &str) -> Vec<&FaultRow> {
        let Some(index) = self.cases.iter().position(|c| c == case) else { return Vec::new() };
        let kills = |fault: &&FaultRow| fault.cells.iter().any(|c| c.case == index && c.killed > 0);
        self.faults.iter().filter(kills).collect()
    }

    /// The verdict in one line.
    pub fn headline(&self) -> String {
        let count = |fate| self.of(fate).count();
        let judged = self.faults.len() - count(Fate::Equivalent);
        let word = if self.passes() { "PASS" } else { "FAIL" };
        let mut line = format!(
            "{word}: {} of {judged} faults caught in {} cases on {} @ {}, {}",
            count(Fate::Killed),
            self.cases.len(),
            self.kernel,
            self.adapter.name,
            self.adapter.driver
        );
        for (fate, words) in [
            (Fate::Survived, "survive"),
            (Fate::Unreached, "reached by no case"),
            (Fate::Accused, "declared equivalent and yet caught"),
            (Fate::Equivalent, "equivalent, not counted"),
        ] {
            if count(fate) > 0 {
                // writing to a String cannot fail
                let _ = write!(line, "; {} {words}", count(fate));
            }
        }
        if !self.false_alarms.is_empty() {
            let _ = write!(line, "; {} false alarms", self.false_alarms.len());
        }
        line
    }
}

impl Accuracy {
    /// In words.
    pub fn sentence(&self) -> String {
        let named = self.named + self.together;
        let others = self.strangers + self.unwritten;
        format!(
            "{} failures diagnosed: the fault that was planted named first in {named} ({}), {} of these together with others \
             that give the same numbers there; {others} more that no hypothesis on logical data can tell ({} by faults that \
             the library of hypotheses does not have, {} with outputs that change with what slots never written hold), {} \
             of them not taken for another fault",
            self.asked,
            percent((self.asked > 0).then(|| named as f64 / self.asked as f64)),
            self.together,
            self.strangers,
            self.unwritten,
            others.saturating_sub(self.mistaken.len())
        )
    }
}
