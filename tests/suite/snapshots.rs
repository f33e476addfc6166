//! What the reports look like, without anything that differs between machines.

use serde_json::{Value, json};

use crate::common::{attnproof, finish, full, lines, twin};

/// The text report of `rows`, in two parts: verdicts, and figures on reads and on the KV manager.
fn parts(rows: &[Value]) -> (String, String) {
    let mut command = attnproof();
    command.write_stdin(lines(rows));
    let text = finish(command, &["report", "-"]).out;
    let (verdicts, figures) = text.split_once("\nread amplification, ").expect("both parts");
    (verdicts.to_owned(), figures.to_owned())
}

/// A row without what its machine puts into it.
fn anywhere(row: &Value) -> Value {
    let mut row = row.clone();
    if row["kernel"] == "wgsl" {
        row["adapter"] = json!({ "name": "any adapter", "backend": "any", "driver": "any driver" });
        for field in ["budget_used", "worst", "limits"] {
            row[field] = Value::Null;
        }
    }
    row
}

fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    let version = env!("CARGO_PKG_VERSION");
    let text = text.replace(&format!("attnproof {version}"), "attnproof VERSION");
    let text = text.replace(&format!("attnproof: {version}"), "attnproof: VERSION");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn pass_fail() {
    let rows: Vec<_> = full().rows.iter().map(anywhere).collect();
    assert_snapshot("pass_fail", &parts(&rows).0);
}

#[test]
fn read_amplification() {
    assert_snapshot("read_amplification", &parts(&twin().rows).1);
}
