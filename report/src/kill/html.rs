//! The kill matrix as one HTML page that stands alone.

use askama::Template;

use super::text::{CRITERIA_NOTE, criteria, facts};
use super::{Fate, FaultRow, KillMatrix};
use crate::grid::Grid;

/// The whole page: no script, no network access.
///
/// # Errors
/// The template's own.
pub fn render(matrix: &KillMatrix) -> Result<String, askama::Error> {
    Page::of(matrix).render()
}

#[derive(Template)]
#[template(path = "kill.html")]
struct Page {
    passes: bool,
    headline: String,
    facts: String,
    problems: Vec<(&'static str, String, String)>,
    numbers: Vec<usize>,
    kinds: Vec<Kind>,
    cases: Vec<(usize, String, usize, String)>,
    equivalent: Vec<(String, String)>,
    criteria: Grid,
    rules: Vec<String>,
    criteria_note: &'static str,
    diagnosis: Option<(String, Vec<String>)>,
}

struct Kind {
    name: String,
    faults: Vec<Line>,
}

struct Line {
    id: String,
    says: String,
    marks: Vec<Mark>,
}

struct Mark {
    class: &'static str,
    glyph: char,
    title: String,
}

impl Page {
    fn of(matrix: &KillMatrix) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        for fault in &matrix.faults {
            let name = format!("{} ({})", fault.kind, fault.site);
            if kinds.last().is_none_or(|kind| kind.name != name) {
                kinds.push(Kind { name, faults: Vec::new() });
            }
            if let Some(kind) = kinds.last_mut() {
                kind.faults.push(line(fault, matrix));
            }
        }
        let only = matrix.only_killers();
        let cases = matrix.cases.iter().enumerate().map(|(index, case)| {
            let alone = only.iter().find(|(name, _)| name == case).map(|(_, faults)| faults.join(", "));
            (index + 1, case.clone(), matrix.killed_by(case).len(), alone.unwrap_or_default())
        });
        let named = |fate, title| {
            matrix.of(fate).map(move |fault: &FaultRow| (title, fault.id.clone(), fault.says.clone()))
        };
        let unreached = named(Fate::Unreached, "reached by no case").filter(|_| matrix.whole);
        let alarms = matrix.false_alarms.iter().map(|alarm| ("false alarm", alarm.clone(), String::new()));
        Self {
            passes: matrix.passes(),
            headline: matrix.headline(),
            facts: facts(matrix),
            problems: named(Fate::Survived, "survives")
                .chain(unreached)
                .chain(named(Fate::Accused, "declared equivalent, yet caught"))
                .chain(alarms)
                .collect(),
            numbers: (1..=matrix.cases.len()).collect(),
            kinds,
            cases: cases.collect(),
            equivalent: matrix
                .of(Fate::Equivalent)
                .map(|fault| (fault.id.clone(), fault.equivalent.clone().unwrap_or_default()))
                .collect(),
            criteria: criteria(matrix),
            rules: matrix.criteria.iter().map(|rule| format!("{}: {}", rule.name, rule.rule)).collect(),
            criteria_note: CRITERIA_NOTE,
            diagnosis: matrix.diagnosis.as_ref().map(|d| (d.sentence(), d.missed.clone())),
        }
    }
}

fn line(fault: &FaultRow, matrix: &KillMatrix) -> Line {
    let marks = matrix.cases.iter().enumerate().map(|(index, case)| {
        let Some(cell) = fault.cells.iter().find(|cell| cell.case == index) else {
            return Mark { class: "none", glyph: ' ', title: format!("{case}: not reached") };
        };
        let (class, glyph) = match (cell.killed, cell.killed >= cell.reached) {
            (0, _) => ("alive", '\u{00b7}'),
            (_, true) => ("dead", '\u{2717}'),
            (_, false) => ("some", '\u{2717}'),
        };
        let status = cell.status.map_or_else(String::new, |status| format!(", {status}"));
        let title = format!("{case}: caught in {} of {} layouts{status}", cell.killed, cell.reached);
        Mark { class, glyph, title }
    });
    Line { id: fault.id.clone(), says: fault.says.clone(), marks: marks.collect() }
}
