//! Whatever is wrong with the input: one clear error, exit 2, nothing half-written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Ran, TRACE, folder, full, need_adapter, run, run_in, twin};

/// Everything in `folder`, by name.
fn content(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Runs `args` in a folder with `files`, expects exit 2 with the words `said`, and no file more or less than before.
fn refused(files: &[(&str, &[u8])], args: &[&str], said: &[&str]) -> Ran {
    let folder = folder();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).expect("a file");
    }
    fs::create_dir(folder.path().join("taken")).expect("a folder");
    let before = content(folder.path());
    let ran = run_in(folder.path(), args);
    assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
    assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.err);
    for words in said {
        assert_eq!(ran.err.matches(words).count(), 1, "{args:?} must say `{words}` once: {}", ran.err);
    }
    assert_eq!(content(folder.path()), before, "{args:?} left something behind");
    ran
}

/// As [`refused`], and the error is all that is said, in one line.
fn refused_in_a_line(files: &[(&str, &[u8])], args: &[&str], said: &[&str]) {
    let ran = refused(files, args, said);
    assert_eq!((ran.out.as_str(), ran.err.lines().count()), ("", 1), "{args:?}: {}", ran.err);
}

const OUTPUTS: [&str; 8] = ["--json", "r.jsonl", "--md", "r.md", "--html", "r.html", "--junit", "r.xml"];

/// `run ARGS` with every kind of output asked for.
fn run_refused(files: &[(&str, &[u8])], args: &[&str], said: &[&str]) {
    refused_in_a_line(files, &[&["run"], args, &OUTPUTS].concat(), said);
}

#[test]
fn a_selection_that_makes_no_sense() {
    run_refused(&[], &["--layout", "round"], &["unknown layout 'round'; layouts are classic-paged, "]);
    run_refused(&[], &["--layout", "classic-paged,"], &["unknown layout ''"]);
    run_refused(&[], &["--filter", "colour=red"], &["unknown key `colour`; keys are layout hq hk "]);
    run_refused(&[], &["mqa;;d=64"], &["filter `mqa;;d=64`: term 2 is empty"]);
    run_refused(&[], &["--filter", ""], &["filter ``: term 1 is empty"]);
    run_refused(&[], &["--tier", "slow"], &["unknown tier 'slow'; tiers are smoke, fast"]);
}

#[test]
fn a_trace_that_is_none() {
    let trace = fs::read_to_string(TRACE).expect("the trace");
    let lines: Vec<&str> = trace.lines().collect();
    let cut = format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..60]);
    let gap = lines[0].replace("\"hash_ids\"", "\"hashes\"");
    let short = lines[0].replace("6758", "67580");
    let traced = |content: &str, n: &str, said: &str| {
        run_refused(&[("t.jsonl", content.as_bytes())], &["--trace", "t.jsonl", "--requests", n], &[said]);
    };
    traced(&cut, "3", "t.jsonl:3: line: EOF while parsing");
    traced(&gap, "1", "t.jsonl:1: hash_ids: missing field `hash_ids`");
    traced(&short, "1", "t.jsonl:1: hash_ids: 14 ids for 67580 tokens, 132 are needed");
    traced("time,tokens\n1,2\n", "1", "t.jsonl:1: line: expected");
    traced(&trace, "0", "t.jsonl: 0 requests asked for: at least 1 is needed");
    traced(&trace, "61", "t.jsonl: 61 requests asked for, but the file has 60");
    traced("", "1", "t.jsonl: 1 requests asked for, but the file has 0");
    run_refused(&[("t.jsonl", b"\xff\xfe{}")], &["--trace", "t.jsonl"], &["t.jsonl: ", "UTF-8"]);
    run_refused(&[], &["--trace", "missing.jsonl"], &["missing.jsonl: ", "No such file"]);
    run_refused(&[], &["--trace", "taken"], &["taken: ", "Is a directory"]);
}

#[test]
fn a_case_file_that_is_none() {
    let good = "[[case]]\nname = \"mine\"\nwhy = \"why\"\nhq = 4\nhk = 2\nd = 32\nscript = \"\"\"\nprefill A 20\ncheck A\n\"\"\"\n";
    let file = |text: &str, said: &str| {
        run_refused(&[("mine.toml", text.as_bytes())], &["--cases", "mine.toml"], &[said]);
    };
    file(
        &good.replace("hk =", "heads ="),
        "mine.toml:5: case mine: heads: unknown key; keys are name why script ",
    );
    file(&good.replace("hk = 2\n", ""), "mine.toml:1: case mine: hk: missing");
    file(&good.replace("hk = 2", "hk = 3"), "mine.toml:");
    file(
        &good.replace("d = 32", "d = \"32\""),
        "mine.toml:6: case mine: d: expected a whole number, found string",
    );
    file(
        &good.replace("check A", "chek A"),
        "mine.toml:9: case mine: script: at `chek`: expected one of prefill, ",
    );
    file(&good.replace("check A", "check B"), "mine.toml:9: case mine: script: at `");
    file(&good.replace("check A", ""), "at least one `check` in the script");
    file(&format!("{good}{good}"), "mine.toml:12: case mine: name: used already by the case at line 1");
    file(&good.replace("hq = 4", "hq = = 4"), "mine.toml:4: ");
    file("", "mine.toml:1: no cases: expected at least one [[case]] table");
    run_refused(&[], &["--cases", "missing.toml"], &["missing.toml: ", "No such file"]);
}

