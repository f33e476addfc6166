//! The HTML report and the pictures in it.

use attnproof_report::html::render;
use attnproof_report::{Status, Summary, svg};

use crate::fixture::{self, row, with_status};

#[test]
fn three_hundred_rows_make_one_page_that_stands_alone() {
    let page = render(&fixture::full()).unwrap();
    assert!(page.len() < 400_000, "{} bytes", page.len());
    for external in ["http://", "https://", "<script", "<link", "<img", "url(", "@import"] {
        assert!(!page.contains(external), "{external}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
    assert_eq!(page.matches("<tr><td><span class=\"chip").count(), 300 + 3, "all rows and the gaps");
    assert_eq!(page.matches("<g class=\"c ").count(), 300, "a cell for each pair and kernel");
    assert!(page.contains("<strong>FAIL</strong>"));
}

/// Every element opened is closed, in order; attributes are quoted; text holds no bare `<`.
fn assert_balanced(page: &str) {
    let mut open = Vec::new();
    let mut rest = page.split_once("</style>").unwrap().1;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, tail) = after.split_once('>').unwrap();
        rest = tail;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "before {tail:.60}");
        } else if !tag.ends_with('/') {
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            open.push(tag.split(' ').next().unwrap().to_owned());
        }
    }
    // What stands open before the style sheet.
    assert_eq!(open.len(), 0, "{open:?}");
}

#[test]
fn the_page_is_well_formed_whatever_it_is_given() {
    let hostile = [fixture::hostile()];
    for rows in [&[][..], &fixture::small(), &fixture::full(), &hostile] {
        let page = render(rows).unwrap();
        // The head is the template's own; join the two tags opened before it.
        assert_balanced(&format!("</style><html><head>{}", page.split_once("</style>").unwrap().1));
    }
}

#[test]
fn foreign_strings_are_text() {
    let page = render(&[fixture::hostile()]).unwrap();
    assert!(!page.contains("<script"));
    assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"));
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn an_empty_run_and_a_failing_run_do_not_look_green() {
    let page = render(&[]).unwrap();
    assert!(page.contains("<strong>NOTHING RAN</strong>") && page.contains("verdict not-run"));
    let rows: Vec<_> = Status::ALL.map(|status| with_status(row(status.name(), "b"), status, "x")).into();
    let page = render(&rows).unwrap();
    assert!(page.contains("verdict fail"));
    for status in Status::ALL {
        assert!(page.contains(&format!(" 1 {status}</")), "{status}");
    }
}

#[test]
fn any_number_of_rows_stays_under_a_mebibyte_and_says_what_is_left_out() {
    let mut rows = Vec::new();
    for i in 0..3000 {
        let mut row = fixture::hostile();
        row.id = format!("case-{i}{}", "<&>\"'".repeat(100));
        row.name = format!("case-{i}-{}", row.name);
        row.layout = format!("layout-{}", i % 40);
        rows.push(row);
    }
    let page = render(&rows).unwrap();
    assert!(page.len() <= 1_000_000, "{} bytes", page.len());
    assert!(page.contains("more rows in the results file") && page.contains("All 3000 rows"));
}

#[test]
fn the_matrix_shows_each_status_by_glyph_class_and_title() {
    let rows = [
        row("a", "x"),
        with_status(row("a", "y"), Status::Unsupported, "needs nan_k"),
        fixture::wrong(row("b", "x")),
        with_status(row("b", "y"), Status::Waived, "issue 12"),
    ];
    let summary = Summary::of(&rows);
    let picture = svg::matrix(&summary.targets[0], 100);
    for part in [
        "<g class=\"c pass\"><title>decode:a;layout=x;kv=f32: pass, bound used: 0.25x</title>",
        "<g class=\"c skip\"><title>decode:a;layout=y;kv=f32: unsupported, bound used: 0.25x; needs nan_k</title>",
        "<g class=\"c fail\">",
        "<g class=\"c excused\">",
        "\u{2717}</text>",
    ] {
        assert!(picture.contains(part), "{part}\n{picture}");
    }
    assert!(svg::matrix(&summary.targets[0], 1).contains("... 1 more cases"));
}

#[test]
fn shares_past_the_limit_are_marked_and_infinite_ones_reach_the_end() {
    let mut zero = row("zero", "x");
    zero.budget_used = Some(0.0);
    let rows =
        [zero, row("below", "x"), fixture::wrong(row("over", "x")), fixture::nonfinite(row("nan", "x"))];
    let summary = Summary::of(&rows);
    let picture = svg::budget(&summary.targets[0], 100);
    assert_eq!(picture.matches("<g class=\"b pass\">").count(), 2);
    assert_eq!(picture.matches("<g class=\"b fail\">").count(), 2);
    assert!(picture.contains(">\u{221e}</text>") && picture.contains(">limit</text>"));
    let coordinates = picture.split('"').skip(1).step_by(2).collect::<String>();
    assert!(!coordinates.contains("NaN") && !coordinates.contains("inf"), "{coordinates}");
    assert_eq!(picture.matches("<circle").count(), 3);
}

#[test]
fn bars_of_reads_scale_with_the_largest() {
    let mut rows = [row("a", "x"), row("a", "y")];
    rows[0].reads = Some(fixture::reads(200, 800));
    rows[1].reads = Some(fixture::reads(400, 800));
    let summary = Summary::of(&rows);
    let picture = svg::reads(&summary.targets[0], 100);
    assert!(picture.contains("<title>x, requested: 2.00</title>"), "{picture}");
    assert!(picture.contains("<title>y, requested: 4.00</title>"));
    rows[1].reads.as_mut().unwrap().needed_bytes = 0;
    let summary = Summary::of(&rows);
    assert!(svg::reads(&summary.targets[0], 100).contains("<title>y, requested: n/a</title>"));
}
