//! What a sweep found, as a table for a terminal and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Sweep;
use super::stat::{Shares, Stat, Table};
use crate::exit::Exit;

/// Between model and precision, and algorithm, in the name of a simulated kernel.
const ALGORITHM: &str = " / ";
const P999: f64 = 0.999;
const MEDIAN: f64 = 0.5;

const NOTE: &str = "\
shares of the bound, 1 is the limit; a row is one query token and head; p99.9 and median are upper bounds
within an eighth of a power of two. no guar.: rows of which the oracle promises nothing, or that the harness
cannot put to the kernel, not judged. over: rows over the bound, and cases that fail in another way.
";

/// The verdict: 0 none over, 1 a violation, 4 nothing judged.
pub fn exit(sweep: &Sweep) -> Exit {
    let total = sweep.table.total();
    if total.violations > 0 {
        Exit::Wrong
    } else if total.rows == 0 {
        Exit::Nothing
    } else {
        Exit::Pass
    }
}

/// The whole report, ending in a line feed.
pub fn render(sweep: &Sweep) -> String {
    let total = sweep.table.total();
    let request = &sweep.request;
    let verdict = match exit(sweep) {
        Exit::Pass => "PASS",
        Exit::Nothing => "NOTHING JUDGED",
        _ => "FAIL",
    };
    let mut text = format!(
        "{verdict}: {} rows of right kernels on {} random and hostile cases, {} over the bound, {} without a guarantee\n",
        total.rows, sweep.cases, total.violations, total.no_guarantee
    );
    let _ = writeln!(
        text,
        "  seed {:#x}, rows of 1 to {} keys, wgsl on {}{}",
        request.seed,
        request.max_keys,
        request.adapter.as_deref().unwrap_or("no adapter: no shader ran"),
        if request.control { "; with the control, a kernel that is wrong and must be found" } else { "" }
    );
    if sweep.table.0.is_empty() {
        return text;
    }
    let group = |name: &str| Some(name.split(ALGORITHM).next().unwrap_or(name).to_owned());
    let algorithm = |name: &str| name.split_once(ALGORITHM).map(|(_, algorithm)| algorithm.to_owned());
    text.push('\n');
    table(&mut text, "kernel", &sweep.table.renamed(group));
    text.push('\n');
    table(&mut text, "simulated algorithm", &sweep.table.renamed(algorithm));
    text.push('\n');
    table(&mut text, "", &sweep.table.renamed(|_| Some("all kernels".to_owned())));
    text.push_str(NOTE);
    if let Some(largest) = largest(&sweep.table) {
        text.push_str(&largest);
    }
    for violation in sweep.violations.iter().take(10) {
        let _ = writeln!(text, "over: case {}, {}: {}", violation.index, violation.kernel, violation.detail);
    }
    text
}

/// Where the largest share is.
fn largest(table: &Table) -> Option<String> {
    let all = table.0.iter().flat_map(|(name, stat)| [(name, "o", &stat.o), (name, "lse", &stat.lse)]);
    let (name, tensor, shares) = all.filter(|(.., shares)| shares.max > 0.0).max_by(|a, b| {
        // of equal ones the first
        a.2.max.total_cmp(&b.2.max).then(b.0.cmp(a.0))
    })?;
    Some(format!("largest share: {} of {tensor}, {name}, case {}\n", share(shares.max), shares.max_at))
}

fn table(text: &mut String, title: &str, table: &Table) {
    let _ = writeln!(
        text,
        "{title:<36} {:>9} {:>7} {:>7} {:>7}  {:>7} {:>7} {:>7} {:>8} {:>6}",
        "rows", "o max", "p99.9", "median", "lse max", "p99.9", "median", "no guar.", "over"
    );
    for (name, stat) in &table.0 {
        let [o, lse] = [&stat.o, &stat.lse].map(|shares| {
            let cells = [Some(shares.max), shares.quantile(P999), shares.quantile(MEDIAN)];
            cells.map(|cell| if stat.rows == 0 { "-".to_owned() } else { cell.map_or("-".to_owned(), share) })
        });
        let _ = writeln!(
            text,
            "{name:<36} {:>9} {:>7} {:>7} {:>7}  {:>7} {:>7} {:>7} {:>8} {:>6}",
            stat.rows, o[0], o[1], o[2], lse[0], lse[1], lse[2], stat.no_guarantee, stat.violations
        );
    }
}

/// Three significant digits, or two in scientific form where the share is small or large; 0 in the lowest bucket.
fn share(x: f64) -> String {
    match x {
        x if x < 1e-12 => "0".to_owned(),
        x if x.is_infinite() => "inf".to_owned(),
        x if x < 1e-3 => format!("{x:.1e}"),
        x if x < 10.0 => format!("{x:.3}"),
        x => format!("{x:.1e}"),
    }
}

/// The result as one JSON object, shares as numbers (`null` where infinite or where nothing was judged).
pub fn json(sweep: &Sweep) -> String {
    let shares = |shares: &Shares| {
        json!({
            "max": shares.max,
            "max_case": shares.max_at,
            "p999": shares.quantile(P999),
            "median": shares.quantile(MEDIAN),
        })
    };
    let entry = |name: &str, stat: &Stat| {
        json!({
            "kernel": name,
            "rows": stat.rows,
            "no_guarantee": stat.no_guarantee,
            "violations": stat.violations,
            "o": shares(&stat.o),
            "lse": shares(&stat.lse),
        })
    };
    let kernels: Vec<Value> = sweep.table.0.iter().map(|(name, stat)| entry(name, stat)).collect();
    let violations: Vec<Value> = sweep
        .violations
        .iter()
        .map(|v| json!({"case": v.index, "kernel": v.kernel, "detail": v.detail}))
        .collect();
    let document = json!({
        "seed": format!("{:#x}", sweep.request.seed),
        "rows_asked": sweep.request.rows,
        "max_keys": sweep.request.max_keys,
        "adapter": sweep.request.adapter,
        "control": sweep.request.control,
        "suite": attnproof_cases::SUITE,
        "version": env!("CARGO_PKG_VERSION"),
        "cases": sweep.cases,
        "total": entry("all kernels", &sweep.table.total()),
        "kernels": kernels,
        "violations": violations,
    });
    document.to_string() + "\n"
}
