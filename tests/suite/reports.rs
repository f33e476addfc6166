//! Reports are made from the JSON lines and nothing else, and change with them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Ran, attnproof, finish, folder, full, lines, rows, run, run_in, text, twin};

/// `report` of `rows` from standard input.
fn report(rows: &[Value], args: &[&str]) -> Ran {
    let mut command = attnproof();
    command.write_stdin(lines(rows));
    let ran = finish(command, &[&["report", "-"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran
}

fn written(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn a_run_prints_what_a_report_of_its_rows_prints() {
    let full = full();
    assert_eq!(report(&rows(&full.lines), &[]).out, full.ran.out);
    let names = |suffix: &str| ["t.md", "t.html", "t.xml"].map(|name| format!("{suffix}{name}"));
    let folder = folder();
    let [md, html, junit] = names("run-");
    let args = [
        "run",
        "mqa",
        "--adapter",
        "cpu",
        "--json",
        "r.jsonl",
        "--md",
        &md,
        "--html",
        &html,
        "--junit",
        &junit,
    ];
    assert_eq!(run_in(folder.path(), &args).code, 0);
    let [md, html, junit] = names("report-");
    let args = ["report", "r.jsonl", "--md", &md, "--html", &html, "--junit", &junit];
    assert_eq!(run_in(folder.path(), &args).code, 0);
    for (ours, theirs) in names("run-").iter().zip(names("report-")) {
        // only JUnit may hold anything that is not in the rows, and it holds nothing either
        assert_eq!(written(folder.path(), ours), written(folder.path(), &theirs));
    }
}

#[test]
fn every_form_holds_every_case_and_the_headline() {
    let full = full();
    let folder = folder();
    fs::write(folder.path().join("r.jsonl"), &full.lines).expect("a file");
    let args = ["report", "r.jsonl", "--md", "r.md", "--html", "r.html", "--junit", "r.xml"];
    let ran = run_in(folder.path(), &args);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let [md, html, junit] = ["r.md", "r.html", "r.xml"].map(|name| written(folder.path(), name));
    for row in &full.rows {
        let name = text(row, "name");
        assert!(md.contains(&format!("| {name} | ")), "{name} in Markdown");
        assert!(html.contains(name), "{name} in HTML");
        assert!(junit.contains(&format!("name=\"{}\"", text(row, "id"))), "{name} in JUnit");
    }
    assert!(md.contains("150 of 150 pass") && html.contains("150 of 150 pass"));
    assert_eq!(junit.matches("<testcase ").count(), full.rows.len());
    assert!(junit.contains("tests=\"300\"") && junit.contains("failures=\"0\" errors=\"0\""));
    assert!(html.starts_with("<!") && html.contains("<svg") && html.trim_end().ends_with("</html>"));
    for outside in [" src=", "<link", "<script", "@import", "url(", " href=\"http"] {
        assert!(!html.contains(outside), "the page asks for something outside itself: {outside}");
    }
}

#[test]
fn one_bad_row_turns_every_verdict() {
    let mut bad = full().rows.clone();
    let row =
        bad.iter_mut().find(|row| row["kernel"] == "wgsl" && row["name"] == "mqa-16x1").expect("the row");
    row["status"] = json!("wrong");
    row["detail"] = json!("changed by a test");
    let id = text(row, "id").to_owned();
    let table = report(&bad, &[]);
    assert!(table.headline().starts_with("FAIL: "), "{}", table.headline());
    assert!(table.headline().contains("149 of 150 pass, 1 wrong"), "{}", table.headline());
    assert!(table.headline().contains("150 of 150 pass"), "the twin's rows stand: {}", table.headline());
    assert!(table.out.contains(&format!("WRONG  {id}")) && table.out.contains("changed by a test"));
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    report(&bad, &["--md", &at("r.md"), "--html", &at("r.html"), "--junit", &at("r.xml")]);
    let [md, html, junit] = ["r.md", "r.html", "r.xml"].map(|name| written(folder.path(), name));
    assert!(md.contains("**FAIL: ") && md.contains("## Failures") && md.contains("changed by a test"));
    assert!(html.contains("FAIL") && html.contains("changed by a test"));
    assert!(junit.contains("failures=\"1\"") && junit.contains("changed by a test"));
}

#[test]
fn no_status_stands_for_another() {
    let with = |status: &str| {
        let mut rows = twin().rows.clone();
        rows[3]["status"] = json!(status);
        report(&rows, &[]).headline().split(": ").next().unwrap_or_default().to_owned()
    };
    for failing in
        ["wrong", "nonfinite", "unwritten", "out-of-bounds", "nondeterministic", "traffic-mismatch"]
    {
        assert_eq!(with(failing), "FAIL", "{failing}");
    }
    for failing in ["bad-shape", "bad-dtype", "invariant", "crash", "timeout", "error", "unexpected-pass"] {
        assert_eq!(with(failing), "FAIL", "{failing}");
    }
    for gap in ["unsupported", "undeclared", "waived"] {
        assert_eq!(with(gap), "PASS WITH GAPS", "{gap}");
    }
    assert_eq!(with("not-run"), "INCOMPLETE");
    let mut none = twin().rows.clone();
    for row in &mut none {
        row["status"] = json!("unsupported");
    }
    assert!(report(&none, &[]).headline().starts_with("NOTHING RAN: "));
}

#[test]
fn a_prediction_that_fails_is_counted() {
    let mut off = twin().rows.clone();
    let row = off.iter_mut().find(|row| row["layout"] == "hot-tail-contiguous").expect("a row");
    row["reads"]["predicted_equal"] = json!(false);
    let table = report(&off, &[]).out;
    let line = table.lines().find(|line| line.contains(" hot-tail-contiguous ")).expect("the layout's line");
    assert!(line.ends_with("29 of 30"), "{line}");
    assert_eq!(table.matches("30 of 30").count(), 4);
}

#[test]
fn colour_only_where_it_is_asked_for() {
    let row = &twin().rows[..1];
    assert!(!report(row, &[]).out.contains('\u{1b}'), "standard output is no terminal");
    let coloured = |name: &str| {
        let mut command = attnproof();
        command.env("CLICOLOR_FORCE", "1").env(name, "1").write_stdin(lines(row));
        finish(command, &["report", "-"]).out.contains('\u{1b}')
    };
    assert!(coloured("UNRELATED"));
    assert!(!run(&["list"]).out.contains('\u{1b}'));
}
