//! The kill matrix for a terminal.

use super::{Cell, Fate, FaultRow, KillMatrix};
use crate::evidence::{SENTENCE, WORD};
use crate::format::{clean, percent};
use crate::grid::Grid;
use crate::model::Class;
use crate::text::{Style, figures, paint, push, section, wrap};

/// What the marks of the matrix mean.
pub(super) const MARKS: &str = "one column a case, numbered as below: # caught in every layout that reaches the fault, \
    + in some of them, - in none, . not reached";
/// What the columns of the table of rules mean.
pub(super) const CRITERIA_NOTE: &str = "faults: wrong kernels that the rule rejects in at least one case; numbers only: \
    of those faults that change finite numbers and nothing else; false alarms: outputs of right kernels rejected. The \
    bound also judges the LSE, guards, unwritten elements, repeated runs, poison and reads; the other rules see the \
    output tensor alone.";
/// Wrong diagnoses printed; the rest is counted.
const MISSED: usize = 20;

/// The whole report, ending in a line feed.
pub fn render(matrix: &KillMatrix, style: Style) -> String {
    let mut out = String::new();
    let class = if matrix.passes() { Class::Pass } else { Class::Fail };
    push(&mut out, &paint(style, class, &matrix.headline()));
    push(&mut out, &wrap(&facts(matrix), 2, style.width));
    problems(&mut out, matrix, style);
    section(&mut out, "Kill matrix");
    push(&mut out, &wrap(MARKS, 1, style.width));
    strips(&mut out, matrix);
    cases(&mut out, matrix, style);
    if matrix.of(Fate::Equivalent).next().is_some() {
        section(&mut out, "Equivalent: the same function, so nothing can tell them apart");
        for fault in matrix.of(Fate::Equivalent) {
            let reason = fault.equivalent.as_deref().unwrap_or_default();
            push(&mut out, &wrap(&clean(&format!("{}: {reason}", fault.id), SENTENCE), 1, style.width));
        }
    }
    if !matrix.criteria.is_empty() {
        section(&mut out, "What other pass rules catch, on the same outputs");
        push(&mut out, &figures(criteria(matrix), style));
        for rule in &matrix.criteria {
            push(&mut out, &wrap(&clean(&format!("{}: {}", rule.name, rule.rule), SENTENCE), 1, style.width));
        }
        push(&mut out, &wrap(CRITERIA_NOTE, 1, style.width));
    }
    diagnosis(&mut out, matrix, style);
    out
}

pub(super) fn facts(matrix: &KillMatrix) -> String {
    let (reached, killed) =
        matrix.faults.iter().map(FaultRow::pairs).fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    format!(
        "attnproof {}, suite {}, seed {}, precision model {}; {killed} of {reached} (fault, case, layout) triples caught; \
         {:.1} s",
        clean(&matrix.version, WORD),
        clean(&matrix.suite, WORD),
        clean(&matrix.seed, WORD),
        clean(&matrix.model, WORD),
        matrix.seconds
    )
}

fn problems(out: &mut String, matrix: &KillMatrix, style: Style) {
    for (fate, title) in [
        (Fate::Survived, "SURVIVES"),
        (Fate::Unreached, "REACHED BY NO CASE"),
        (Fate::Accused, "DECLARED EQUIVALENT, YET CAUGHT"),
    ] {
        if fate == Fate::Unreached && !matrix.whole {
            continue;
        }
        for fault in matrix.of(fate) {
            let (reached, killed) = fault.pairs();
            push(
                out,
                &format!("\n{}", paint(style, Class::Fail, &format!("{title}  {}", clean(&fault.id, WORD)))),
            );
            let line = format!("{} ({}; {killed} of {reached} pairs)", fault.says, fault.kind);
            push(out, &wrap(&clean(&line, SENTENCE), 2, style.width));
        }
    }
    for alarm in &matrix.false_alarms {
        push(out, &format!("\n{}", paint(style, Class::Fail, "FALSE ALARM")));
        push(out, &wrap(&clean(alarm, SENTENCE), 2, style.width));
    }
}

fn strips(out: &mut String, matrix: &KillMatrix) {
    let widest = matrix.faults.iter().map(|fault| clean(&fault.id, WORD).chars().count()).max().unwrap_or(0);
    let mut kind = "";
    for fault in &matrix.faults {
        if fault.kind != kind {
            kind = &fault.kind;
            push(out, &format!("{} ({})", clean(kind, WORD), clean(&fault.site, WORD)));
        }
        push(out, &format!("  {:widest$}  {}", clean(&fault.id, WORD), strip(fault, matrix.cases.len())));
    }
}

/// One mark a case.
fn strip(fault: &FaultRow, cases: usize) -> String {
    let mut marks = vec!['.'; cases];
    for cell in &fault.cells {
        if let Some(slot) = marks.get_mut(cell.case) {
            *slot = mark(*cell);
        }
    }
    marks.into_iter().collect()
}

fn mark(cell: Cell) -> char {
    match (cell.killed, cell.killed >= cell.reached) {
        (0, _) => '-',
        (_, true) => '#',
        (_, false) => '+',
    }
}

fn cases(out: &mut String, matrix: &KillMatrix, style: Style) {
    section(out, "Cases: faults each catches, and those that it alone catches");
    let only = matrix.only_killers();
    for (number, case) in matrix.cases.iter().enumerate() {
        let alone = only.iter().find(|(name, _)| name == case).map(|(_, faults)| faults.join(", "));
        let kills = matrix.killed_by(case).len();
        let tail = alone.map_or_else(String::new, |faults| format!("; alone: {faults}"));
        push(out, &wrap(&format!("{:>3} {}: {kills}{tail}", number + 1, clean(case, WORD)), 1, style.width));
    }
}

/// The table of rules: the bound first.
pub(super) fn criteria(matrix: &KillMatrix) -> Grid {
    let header = ["rule", "faults", "numbers only", "false alarms"];
    let rows = matrix.criteria.iter().map(|rule| {
        let rate = |killed: usize, of: usize| {
            let share = (of > 0).then(|| killed as f64 / of as f64);
            format!("{killed} of {of} ({})", percent(share))
        };
        vec![
            clean(&rule.name, WORD),
            rate(rule.killed, rule.of),
            rate(rule.killed_numbers, rule.of_numbers),
            format!("{} of {}", rule.false_alarms, rule.right),
        ]
    });
    Grid { header: header.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn diagnosis(out: &mut String, matrix: &KillMatrix, style: Style) {
    let Some(accuracy) = &matrix.diagnosis else { return };
    section(out, "Diagnosis");
    push(out, &wrap(&accuracy.sentence(), 1, style.width));
    let missed = accuracy.missed.iter().map(|missed| format!("not named: {missed}"));
    let mistaken = accuracy.mistaken.iter().map(|mistaken| format!("taken for another: {mistaken}"));
    let all: Vec<String> = missed.chain(mistaken).collect();
    for line in all.iter().take(MISSED) {
        push(out, &wrap(&clean(line, SENTENCE), 1, style.width));
    }
    if all.len() > MISSED {
        push(out, &format!(" ... {} more", all.len() - MISSED));
    }
}
