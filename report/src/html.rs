//! The report as one HTML page that stands alone: no script, no network, light and dark, always below 1 MiB.

use askama::Template;

use crate::environment;
use crate::evidence::{self, SENTENCE, WORD};
use crate::format::{clean, fit, ratio, sig};
use crate::grid::{self, Grid};
use crate::model::{Class, Row};
use crate::summary::{MOST_TARGETS, Summary};
use crate::svg;
use crate::target::place;

/// The whole page. Lists are cut to keep it small, and say how much was cut.
///
/// # Errors
/// The template's own.
pub fn render(rows: &[Row]) -> Result<String, askama::Error> {
    let summary = Summary::of(rows);
    fit(|most| Page::of(&summary, most).render())
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    verdict: &'static str,
    verdict_class: &'static str,
    tally: String,
    chips: Vec<Chip>,
    facts: Vec<(String, String)>,
    targets: Vec<Pictures>,
    targets_cut: usize,
    largest: Option<(String, String)>,
    failures: Vec<Failure>,
    failures_cut: usize,
    gaps: Vec<(Chip, String)>,
    gaps_cut: usize,
    reads_note: &'static str,
    incomparable: &'static str,
    counts: Grid,
    counts_note: &'static str,
    groups: Vec<(String, Vec<Line>)>,
    rows_total: usize,
    rows_cut: usize,
}

/// A status with a number of rows.
struct Chip {
    class: &'static str,
    glyph: &'static str,
    status: &'static str,
    rows: usize,
}

/// Everything drawn for one kernel on one adapter; the pictures are SVG, already escaped.
struct Pictures {
    label: String,
    tally: String,
    matrix: String,
    budget: String,
    reads: Option<(String, Grid)>,
    reads_comparable: bool,
}

struct Failure {
    status: &'static str,
    id: String,
    place: String,
    lines: Vec<String>,
}

/// One line of the table of all rows.
struct Line {
    class: &'static str,
    glyph: &'static str,
    status: &'static str,
    id: String,
    budget: String,
    evidence: String,
    requested: String,
    digest: String,
    time: String,
}

impl Page {
    fn of(summary: &Summary<'_>, most: usize) -> Self {
        let mut counts = grid::counts(summary);
        counts.rows.truncate(most);
        let pictures = summary.targets.iter().take(MOST_TARGETS).map(|target| {
            let table = || {
                let mut table = grid::reads(target);
                table.rows.truncate(most);
                (svg::reads(target, most), table)
            };
            Pictures {
                label: target.label(),
                tally: target.tally(),
                matrix: svg::matrix(target, most),
                budget: svg::budget(target, most),
                reads: (!target.reads.is_empty()).then(table),
                reads_comparable: target.reads_comparable,
            }
        });
        Self {
            verdict: summary.verdict().words(),
            verdict_class: summary.verdict().class().word(),
            tally: summary.tally(),
            chips: summary.statuses.iter().rev().map(|(&status, &rows)| Chip::of(status, rows)).collect(),
            facts: environment::facts(summary),
            targets: pictures.collect(),
            targets_cut: summary.targets.len().saturating_sub(MOST_TARGETS),
            largest: summary.largest().and_then(|row| {
                Some((
                    sig(row.budget_used?, 3),
                    format!("{} on {}", clean(&row.id, WORD), place(&row.kernel, &row.adapter)),
                ))
            }),
            failures: summary.failing.iter().take(most).map(|row| Failure::of(row)).collect(),
            failures_cut: summary.failing.len().saturating_sub(most),
            gaps: summary
                .gaps
                .iter()
                .take(most)
                .map(|gap| (Chip::of(gap.status, gap.rows), gap.words()))
                .collect(),
            gaps_cut: summary.gaps.len().saturating_sub(most),
            reads_note: grid::READS_NOTE,
            incomparable: grid::INCOMPARABLE,
            counts,
            counts_note: grid::COUNTS_NOTE,
            groups: groups(summary, most),
            rows_total: summary.rows.len(),
            rows_cut: summary.rows.len().saturating_sub(most),
        }
    }
}

/// The first `most` rows, kernel by kernel.
fn groups(summary: &Summary<'_>, most: usize) -> Vec<(String, Vec<Line>)> {
    let mut left = most;
    let mut groups = Vec::new();
    for target in &summary.targets {
        let lines: Vec<Line> = target.rows().take(left).map(Line::of).collect();
        left -= lines.len();
        if !lines.is_empty() {
            groups.push((target.label(), lines));
        }
    }
    groups
}

impl Chip {
    fn of(status: crate::model::Status, rows: usize) -> Self {
        let class = status.class();
        Self { class: class.word(), glyph: class.glyph(), status: status.name(), rows }
    }
}

impl Failure {
    fn of(row: &Row) -> Self {
        Self {
            status: row.status.name(),
            id: clean(&row.id, SENTENCE),
            place: place(&row.kernel, &row.adapter),
            lines: evidence::lines(row),
        }
    }
}

impl Line {
    fn of(row: &Row) -> Self {
        let class = row.status.class();
        let reason = row.detail.as_deref().filter(|_| class != Class::Pass).map(|detail| clean(detail, WORD));
        let element = row.worst.as_ref().map(evidence::element);
        Self {
            class: class.word(),
            glyph: class.glyph(),
            status: row.status.name(),
            id: clean(&row.id, WORD),
            budget: evidence::budget(row),
            evidence: reason.or(element).unwrap_or_default(),
            requested: row.reads.as_ref().map_or_else(String::new, |reads| ratio(reads.requested_ratio())),
            digest: row.inputs_sha256.get(..12).map_or_else(String::new, |head| clean(head, WORD)),
            time: format!("{} ms", sig(row.time_ms, 3)),
        }
    }
}
