//! The report for a terminal: headline, a table of cases by layouts, failures in full, reads and trace counts.

use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, presets};

use crate::environment;
use crate::evidence::{self, SENTENCE, WORD};
use crate::format::{clean, sig};
use crate::grid::{self, Grid};
use crate::model::{Class, Row, Status};
use crate::summary::{Summary, Target};
use crate::target::place;

/// Failures printed in full; the rest is counted.
const FAILURES: usize = 20;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours and glyphs; without it every status is a plain word.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
}

/// The whole report, ending in a line feed.
pub fn render(rows: &[Row], style: Style) -> String {
    let summary = Summary::of(rows);
    let mut out = String::new();
    let verdict = summary.verdict();
    push(&mut out, &paint(style, verdict.class(), &summary.headline()));
    for (label, value) in environment::facts(&summary) {
        push(&mut out, &wrap(&format!("{label}: {value}"), 2, style.width));
    }
    for target in &summary.targets {
        section(&mut out, &target.label());
        push(&mut out, &matrix(target, style));
    }
    failures(&mut out, &summary, style);
    for gap in &summary.gaps {
        push(&mut out, &format!("{}, {} of {} rows: {}", gap.status, gap.rows, rows.len(), gap.words()));
    }
    if let Some((row, used)) = summary.largest().and_then(|row| Some((row, row.budget_used?))) {
        let at = place(&row.kernel, &row.adapter);
        push(
            &mut out,
            &format!("\nlargest share of the bound: {}x in {} on {at}", sig(used, 3), clean(&row.id, WORD)),
        );
    }
    reads(&mut out, &summary, style);
    if !summary.counts.is_empty() {
        section(&mut out, "KV manager, sums over cases");
        push(&mut out, &figures(grid::counts(&summary).turned(), style));
        push(&mut out, &wrap(grid::COUNTS_NOTE, 1, style.width));
    }
    out
}

/// Read amplification; targets with the same figures share a table.
fn reads(out: &mut String, summary: &Summary<'_>, style: Style) {
    let mut tables: Vec<(String, String)> = Vec::new();
    for target in summary.targets.iter().filter(|target| !target.reads.is_empty()) {
        let mut table = figures(grid::reads(target), style);
        if !target.reads_comparable {
            table = format!("{table}\n{}", grid::INCOMPARABLE);
        }
        match tables.iter_mut().find(|(known, _)| *known == table) {
            Some((_, labels)) => *labels = format!("{labels}; {}", target.label()),
            None => tables.push((table, target.label())),
        }
    }
    for (table, labels) in &tables {
        section(out, &format!("read amplification, {labels}"));
        push(out, table);
    }
    if !tables.is_empty() {
        push(out, &wrap(grid::READS_NOTE, 1, style.width));
    }
}

fn failures(out: &mut String, summary: &Summary<'_>, style: Style) {
    for row in summary.failing.iter().take(FAILURES) {
        let head = format!("{}  {}", row.status.name().to_uppercase(), clean(&row.id, SENTENCE));
        push(out, &format!("\n{}    {}", paint(style, Class::Fail, &head), place(&row.kernel, &row.adapter)));
        for line in evidence::lines(row) {
            push(out, &format!("  {line}"));
        }
    }
    if summary.failing.len() > FAILURES {
        push(out, &format!("\n... {} more failing rows", summary.failing.len() - FAILURES));
    }
    if !summary.failing.is_empty() {
        out.push('\n');
    }
}

/// Case by layout, with the largest share of the bound that any layout of the case uses.
fn matrix(target: &Target<'_>, style: Style) -> String {
    let header = std::iter::once("case".to_owned())
        .chain(target.layouts.iter().map(|layout| clean(layout, WORD).replace('-', "-\n")))
        .chain(["bound\nused".to_owned()]);
    let mut table = new_table(style, header);
    for (c, name) in target.cases.iter().enumerate() {
        let mut line = vec![Cell::new(clean(name, WORD))];
        for l in 0..target.layouts.len() {
            line.push(
                target
                    .cells
                    .get(&(c, l))
                    .map_or_else(|| Cell::new(""), |cell| status_cell(style, cell.status)),
            );
        }
        let used = target.case_budget(c).map_or_else(String::new, |used| sig(used, 2));
        line.push(Cell::new(used).set_alignment(CellAlignment::Right));
        table.add_row(line);
    }
    table.trim_fmt()
}

fn status_cell(style: Style, status: Status) -> Cell {
    if style.color {
        Cell::new(format!("{} {status}", status.class().glyph())).fg(color(status.class()))
    } else {
        Cell::new(status)
    }
}

/// First column flush left, figures flush right.
pub(crate) fn figures(grid: Grid, style: Style) -> String {
    let mut table = new_table(style, grid.header.iter().map(|name| name.replace('-', "-\n")));
    for line in grid.rows {
        let cells = line.into_iter().enumerate().map(|(i, value)| {
            let alignment = if i == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(value).set_alignment(alignment)
        });
        table.add_row(cells.collect::<Vec<_>>());
    }
    table.trim_fmt()
}

fn new_table(style: Style, header: impl IntoIterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(style.width.max(20)).unwrap_or(u16::MAX));
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(header.into_iter().map(Cell::new).collect::<Vec<_>>());
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

const fn color(class: Class) -> Color {
    match class {
        Class::Pass => Color::Green,
        Class::Fail => Color::Red,
        Class::Skip | Class::Excused => Color::Yellow,
        Class::NotRun => Color::Magenta,
    }
}

/// Bold and coloured by ECMA-48 (SGR 31 to 35), or unchanged.
pub(crate) fn paint(style: Style, class: Class, text: &str) -> String {
    if !style.color {
        return text.to_owned();
    }
    let code = match class {
        Class::Pass => 32,
        Class::Fail => 31,
        Class::Skip | Class::Excused => 33,
        Class::NotRun => 35,
    };
    format!("\u{1b}[1;{code}m{text}\u{1b}[0m")
}

/// Prose set in by `indent` and broken at spaces so that lines fit, continued lines two deeper; no word is cut.
pub fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = " ".repeat(indent);
    let mut column = indent;
    for (i, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if i > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent + 2));
            column = indent + 2;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

pub(crate) fn section(out: &mut String, title: &str) {
    push(out, &format!("\n{title}"));
}

pub(crate) fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}
