//! The terminal report.

use attnproof_report::text::{Style, render};

use crate::fixture;

const PLAIN: Style = Style { color: false, width: 100 };

#[test]
fn small_set() {
    insta::assert_snapshot!(render(&fixture::small(), PLAIN));
}

#[test]
fn an_empty_run_says_so() {
    assert_eq!(render(&[], PLAIN), "NOTHING RAN: there are no result rows\n");
}

#[test]
fn a_nan_reads_as_nan() {
    let text = render(&[fixture::nonfinite(fixture::row("a", "b"))], PLAIN);
    assert!(text.contains("NONFINITE  decode:a;layout=b;kv=f32"), "{text}");
    assert!(
        text.contains("worst beyond any multiple at check 1, row A, [0, 2]: got nan, want -inf"),
        "{text}"
    );
}

#[test]
fn colour_and_glyphs_only_where_asked_for() {
    let rows = fixture::full();
    let plain = render(&rows, PLAIN);
    assert!(plain.is_ascii(), "plain text is ASCII");
    let colored = render(&rows, Style { color: true, width: 100 });
    assert!(colored.contains("\u{1b}[1;31mFAIL"));
    assert!(colored.contains("\u{2713} pass") && colored.contains("\u{2717} wrong"));
}

#[test]
fn narrow_and_absurd_widths_render() {
    for width in [0, 1, 40, 80, usize::MAX] {
        assert!(
            render(&fixture::full(), Style { color: false, width }).contains("alibi-gqa-12x3"),
            "{width}"
        );
    }
    let eighty = render(&fixture::full(), Style { color: false, width: 80 });
    let matrix = eighty.lines().find(|line| line.contains("window-longer-than-sequence")).unwrap();
    assert!(matrix.matches("pass").count() == 5 && matrix.chars().count() <= 100, "{matrix}");
}

#[test]
fn many_failures_are_cut_and_counted() {
    let rows: Vec<_> = (0..33).map(|i| fixture::wrong(fixture::row(&format!("case-{i}"), "b"))).collect();
    let text = render(&rows, PLAIN);
    assert_eq!(text.matches("\nWRONG  ").count(), 20);
    assert!(text.contains("... 13 more failing rows"));
    assert!(text.starts_with("FAIL: wgsl"));
}

#[test]
fn foreign_strings_cannot_reach_the_terminal() {
    let text = render(&[fixture::hostile()], PLAIN);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(!text.contains('\u{202e}'));
    assert!(text.len() < 16_384, "{} bytes", text.len());
}
