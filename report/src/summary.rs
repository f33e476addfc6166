//! Rows counted: per kernel and adapter, per status and per layout, with the one-line verdict.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::SENTENCE;
use crate::format::clean;
use crate::model::{Adapter, Class, Counts, Row, Status};
pub use crate::target::{Cell, LayoutReads, Target};
use crate::target::{count, largest};

/// Name of the built-in WGSL kernels in [`Row::kernel`].
pub const WGSL: &str = "wgsl";
/// Name of the CPU twin in [`Row::kernel`].
pub const CPU_TWIN: &str = "cpu-twin";
/// How the name of a twin with a planted fault begins in [`Row::kernel`]; the name of the fault follows.
pub const PLANTED: &str = "cpu-twin+";

/// Most kernels on adapters that a report spells out.
pub(crate) const MOST_TARGETS: usize = 8;

/// The verdict over all rows, most alarming first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No kernel ran any case.
    NothingRan,
    /// At least one row fails.
    Fail,
    /// No row fails, but some were never started.
    Incomplete,
    /// No row fails; some could not be asked, some are waived, or no shader ran.
    PassWithGaps,
    /// Every row passes.
    Pass,
}

/// Sums of the KV manager's counts over the cases of one layout, each case once whatever the number of kernels.
#[derive(Debug, Clone)]
pub struct LayoutCounts<'a> {
    /// Layout name.
    pub layout: &'a str,
    /// Cases summed.
    pub cases: usize,
    /// The sums.
    pub counts: Counts,
}

/// Rows that neither pass nor fail, by status and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap<'a> {
    /// Status of the rows.
    pub status: Status,
    /// The reason they give, empty where they give none.
    pub reason: &'a str,
    /// Rows.
    pub rows: usize,
}

/// All rows, counted.
#[derive(Debug, Clone)]
pub struct Summary<'a> {
    /// The rows, in file order.
    pub rows: &'a [Row],
    /// Kernels on adapters: WGSL first, the CPU twin last, then by name.
    pub targets: Vec<Target<'a>>,
    /// Rows per status over all targets; statuses without rows are absent.
    pub statuses: BTreeMap<Status, usize>,
    /// Rows that fail, most severe first, then in file order.
    pub failing: Vec<&'a Row>,
    /// Rows that neither pass nor fail, most severe status first, then by reason.
    pub gaps: Vec<Gap<'a>>,
    /// Counts of the KV manager per layout, in the order of first appearance.
    pub counts: Vec<LayoutCounts<'a>>,
    /// Whether any row of the built-in WGSL kernels ran.
    pub shader_ran: bool,
}

impl Gap<'_> {
    /// The reason, fit for print.
    pub fn words(&self) -> String {
        let reason = if self.reason.trim().is_empty() { "no reason given" } else { self.reason };
        clean(reason, SENTENCE)
    }
}

impl Verdict {
    /// The words that open the headline.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NothingRan => "NOTHING RAN",
            Self::Fail => "FAIL",
            Self::Incomplete => "INCOMPLETE",
            Self::PassWithGaps => "PASS WITH GAPS",
            Self::Pass => "PASS",
        }
    }

    /// The class whose colour the verdict takes.
    pub const fn class(self) -> Class {
        match self {
            Self::NothingRan | Self::Incomplete => Class::NotRun,
            Self::Fail => Class::Fail,
            Self::PassWithGaps => Class::Excused,
            Self::Pass => Class::Pass,
        }
    }
}

