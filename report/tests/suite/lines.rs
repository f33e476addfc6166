//! JSON lines: what is written is read back, and what is broken is named by file, line and field.

use attnproof_report::{Predicted, ReadError, Row, read, write_line};

use crate::fixture;

fn written(rows: &[Row]) -> String {
    let mut out = Vec::new();
    for row in rows {
        write_line(row, &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn rows_survive_the_round_trip() {
    let mut rows = fixture::full();
    rows.push(fixture::hostile());
    rows[3].budget_used = Some(0.1 + 0.2);
    if let Some(reads) = &mut rows[3].reads {
        reads.predicted_equal = false;
        reads.predicted = Some(Box::new(Predicted { k: reads.v, ..Predicted::default() }));
    }
    let text = written(&rows);
    assert_eq!(text.lines().count(), rows.len(), "a row is one line whatever its strings hold");
    assert_eq!(read(&text, "r.jsonl").unwrap(), rows);
}

#[test]
fn special_numbers_are_strings_and_an_infinite_budget_is_null() {
    let mut row = fixture::nonfinite(fixture::row("a", "b"));
    row.budget_used = Some(f64::INFINITY);
    let text = written(&[row]);
    assert!(text.contains(r#""got":"nan","want":"-inf""#), "{text}");
    assert!(text.contains(r#""budget_used":null"#), "{text}");
    assert_eq!(read(&text, "r.jsonl").unwrap()[0].budget_used, None);
}

#[test]
fn blank_lines_carriage_returns_a_mark_and_unknown_fields_do_no_harm() {
    let line = written(&[fixture::row("a", "b")]);
    let newer = line.replacen('{', "{\"field_of_the_future\":[1,2],", 1);
    let text = format!("\u{feff}\n  \n{}\r\n\n", newer.trim_end());
    assert_eq!(read(&text, "r.jsonl").unwrap(), [fixture::row("a", "b")]);
}

#[test]
fn a_file_without_rows_is_an_error() {
    for text in ["", "\n\n", "   "] {
        assert_eq!(read(text, "r.jsonl"), Err(ReadError::Empty { file: "r.jsonl".to_owned() }));
    }
}

#[test]
fn a_cut_last_line_is_named_wherever_it_is_cut() {
    let text = written(&fixture::small());
    let start = text.trim_end().rfind('\n').unwrap() + 1;
    for cut in (start + 1..text.len() - 1).filter(|&cut| text.is_char_boundary(cut)) {
        assert_eq!(
            read(&text[..cut], "r.jsonl"),
            Err(ReadError::Truncated { file: "r.jsonl".to_owned(), line: 6 }),
            "cut at byte {cut}"
        );
    }
    assert_eq!(read(text.trim_end(), "r.jsonl").unwrap().len(), 6, "only the line feed is missing");
}

/// The error for one row in which `from` is replaced by `to`, on line 2.
fn broken(from: &str, to: &str) -> String {
    let good = written(&[fixture::row("first", "b")]);
    let line = written(&[fixture::nonfinite(fixture::row("a", "b"))]);
    assert!(line.contains(from), "{line}");
    read(&format!("{good}{}", line.replacen(from, to, 1)), "r.jsonl").unwrap_err().to_string()
}

#[test]
fn a_broken_field_is_named() {
    for (from, to, want) in [
        (
            r#""status":"nonfinite""#,
            r#""status":"fine""#,
            "r.jsonl, line 2, field status: unknown variant `fine`",
        ),
        (r#""seed":"#, r#""sede":"#, "r.jsonl, line 2, field .: missing field `seed`"),
        (r#""got":"nan""#, r#""got":"none""#, "r.jsonl, line 2, field worst.got: invalid value"),
        (r#""check":1"#, r#""check":-1"#, "r.jsonl, line 2, field worst.check: invalid value"),
        (r#""name":"a""#, r#""name":" ""#, "r.jsonl, line 2, field name: is empty"),
        (r#""budget_used":null"#, r#""budget_used":-0.5"#, "r.jsonl, line 2, field budget_used: is negative"),
        (r#""over":1"#, r#""over":9"#, "r.jsonl, line 2, field over: more elements outside than judged"),
        (r#""time_ms":4.25"#, r#""time_ms":-1"#, "r.jsonl, line 2, field time_ms: is negative"),
        ("}\n", "} 7\n", "r.jsonl, line 2, field .: trailing characters"),
        ("}\n", "\n", "r.jsonl, line 2, field "),
    ] {
        let message = broken(from, to);
        assert!(message.starts_with(want), "{to}: {message}");
    }
}

#[test]
fn two_rows_with_one_key_are_an_error_and_another_adapter_is_another_key() {
    let row = fixture::row("a", "b");
    let mut elsewhere = row.clone();
    elsewhere.adapter.driver = "newer".to_owned();
    assert_eq!(read(&written(&[row.clone(), elsewhere.clone()]), "r.jsonl").unwrap().len(), 2);
    let error = read(&format!("\n{}", written(&[row.clone(), elsewhere, row])), "r.jsonl").unwrap_err();
    assert!(matches!(error, ReadError::Duplicate { line: 4, first: 2, .. }), "{error}");
}
