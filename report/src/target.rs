//! One kernel on one adapter: its rows as a matrix of cases by layouts, and what they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::format::clean;
use crate::model::{Adapter, Reads, Row, Status};

/// Rows of one (case, layout) pair on one target. More than one id shares a pair where a case is run with several
/// parameters.
#[derive(Debug, Clone)]
pub struct Cell<'a> {
    /// The most severe status of the pair.
    pub status: Status,
    /// The rows, in file order; never empty.
    pub rows: Vec<&'a Row>,
}

/// Sums over the passing rows of one layout that carry measured reads, of those cases that every measured layout
/// passed.
#[derive(Debug, Clone)]
pub struct LayoutReads<'a> {
    /// Layout name.
    pub layout: &'a str,
    /// Rows summed.
    pub rows: usize,
    /// Rows whose measured reads equal the predicted ones.
    pub predicted: usize,
    /// The sums; ratios taken from them are ratios of sums.
    pub reads: Reads,
}

/// One kernel on one adapter.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    /// Kernel name.
    pub kernel: &'a str,
    /// Where it ran.
    pub adapter: &'a Adapter,
    /// Rows per status; statuses without rows are absent.
    pub statuses: BTreeMap<Status, usize>,
    /// Case names, in the order in which they first appear.
    pub cases: Vec<&'a str>,
    /// Layout names, in the order in which they first appear.
    pub layouts: Vec<&'a str>,
    /// Index into `cases`, index into `layouts` to the rows of that pair.
    pub cells: BTreeMap<(usize, usize), Cell<'a>>,
    /// The row with the largest finite `budget_used`.
    pub largest: Option<&'a Row>,
    /// Measured reads per layout, in the order of `layouts`; layouts without any are absent.
    pub reads: Vec<LayoutReads<'a>>,
    /// Whether `reads` sums the same cases for every layout. It does unless no case passed on all of them; then
    /// every layout sums its own, and layouts must not be compared.
    pub reads_comparable: bool,
}

impl<'a> Target<'a> {
    pub(crate) fn of(kernel: &'a str, adapter: &'a Adapter, rows: &[&'a Row]) -> Self {
        let cases = distinct(rows.iter().map(|row| row.name.as_str()));
        let layouts = distinct(rows.iter().map(|row| row.layout.as_str()));
        let case_index: BTreeMap<&str, usize> =
            cases.iter().enumerate().map(|(i, &name)| (name, i)).collect();
        let layout_index: BTreeMap<&str, usize> =
            layouts.iter().enumerate().map(|(i, &name)| (name, i)).collect();
        let mut cells: BTreeMap<(usize, usize), Cell<'a>> = BTreeMap::new();
        for &row in rows {
            let at = (case_index[row.name.as_str()], layout_index[row.layout.as_str()]);
            let cell = cells.entry(at).or_insert_with(|| Cell { status: row.status, rows: Vec::new() });
            cell.status = Status::worse(cell.status, row.status);
            cell.rows.push(row);
        }
        let (reads, reads_comparable) = layout_reads(rows, &layouts);
        Self {
            kernel,
            adapter,
            statuses: count(rows.iter().copied()),
            cases,
            layouts,
            cells,
            largest: largest(rows.iter().copied()),
            reads,
            reads_comparable,
        }
    }

    /// Rows of one status.
    pub fn count(&self, status: Status) -> usize {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// All rows.
    pub fn total(&self) -> usize {
        self.statuses.values().sum()
    }

    /// The largest finite share of the bound that any layout of a case uses.
    pub fn case_budget(&self, case: usize) -> Option<f64> {
        largest(self.case_rows(case)).and_then(|row| row.budget_used)
    }

    /// All rows, case by case and layout by layout.
    pub fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.cells.values().flat_map(|cell| cell.rows.iter().copied())
    }

    /// The rows of a case, layout by layout.
    pub fn case_rows(&self, case: usize) -> impl Iterator<Item = &'a Row> {
        self.cells.range((case, 0)..=(case, usize::MAX)).flat_map(|(_, cell)| cell.rows.iter().copied())
    }

    /// `kernel @ adapter, driver`, as rows name them.
    pub fn label(&self) -> String {
        place(self.kernel, self.adapter)
    }

    /// `148 of 150 pass, 2 wrong`: every status that has rows is named, most severe first.
    pub fn tally(&self) -> String {
        let mut text = format!("{} of {} pass", self.count(Status::Pass), self.total());
        for (status, n) in self.statuses.iter().rev().filter(|(status, _)| **status != Status::Pass) {
            let _ = write!(text, ", {n} {status}");
        }
        text
    }
}

impl<'a> LayoutReads<'a> {
    fn of(layout: &'a str, measured: &[&'a Row]) -> Option<Self> {
        let of_layout: Vec<&Reads> =
            measured.iter().filter(|row| row.layout == layout).filter_map(|row| row.reads.as_ref()).collect();
        let (first, rest) = of_layout.split_first()?;
        Some(Self {
            layout,
            rows: of_layout.len(),
            predicted: of_layout.iter().filter(|reads| reads.predicted_equal).count(),
            reads: rest.iter().fold((*first).clone(), |sum, reads| sum.plus(reads)),
        })
    }
}

/// `kernel @ adapter, driver`, without control characters.
pub(crate) fn place(kernel: &str, adapter: &Adapter) -> String {
    let part = |text: &str| clean(text, 80);
    let mut text = format!("{} @ {}", part(kernel), part(&adapter.name));
    if !adapter.driver.is_empty() {
        let _ = write!(text, ", {}", part(&adapter.driver));
    }
    text
}

pub(crate) fn count<'a>(rows: impl IntoIterator<Item = &'a Row>) -> BTreeMap<Status, usize> {
    let mut statuses = BTreeMap::new();
    for row in rows {
        *statuses.entry(row.status).or_insert(0) += 1;
    }
    statuses
}

/// The first of the rows with the largest finite budget.
pub(crate) fn largest<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<&'a Row> {
    let mut best: Option<(&Row, f64)> = None;
    for row in rows {
        if let Some(used) = row.budget_used.filter(|used| used.is_finite())
            && best.is_none_or(|(_, most)| used > most)
        {
            best = Some((row, used));
        }
    }
    best.map(|(row, _)| row)
}

fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(*value)).collect()
}

fn layout_reads<'a>(rows: &[&'a Row], layouts: &[&'a str]) -> (Vec<LayoutReads<'a>>, bool) {
    let measured: Vec<&Row> =
        rows.iter().copied().filter(|row| row.status == Status::Pass && row.reads.is_some()).collect();
    let cases: Vec<BTreeSet<&str>> = layouts
        .iter()
        .map(|&layout| {
            measured.iter().filter(|row| row.layout == layout).map(|row| row.name.as_str()).collect()
        })
        .filter(|cases: &BTreeSet<&str>| !cases.is_empty())
        .collect();
    let common = cases.iter().cloned().reduce(|a, b| &a & &b).unwrap_or_default();
    let comparable = !common.is_empty();
    let summed: Vec<&Row> =
        measured.into_iter().filter(|row| !comparable || common.contains(row.name.as_str())).collect();
    (layouts.iter().filter_map(|&layout| LayoutReads::of(layout, &summed)).collect(), comparable)
}