impl<'a> Summary<'a> {
    /// Counts `rows`; any slice will do, an empty one included.
    pub fn of(rows: &'a [Row]) -> Self {
        let mut by_target: BTreeMap<(u8, &str, &Adapter), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            by_target.entry((kernel_rank(&row.kernel), &row.kernel, &row.adapter)).or_default().push(row);
        }
        let mut failing: Vec<&Row> = rows.iter().filter(|row| row.status.class() == Class::Fail).collect();
        failing.sort_by_key(|row| Reverse(row.status));
        Self {
            rows,
            targets: by_target
                .iter()
                .map(|(&(_, kernel, adapter), rows)| Target::of(kernel, adapter, rows))
                .collect(),
            statuses: count(rows),
            failing,
            gaps: gaps(rows),
            counts: counts(rows),
            shader_ran: rows.iter().any(|row| row.kernel == WGSL && ran(row.status)),
        }
    }

    /// Rows of one status.
    pub fn count(&self, status: Status) -> usize {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Number of distinct (case, layout) pairs over all targets.
    pub fn pairs(&self) -> usize {
        self.rows.iter().map(|row| (&row.name, &row.layout)).collect::<BTreeSet<_>>().len()
    }

    /// The row with the largest finite `budget_used` over all targets.
    pub fn largest(&self) -> Option<&'a Row> {
        largest(self.targets.iter().filter_map(|target| target.largest))
    }

    /// Whether the CPU twin is all that ran, so that the rows say nothing about any shader or device.
    pub fn twin_only(&self) -> bool {
        let mut ran_on =
            self.rows.iter().filter(|row| ran(row.status)).map(|row| row.kernel.as_str()).peekable();
        ran_on.peek().is_some() && ran_on.all(|kernel| kernel == CPU_TWIN)
    }

    /// The verdict: only rows that ran and conform make a pass.
    pub fn verdict(&self) -> Verdict {
        let has = |class: Class| self.statuses.keys().any(|status| status.class() == class);
        if has(Class::Fail) {
            Verdict::Fail
        } else if !self.rows.iter().any(|row| ran(row.status)) {
            Verdict::NothingRan
        } else if has(Class::NotRun) {
            Verdict::Incomplete
        } else if has(Class::Skip) || has(Class::Excused) || self.twin_only() {
            Verdict::PassWithGaps
        } else {
            Verdict::Pass
        }
    }

    /// One line that can stand alone: the verdict, every kernel and adapter that has rows, and how many rows of
    /// each status.
    pub fn headline(&self) -> String {
        format!("{}: {}", self.verdict().words(), self.tally())
    }

    /// The headline without its verdict.
    pub fn tally(&self) -> String {
        if self.rows.is_empty() {
            return "there are no result rows".to_owned();
        }
        let shown = self.targets.iter().take(MOST_TARGETS);
        let mut parts: Vec<String> =
            shown.map(|target| format!("{}: {}", target.label(), target.tally())).collect();
        if self.targets.len() > MOST_TARGETS {
            parts.push(format!("... {} more kernels", self.targets.len() - MOST_TARGETS));
        }
        let mut text = parts.join("; ");
        if self.twin_only() {
            text.push_str(". No shader was run: the CPU twin alone says nothing about a GPU");
        }
        text
    }
}

fn kernel_rank(kernel: &str) -> u8 {
    match kernel {
        WGSL => 0,
        CPU_TWIN => 2,
        _ => 1,
    }
}

/// Whether a kernel was really asked.
fn ran(status: Status) -> bool {
    !matches!(status.class(), Class::Skip | Class::NotRun)
}

fn counts(rows: &[Row]) -> Vec<LayoutCounts<'_>> {
    let mut sums: Vec<LayoutCounts<'_>> = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows {
        let Some(counts) = row.counts.filter(|_| seen.insert((&row.id, &row.layout))) else { continue };
        match sums.iter_mut().find(|sum| sum.layout == row.layout) {
            Some(sum) => {
                sum.cases += 1;
                sum.counts = sum.counts.plus(counts);
            }
            None => sums.push(LayoutCounts { layout: &row.layout, cases: 1, counts }),
        }
    }
    sums
}

fn gaps(rows: &[Row]) -> Vec<Gap<'_>> {
    let mut groups: BTreeMap<(Reverse<Status>, &str), usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| !matches!(row.status.class(), Class::Pass | Class::Fail)) {
        *groups.entry((Reverse(row.status), row.detail.as_deref().unwrap_or_default())).or_insert(0) += 1;
    }
    groups.into_iter().map(|((Reverse(status), reason), rows)| Gap { status, reason, rows }).collect()
}
