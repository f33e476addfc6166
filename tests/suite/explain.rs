//! Verbs that explain: a case, and the arithmetic of an adapter.

use crate::common::{kept, need_adapter, rows, run, text};

#[test]
fn a_case_is_explained_with_the_faults_it_catches() {
    let ran = run(&["explain", "window-starts-mid-block"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for what in [
        "decode:window-starts-mid-block",
        "The window starts inside a block",
        "4 query heads on 2 KV heads (GQA, groups of 2)",
        "a window of 24 keys",
        "preempt A",
        "check 1:",
        "widest bounds (model strict",
        "window-plus-one",
        "wrong kernels it reaches and does not catch",
    ] {
        assert!(ran.out.contains(what), "no {what:?} in\n{}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "lines fit\n{}", ran.out);
}

#[test]
fn only_one_case_can_be_explained() {
    let several = run(&["explain", "fp8"]);
    assert_eq!(several.code, 2, "{}", several.out);
    assert!(several.err.contains("matches") && several.err.contains("fp8-head-scale-gqa"), "{}", several.err);
    let none = run(&["explain", "no-such-case"]);
    assert_eq!((none.code, none.out.as_str()), (4, ""), "{}", none.err);
    assert!(none.err.contains("no case matches 'no-such-case'"));
}

#[test]
fn adapters_are_measured_and_judged_by_what_was_found() {
    need_adapter();
    let doctor = run(&["doctor", "--calibrate", "--json"]);
    let measured = rows(&doctor.out);
    let outside = |row: &serde_json::Value| row["calibration"]["outside_wgsl"].as_array().map_or(0, Vec::len);
    assert_eq!(doctor.code, i32::from(measured.iter().any(|row| outside(row) > 0)), "{}", doctor.out);
    for row in &measured {
        let calibration = &row["calibration"];
        assert!(["strict", "fast-math", "wgsl-letter"].contains(&text(calibration, "model")), "{row}");
        assert!(calibration["division_ulp"].as_f64().is_some_and(|ulps| ulps > 0.0), "{row}");
    }
    let words = run(&["doctor", "--calibrate"]).out;
    assert!(words.contains("precision model that covers it"), "{words}");

    let best = measured.iter().find(|row| text(row, "backend") != "gl").expect("an adapter");
    let judged = kept(&["--adapter", "best", "--calibrate", "mqa-16x1"]);
    assert_eq!(judged.ran.code, 0, "{}", judged.ran.out);
    assert!(judged.rows.iter().all(|row| text(row, "model") == text(&best["calibration"], "model")));
}

#[test]
fn a_planted_fault_turns_a_run_red() {
    let planted = kept(&["--plant", "drop-last-block", "exactly-full-final-block"]);
    assert_eq!(planted.ran.code, 1, "{}", planted.ran.out);
    for row in &planted.rows {
        assert_eq!((text(row, "status"), text(row, "kernel")), ("wrong", "cpu-twin+drop-last-block"));
        assert_eq!(row["diagnosis"]["explained"], true, "{row}");
    }
    assert!(planted.ran.out.contains("looks like: "), "{}", planted.ran.out);
    assert!(planted.ran.out.contains("--plant 'drop-last-block'"), "{}", planted.ran.out);
    let unknown = run(&["run", "--plant", "no-such-fault"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("--plant no-such-fault: no such fault"), "{}", unknown.err);
}
