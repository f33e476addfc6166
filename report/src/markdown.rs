//! The report as GitHub-flavoured Markdown, for a step summary or a pull request; always below 1 MiB.

use std::convert::Infallible;
use std::fmt::Write;

use crate::environment;
use crate::evidence::{self, SENTENCE, WORD};
use crate::format::{clean, fit, sig};
use crate::grid::{self, Grid};
use crate::model::{Class, Row, Status};
use crate::summary::{MOST_TARGETS, Summary, Target};
use crate::target::place;

/// The whole report, ending in a line feed. Lists are cut to keep the page small, and say how much was cut.
pub fn render(rows: &[Row]) -> String {
    let summary = Summary::of(rows);
    let Ok(page) = fit(|most| Ok::<_, Infallible>(page(&summary, most)));
    page
}

fn page(summary: &Summary<'_>, most: usize) -> String {
    let mut out = Page(String::new());
    out.block(&format!("# attnproof report\n\n**{}**", escape(&summary.headline())));
    let facts: Vec<Vec<String>> = environment::facts(summary)
        .into_iter()
        .map(|(label, value)| vec![escape(&label), escape(&value)])
        .collect();
    if !facts.is_empty() {
        out.table(&["environment", ""], &facts, most);
    }
    for target in summary.targets.iter().take(MOST_TARGETS) {
        out.block(&format!("## {}", escape(&target.label())));
        matrix(&mut out, target, most);
    }
    failures(&mut out, summary, most);
    gaps(&mut out, summary, most);
    if let Some((row, used)) = summary.largest().and_then(|row| Some((row, row.budget_used?))) {
        let at = escape(&place(&row.kernel, &row.adapter));
        let id = escape(&clean(&row.id, WORD));
        out.block(&format!("Largest share of the bound: {}x in {id} on {at}.", sig(used, 3)));
    }
    for target in summary.targets.iter().filter(|target| !target.reads.is_empty()).take(MOST_TARGETS) {
        out.block(&format!("## Read amplification, {}", escape(&target.label())));
        out.grid(&grid::reads(target), most);
        out.block(grid::READS_NOTE);
        if !target.reads_comparable {
            out.block(grid::INCOMPARABLE);
        }
    }
    if !summary.counts.is_empty() {
        out.block("## KV manager, sums over cases");
        out.grid(&grid::counts(summary), most);
        out.block(grid::COUNTS_NOTE);
    }
    out.0
}

fn matrix(out: &mut Page, target: &Target<'_>, most: usize) {
    let layouts = target.layouts.len().min(most);
    let mut header = vec!["case".to_owned()];
    header.extend(target.layouts.iter().take(layouts).map(|layout| escape(&clean(layout, WORD))));
    if layouts < target.layouts.len() {
        header.push(format!("... {} more layouts", target.layouts.len() - layouts));
    }
    header.push("bound used".to_owned());
    let lines = target.cases.iter().enumerate().take(most).map(|(c, name)| {
        let mut line = vec![escape(&clean(name, WORD))];
        line.extend(
            (0..layouts).map(|l| target.cells.get(&(c, l)).map_or_else(String::new, |x| word(x.status))),
        );
        line.resize(header.len() - 1, String::new());
        line.push(target.case_budget(c).map_or_else(String::new, |used| sig(used, 2)));
        line
    });
    let lines: Vec<Vec<String>> = lines.collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    out.table(&header, &lines, most);
    out.cut(target.cases.len(), most, "cases");
}

fn word(status: Status) -> String {
    match status.class() {
        Class::Fail => format!("{} **{status}**", status.class().glyph()),
        class => format!("{} {status}", class.glyph()).replace('~', "\\~"),
    }
}

fn failures(out: &mut Page, summary: &Summary<'_>, most: usize) {
    if summary.failing.is_empty() {
        return;
    }
    out.block("## Failures");
    for row in summary.failing.iter().take(most) {
        let mut text = format!(
            "{}  {}    {}",
            row.status.name().to_uppercase(),
            clean(&row.id, SENTENCE),
            place(&row.kernel, &row.adapter)
        );
        for line in evidence::lines(row) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
        out.block(&format!("{fence}text\n{text}\n{fence}"));
    }
    out.cut(summary.failing.len(), most, "failing rows");
}

fn gaps(out: &mut Page, summary: &Summary<'_>, most: usize) {
    if summary.gaps.is_empty() {
        return;
    }
    out.block("## Neither passed nor failed");
    let lines: Vec<Vec<String>> = summary
        .gaps
        .iter()
        .take(most)
        .map(|gap| vec![gap.status.to_string(), gap.rows.to_string(), escape(&gap.words())])
        .collect();
    out.table(&["status", "rows", "reason"], &lines, most);
    out.cut(summary.gaps.len(), most, "reasons");
}

/// Text under construction; every block is followed by a blank line but the last.
struct Page(String);

impl Page {
    fn block(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn table(&mut self, header: &[&str], lines: &[Vec<String>], most: usize) {
        let mut text = format!("| {} |\n|{}", header.join(" | "), " --- |".repeat(header.len()));
        for line in lines.iter().take(most) {
            let _ = write!(text, "\n| {} |", line.join(" | "));
        }
        self.block(&text);
    }

    fn grid(&mut self, grid: &Grid, most: usize) {
        let total = grid.rows.len();
        let lines: Vec<Vec<String>> =
            grid.rows.iter().map(|line| line.iter().map(|cell| escape(cell)).collect()).collect();
        let header: Vec<&str> = grid.header.iter().map(String::as_str).collect();
        self.table(&header, &lines, most);
        self.cut(total, most, "layouts");
    }

    fn cut(&mut self, total: usize, most: usize, what: &str) {
        if total > most {
            self.block(&format!("... {} more {what} in the results file", total - most));
        }
    }
}

/// `text` as inline text of a GitHub table cell: no markup, no HTML, no mention.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' if chars.peek().is_some_and(|next| !next.is_whitespace()) => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}
