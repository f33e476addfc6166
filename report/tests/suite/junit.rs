//! The `JUnit` report, read back by the same crate's parser.

use attnproof_report::junit::render;
use attnproof_report::{Class, Status, Summary};
use quick_junit::{NonSuccessKind, Report, TestCaseStatus, XmlString};

use crate::fixture::{self, row, with_status};

fn parsed(rows: &[attnproof_report::Row]) -> Report {
    Report::deserialize_from_str(&render(rows).unwrap()).unwrap()
}

#[test]
fn suites_cases_and_counts() {
    let rows = fixture::full();
    let report = parsed(&rows);
    assert_eq!((report.tests, report.failures, report.errors), (300, 4, 0));
    assert_eq!(report.test_suites.len(), 10);
    let suite = &report.test_suites[0];
    assert_eq!(suite.name.as_str(), "wgsl @ llvmpipe (LLVM 15.0.6, 256 bits), Mesa 22.3.6: classic-paged");
    assert_eq!(suite.test_cases[0].name.as_str(), rows[0].id);
    assert_eq!(suite.test_cases[0].time.map(|time| time.as_millis()), Some(4));
}

#[test]
fn every_status_lands_where_it_belongs() {
    for status in Status::ALL {
        let rows = [row("a", "c"), with_status(row("a", "b"), status, "the reason")];
        let report = parsed(&rows);
        let case =
            report.test_suites.iter().flat_map(|s| &s.test_cases).find(|c| c.name.contains("=b;")).unwrap();
        let want = format!("{status}: the reason");
        match (&case.status, status.class()) {
            (TestCaseStatus::Success { .. }, Class::Pass) => {}
            (TestCaseStatus::Skipped { message, .. }, Class::Skip | Class::Excused | Class::NotRun) => {
                assert_eq!(message.as_ref().map(XmlString::as_str), Some(want.as_str()));
            }
            (TestCaseStatus::NonSuccess { kind, message, ty, .. }, Class::Fail) => {
                let crashed = matches!(status, Status::Crash | Status::Timeout | Status::Error);
                assert_eq!(*kind == NonSuccessKind::Error, crashed, "{status}");
                assert_eq!(message.as_ref().map(XmlString::as_str), Some(want.as_str()));
                assert_eq!(ty.as_ref().map(XmlString::as_str), Some(status.name()));
            }
            (other, _) => panic!("{status} became {other:?}"),
        }
    }
}

#[test]
fn a_run_of_nothing_is_an_error_not_an_empty_file() {
    for rows in [vec![], vec![with_status(row("a", "b"), Status::NotRun, "deadline")]] {
        let report = parsed(&rows);
        assert_eq!(report.errors, 1, "{}", Summary::of(&rows).headline());
    }
}

#[test]
fn foreign_strings_leave_the_xml_well_formed() {
    let xml = render(&[fixture::hostile()]).unwrap();
    assert!(!xml.contains("<script"));
    assert!(xml.chars().all(|c| matches!(c, '\t' | '\n' | '\r') || !c.is_ascii_control() || c == '\u{7f}'));
    assert!(!xml.contains('\u{fffe}'));
    assert_eq!(parsed(&[fixture::hostile()]).failures, 1);
}
