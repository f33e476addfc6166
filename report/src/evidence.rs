//! A row's evidence in words, the same in every renderer: what is wrong, where, and how to run it again.

use std::fmt::Write;

use crate::format::{clean, grouped, shell_word, sig};
use crate::model::{Class, Diagnosis, Row, Worst};
use crate::summary::{CPU_TWIN, PLANTED, WGSL};

/// Longest foreign string printed inside a sentence, in characters.
pub(crate) const SENTENCE: usize = 400;
/// Longest id printed in a table, in characters.
pub(crate) const WORD: usize = 120;

/// `o: 1024 of 24576 elements over the bound, worst 61.3x at check 0, row A, [0, 4, 17]: got 0.0312, want 0.9883
/// (bound 0.0156)`; none for a row that carries neither an element nor a count.
pub(crate) fn measured(row: &Row) -> Option<String> {
    let mut text = String::new();
    if let Some(over) = &row.over {
        let tensor = clean(&over.tensor, WORD);
        let _ = write!(
            text,
            "{tensor}: {} of {} elements over the bound",
            grouped(over.over),
            grouped(over.total)
        );
    }
    if let Some(worst) = &row.worst {
        match &row.over {
            Some(over) if over.tensor == worst.tensor => text.push_str(", worst "),
            Some(_) => {
                let _ = write!(text, "; worst in {} ", clean(&worst.tensor, WORD));
            }
            None => {
                let _ = write!(text, "{}: worst ", clean(&worst.tensor, WORD));
            }
        }
        let _ = write!(text, "{} at {}", budget(row), element(worst));
    }
    (!text.is_empty()).then_some(text)
}

/// `check 0, row A, [0, 4, 17]: got 0.0312, want 0.9883 (bound 0.0156)`.
pub(crate) fn element(worst: &Worst) -> String {
    format!(
        "check {}, row {}, {:?}: got {}, want {} (bound {})",
        worst.check,
        clean(&worst.row, WORD),
        worst.index,
        worst.got,
        worst.want,
        sig(worst.bound.0, 3)
    )
}

/// The share of the bound as a multiple; where none is finite but an element was judged, so in words.
pub(crate) fn budget(row: &Row) -> String {
    match row.budget_used {
        Some(used) if used.is_finite() => format!("{}x", sig(used, 3)),
        _ if row.worst.is_some() => "beyond any multiple".to_owned(),
        _ => "not judged".to_owned(),
    }
}

/// Lines under the head of a failure: the measurement, the reason, why the case exists, how to run it again.
pub(crate) fn lines(row: &Row) -> Vec<String> {
    let mut lines: Vec<String> = measured(row).into_iter().collect();
    if let Some(detail) = row.detail.as_deref().filter(|detail| !detail.trim().is_empty()) {
        lines.push(clean(detail, SENTENCE));
    }
    lines.extend(row.diagnosis.iter().flat_map(Diagnosis::lines));
    if let Some(why) = row.why.as_deref().filter(|why| !why.trim().is_empty()) {
        lines.push(format!("this case finds: {}", clean(why, SENTENCE)));
    }
    lines.push(format!("repro: {}", repro(row)));
    lines
}

/// One line for a cell's tooltip: id, status, budget and, unless it passes, the reason.
pub(crate) fn title(row: &Row) -> String {
    let mut text = format!("{}: {}", clean(&row.id, WORD), row.status);
    if row.budget_used.is_some() || row.worst.is_some() {
        let _ = write!(text, ", bound used: {}", budget(row));
    }
    if row.status.class() != Class::Pass
        && let Some(detail) = &row.detail
    {
        let _ = write!(text, "; {}", clean(detail, WORD));
    }
    text
}

/// The command that runs a row again, as one line of a POSIX shell. Where the cases were not the built-in ones, `FILE`
/// stands for the file they came from, which a row does not name.
pub fn repro(row: &Row) -> String {
    let kernel = match row.kernel.as_str() {
        WGSL if row.adapter.backend == "noop" => "--adapter noop".to_owned(),
        WGSL => format!("--adapter {}", shell_word(&clean(&row.adapter.name, WORD))),
        CPU_TWIN => "--adapter cpu".to_owned(),
        other if other.starts_with(PLANTED) => {
            format!("--plant {}", shell_word(&clean(&other[PLANTED.len()..], WORD)))
        }
        other => format!("--kernel {}", shell_word(&clean(other, SENTENCE))),
    };
    let source = match row.id.split_once(':') {
        Some(("user", _)) => " --cases FILE",
        Some(("trace", _)) => " --trace FILE",
        _ => "",
    };
    let (id, seed) = (shell_word(&clean(&row.id, SENTENCE)), shell_word(&clean(&row.seed, WORD)));
    format!("attnproof run --filter {id}{source} {kernel} --seed {seed}")
}