#[test]
fn results_that_are_none() {
    let rows = &twin().lines;
    let first = rows.lines().next().expect("a row");
    let report = |content: &str, said: &str| {
        let args = ["report", "rows.jsonl", "--md", "r.md", "--html", "r.html", "--junit", "r.xml"];
        refused_in_a_line(&[("rows.jsonl", content.as_bytes())], &args, &[said]);
    };
    report(&rows[..first.len() + 200], "rows.jsonl, line 2: the last row is cut off");
    report(&format!("{}\n{first}\n", &first[..200]), "rows.jsonl, line 1, field ");
    report(&format!("{first}\n{first}\n"), "rows.jsonl, line 2: repeats line 1");
    report(
        &first.replace("\"pass\"", "\"fine\""),
        "rows.jsonl, line 1, field status: unknown variant `fine`",
    );
    report(&first.replace("\"kernel\"", "\"kern\""), "missing field `kernel`");
    report("", "rows.jsonl: no result rows");
    report("<html>\n", "rows.jsonl, line 1, field ");
    refused_in_a_line(&[], &["report", "missing.jsonl"], &["missing.jsonl: ", "No such file"]);
}

#[test]
fn an_output_that_cannot_be_written() {
    for flag in ["--json", "--md", "--html", "--junit"] {
        for (path, reason) in [("missing/r", "No such file"), ("taken", "is a directory")] {
            let said = [format!("{path}: "), reason.to_owned()];
            let said = [said[0].as_str(), said[1].as_str()];
            let ran = refused(&[], &["run", "mqa", "--adapter", "cpu", flag, path], &said);
            assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
            if flag != "--json" {
                let args = ["report", "rows.jsonl", flag, path];
                refused_in_a_line(&[("rows.jsonl", twin().lines.as_bytes())], &args, &said);
            }
        }
    }
}

#[test]
fn two_outputs_in_one_file() {
    let args = ["run", "mqa", "--adapter", "cpu", "--json", "both", "--md", "both"];
    refused_in_a_line(&[], &args, &["both: two outputs of one run would be written to it"]);
}

#[test]
fn a_command_line_that_is_none() {
    refused(&[], &["run", "--seed", "many"], &["'many' for '--seed <SEED>'"]);
    refused(&[], &["run", "--requests", "7"], &["the following required arguments were not provided"]);
    refused(&[], &["run", "--requests", "0"], &["the following required arguments were not provided"]);
    refused(&[], &["run", "--requests", "few", "--trace", TRACE], &["'few' for '--requests <N>'"]);
    refused(&[], &["run", "--jobs", "0"], &["'0' for '--jobs <N>'"]);
    refused(&[], &["run", "--cases", "a", "--trace", "b"], &["cannot be used with"]);
    refused(&[], &["run", "--nonsense"], &["'--nonsense' found"]);
    refused(&[], &["judge"], &["unrecognized subcommand 'judge'"]);
    refused(&[], &["report"], &["the following required arguments were not provided"]);
    assert_eq!((run(&[]).code, run(&["--help"]).code, run(&["--version"]).code), (2, 0, 0));
}

/// A good run over the same files replaces them, and a bad one leaves them as they were.
#[test]
fn earlier_results_survive_a_bad_run() {
    need_adapter();
    let folder = folder();
    let file = folder.path().join("r.jsonl");
    fs::write(&file, &full().lines).expect("a file");
    let bad = run_in(folder.path(), &["run", "--layout", "round", "--json", "r.jsonl"]);
    assert_eq!(bad.code, 2);
    assert_eq!(fs::read_to_string(&file).expect("the file"), full().lines);
    let good = run_in(folder.path(), &["run", "mqa", "--adapter", "cpu", "--json", "r.jsonl"]);
    assert_eq!((good.code, fs::read_to_string(&file).expect("the file").lines().count()), (0, 5));
    assert_eq!(content(folder.path()), BTreeSet::from(["r.jsonl".to_owned()]));
}
