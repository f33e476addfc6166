//! Probes are read back, random data are judged more narrowly, and planted faults show in both.

use crate::common::{kept, need_adapter, of_kernel, run, text};

/// The detail of the one row of a run of a planted fault, which must be wrong.
fn wrong(fault: &str, case: &str) -> String {
    let kept = kept(&["--plant", fault, "--layout", "packed-block-table", case]);
    assert_eq!(kept.ran.code, 1, "{fault} in {case}: {}", kept.ran.out);
    assert_eq!(kept.rows.len(), 1, "{case} names one case");
    assert_eq!(text(&kept.rows[0], "status"), "wrong", "{}", kept.rows[0]);
    text(&kept.rows[0], "detail").to_owned()
}

#[test]
fn short_probes_pass_on_both_kernels() {
    need_adapter();
    let probes = kept(&["probe:*"]);
    assert_eq!(probes.ran.code, 0, "{}", probes.ran.out);
    let (wgsl, twin) = (of_kernel(&probes.rows, "wgsl"), of_kernel(&probes.rows, "cpu-twin"));
    assert!(wgsl.len() > 100 && wgsl.len() == twin.len(), "{} {}", wgsl.len(), twin.len());
    assert!(probes.rows.iter().all(|row| text(row, "status") == "pass"));
}

#[test]
fn random_data_are_judged_more_narrowly() {
    let random = kept(&["--adapter", "cpu", "--tier", "full", "random:normal-1*", "random:normal-513-f16"]);
    assert_eq!(random.ran.code, 0, "{}", random.ran.out);
    assert!(random.rows.len() >= 15, "{} rows", random.rows.len());
    for row in &random.rows {
        let acceptance = &row["acceptance"];
        let (used, score) = (acceptance["narrow_used"].as_f64(), acceptance["score"].as_f64());
        assert!(used.is_some_and(|used| used <= 1.0), "{row}");
        assert!(score.is_some_and(|score| score <= 8.0), "{row}");
    }
    let hostile = kept(&["--adapter", "cpu", "mqa-16x1"]);
    assert!(hostile.rows.iter().all(|row| row["acceptance"].is_null()), "aimed data are not random");
}

#[test]
fn the_score_test_sees_what_the_bound_cannot() {
    // one key of 8,192 is worth less than the rigorous bound; the score test names it
    let detail = wrong("drop-middle-token", "random:normal-8192");
    assert!(detail.contains("score test") && detail.contains("4096"), "{detail}");
}

#[test]
fn ballots_name_single_keys() {
    let dropped = wrong("drop-middle-token", "probe:ballot-4096");
    assert!(dropped.contains("the probe reads back") && dropped.contains("key 2048 missing"), "{dropped}");
    let twice = wrong("duplicate-middle-token", "probe:ballot-4096");
    assert!(twice.contains("key 2048") && twice.contains("twice"), "{twice}");
}

#[test]
fn a_name_that_only_long_cases_have_is_found() {
    let ran = run(&["list", "random:normal-8192", "--ids"]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 5), "{}", ran.err);
}
