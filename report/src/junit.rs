//! The report as `JUnit` XML: one suite per layout, kernel and adapter, one test case per row.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use crate::environment;
use crate::evidence;
use crate::model::{Class, Row, Status};
use crate::summary::{Summary, Verdict};
use crate::target::place;

/// The whole report. Characters that XML cannot hold are dropped. Unless something ran, a test case of its own
/// reports an error, since many readers take a file without failures for a pass.
///
/// # Errors
/// The XML writer's own.
pub fn render(rows: &[Row]) -> Result<String, SerializeError> {
    let summary = Summary::of(rows);
    let mut report = Report::new("attnproof");
    let facts = environment::facts(&summary);
    let mut suites: Vec<TestSuite> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let name = format!("{}: {}", place(&row.kernel, &row.adapter), plain(&row.layout));
        let at = *index.entry(name).or_insert_with_key(|name| {
            let mut suite = TestSuite::new(name.as_str());
            suite.add_properties(facts.iter().map(|(label, value)| (label.as_str(), value.as_str())));
            suites.push(suite);
            suites.len() - 1
        });
        suites[at].add_test_case(case(row));
    }
    if summary.verdict() == Verdict::NothingRan {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(summary.headline());
        let mut suite = TestSuite::new("attnproof");
        suite.add_test_case(TestCase::new("nothing ran", status));
        suites.push(suite);
    }
    report.add_test_suites(suites);
    report.to_string()
}

fn case(row: &Row) -> TestCase {
    let mut status = match row.status.class() {
        Class::Pass => TestCaseStatus::success(),
        Class::Fail => TestCaseStatus::non_success(kind(row.status)),
        Class::Skip | Class::Excused | Class::NotRun => TestCaseStatus::skipped(),
    };
    if row.status.class() != Class::Pass {
        let reason = row.detail.as_deref().map(plain).or_else(|| evidence::measured(row));
        status.set_message(
            reason.map_or_else(|| row.status.to_string(), |why| format!("{}: {why}", row.status)),
        );
        status.set_type(row.status.name());
    }
    if row.status.class() == Class::Fail {
        status.set_description(evidence::lines(row).join("\n"));
    }
    let mut case = TestCase::new(plain(&row.id), status);
    case.set_classname(format!("{}.{}", plain(&row.kernel), plain(&row.layout)));
    if let Ok(time) = Duration::try_from_secs_f64(row.time_ms / 1000.0) {
        case.set_time(time);
    }
    case
}

/// `JUnit` tells a failed assertion from a test that could not finish.
const fn kind(status: Status) -> NonSuccessKind {
    match status {
        Status::Crash | Status::Timeout | Status::Error => NonSuccessKind::Error,
        _ => NonSuccessKind::Failure,
    }
}

/// `text` in full, without the two noncharacters that XML 1.0 cannot hold (section 2.2); the writer drops control
/// characters and terminal escapes by itself.
fn plain(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "")
}
