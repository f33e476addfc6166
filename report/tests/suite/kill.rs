//! The kill matrix: what counts as a pass, and how it is printed.

use attnproof_report::Status;
use attnproof_report::kill::{
    Accuracy, Cell, Criterion, Fate, FaultRow, KillMatrix, render_html, render_text,
};
use attnproof_report::model::Adapter;
use attnproof_report::text::Style;

fn fault(id: &str, kind: &str, equivalent: Option<&str>, cells: &[(usize, u32, u32)]) -> FaultRow {
    let cell = |&(case, reached, killed): &(usize, u32, u32)| Cell {
        case,
        reached,
        killed,
        killed_in: (1 << killed) - 1,
        status: (killed > 0).then_some(Status::Wrong),
    };
    FaultRow {
        id: id.to_owned(),
        kind: kind.to_owned(),
        says: format!("what {id} does"),
        site: "kernel".to_owned(),
        equivalent: equivalent.map(str::to_owned),
        cells: cells.iter().map(cell).collect(),
    }
}

fn matrix(faults: Vec<FaultRow>) -> KillMatrix {
    let criterion = |name: &str, killed, false_alarms| Criterion {
        name: name.to_owned(),
        rule: format!("the rule called {name}"),
        killed,
        of: 3,
        killed_numbers: killed,
        of_numbers: 3,
        false_alarms,
        right: 20,
    };
    KillMatrix {
        suite: "2026.12".to_owned(),
        seed: "0x7".to_owned(),
        version: "0.0.0".to_owned(),
        kernel: "cpu-twin".to_owned(),
        adapter: Adapter { name: "cpu".to_owned(), backend: "rust".to_owned(), driver: "none".to_owned() },
        model: "strict".to_owned(),
        whole: true,
        cases: ["decode:one", "decode:two", "extra:three"].map(str::to_owned).to_vec(),
        faults,
        false_alarms: Vec::new(),
        criteria: vec![criterion("this harness", 3, 0), criterion("1e-2", 1, 4)],
        diagnosis: Some(Accuracy {
            asked: 10,
            named: 8,
            together: 1,
            missed: vec!["scale in decode:one;layout=x: the window".to_owned()],
            strangers: 2,
            unwritten: 1,
            mistaken: vec!["alibi-physical in decode:two;layout=x: the sink".to_owned()],
        }),
        seconds: 1.25,
    }
}

fn caught() -> Vec<FaultRow> {
    vec![
        fault("window-plus-one", "window", None, &[(0, 5, 5), (1, 5, 2)]),
        fault("window-ignored", "window", None, &[(1, 5, 0), (2, 5, 5)]),
        fault("head-mod", "head map", None, &[(0, 1, 1), (1, 5, 5)]),
        fault("alibi-abs", "ALiBi", Some("distances are never positive"), &[(2, 5, 0)]),
    ]
}

const PLAIN: Style = Style { color: false, width: 100 };

#[test]
fn one_survivor_is_a_failure() {
    assert!(matrix(caught()).passes());
    let with = |extra: FaultRow| matrix(caught().into_iter().chain([extra]).collect());
    let survivor = with(fault("nobody-sees-me", "scale", None, &[(0, 5, 0), (1, 5, 0)]));
    assert_eq!(survivor.of(Fate::Survived).count(), 1);
    assert!(!survivor.passes());
    assert!(survivor.headline().starts_with("FAIL: 3 of 4 faults caught"), "{}", survivor.headline());
    assert!(render_text(&survivor, PLAIN).contains("SURVIVES  nobody-sees-me"));

    let mut unreached = with(fault("elsewhere", "scale", None, &[]));
    assert!(!unreached.passes(), "a fault that no case reaches is not caught");
    unreached.whole = false;
    assert!(unreached.passes(), "with a filter it need not be reached");

    let accused = with(fault("same-after-all", "scale", Some("not really"), &[(0, 5, 1)]));
    assert_eq!(accused.of(Fate::Accused).count(), 1);
    assert!(!accused.passes());

    let mut alarmed = matrix(caught());
    alarmed.false_alarms.push("the right kernel in decode:one: wrong".to_owned());
    assert!(!alarmed.passes());
    assert!(!matrix(Vec::new()).passes(), "nothing tested is no pass");
}

#[test]
fn what_only_one_case_catches_is_named() {
    let matrix = matrix(caught());
    assert_eq!(matrix.only_killers(), [("extra:three", vec!["window-ignored"])]);
    let ids: Vec<_> = matrix.killed_by("decode:two").iter().map(|fault| fault.id.as_str()).collect();
    assert_eq!(ids, ["window-plus-one", "head-mod"]);
    assert!(matrix.killed_by("no such case").is_empty());
}

#[test]
fn the_text_is_as_it_was() {
    insta::assert_snapshot!(render_text(&matrix(caught()), PLAIN));
}

#[test]
fn the_page_stands_alone_and_escapes() {
    let mut hostile = matrix(caught());
    hostile.faults[0].says = "<script>alert(1)</script>".to_owned();
    let page = render_html(&hostile).expect("the page renders");
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("default-src 'none'") && page.contains("window-plus-one"));
    assert!(page.contains("caught in 2 of 5 layouts"));
}

#[test]
fn json_comes_back() {
    let matrix = matrix(caught());
    let text = serde_json::to_string(&matrix).expect("plain data");
    assert_eq!(serde_json::from_str::<KillMatrix>(&text).expect("the same"), matrix);
}
