//! The Markdown report.

use attnproof_report::markdown::render;

use crate::fixture;

#[test]
fn small_set() {
    insta::assert_snapshot!(render(&fixture::small()));
}

#[test]
fn an_empty_run_says_so() {
    assert_eq!(render(&[]), "# attnproof report\n\n**NOTHING RAN: there are no result rows**\n");
}

#[test]
fn a_full_run_is_small_and_its_tables_are_rectangular() {
    let page = render(&fixture::full());
    assert!(page.len() < 32_768, "{} bytes", page.len());
    let mut columns = None;
    for line in page.lines() {
        let bars = line.matches('|').count();
        if bars > 0 {
            assert_eq!(*columns.get_or_insert(bars), bars, "{line}");
        } else {
            columns = None;
        }
    }
}

#[test]
fn foreign_strings_are_text() {
    let page = render(&[fixture::hostile()]);
    let outside: String = page.split("```").step_by(2).collect();
    assert!(!outside.contains("<script"), "{outside}");
    assert!(!outside.contains("@everyone"));
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn a_fence_is_longer_than_any_run_inside() {
    let mut row = fixture::wrong(fixture::row("a", "b"));
    row.detail = Some("````` <b>out</b>".to_owned());
    let page = render(&[row]);
    assert!(page.contains("\n``````text\n") && page.contains("\n``````\n"), "{page}");
}

#[test]
fn any_number_of_rows_stays_under_a_mebibyte_and_says_what_is_left_out() {
    let mut rows = Vec::new();
    for i in 0..3000 {
        let mut row = fixture::hostile();
        row.id = format!("case-{i}");
        row.name = format!("case-{i}-{}", row.name);
        rows.push(row);
    }
    let page = render(&rows);
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    assert!(page.contains("more failing rows in the results file"));
    assert!(page.contains("0 of 3000 pass, 3000 wrong"));
}
