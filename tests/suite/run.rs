//! `attnproof run` on the built-in kernels: verdicts, rows, adapters, exit codes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::common::{
    Ran, adapters, attnproof, finish, folder, full, kept, need_adapter, of_kernel, rows, run, run_in, text,
    timeless, twin,
};

/// Cases times layouts.
const PAIRS: usize = 150;

fn ids<'r>(rows: &[&'r Value]) -> BTreeSet<&'r str> {
    rows.iter().map(|row| text(row, "id")).collect()
}

fn statuses(rows: &[Value]) -> BTreeMap<&str, usize> {
    let mut count = BTreeMap::new();
    for row in rows {
        *count.entry(text(row, "status")).or_insert(0) += 1;
    }
    count
}

#[test]
fn every_pair_passes_on_both_kernels() {
    let full = full();
    assert_eq!(full.ran.code, 0, "{}{}", full.ran.out, full.ran.err);
    assert_eq!(statuses(&full.rows), BTreeMap::from([("pass", 2 * PAIRS)]));
    let (wgsl, twin) = (of_kernel(&full.rows, "wgsl"), of_kernel(&full.rows, "cpu-twin"));
    assert_eq!((ids(&wgsl).len(), ids(&twin).len()), (PAIRS, PAIRS));
    assert_eq!(ids(&wgsl), ids(&twin));
    let headline = full.ran.headline();
    let adapter = text(&wgsl[0]["adapter"], "name");
    assert!(headline.starts_with("PASS: "), "{headline}");
    assert!(headline.contains(&format!("wgsl @ {adapter}")), "{headline}");
    assert!(headline.contains("cpu-twin @ cpu"), "{headline}");
    assert_eq!(headline.matches("150 of 150 pass").count(), 2, "{headline}");
    assert!(!headline.contains("No shader"), "{headline}");
}

#[test]
fn rows_carry_what_a_repetition_needs() {
    let full = full();
    for row in &full.rows {
        for field in ["id", "name", "layout", "kernel", "status", "seed", "suite", "version", "model", "why"]
        {
            assert!(!text(row, field).is_empty(), "{field} is empty in {row}");
        }
        for field in ["name", "backend", "driver"] {
            assert!(!text(&row["adapter"], field).is_empty(), "adapter.{field} is empty in {row}");
        }
        for field in ["tensor", "row"] {
            assert!(!text(&row["worst"], field).is_empty(), "worst.{field} is empty in {row}");
        }
        let axes = if text(&row["worst"], "tensor") == "o" { 3 } else { 2 };
        assert_eq!(row["worst"]["index"].as_array().map(Vec::len), Some(axes), "{row}");
        for field in ["got", "want", "bound"] {
            assert!(
                row["worst"][field].is_number() || row["worst"][field] == "-inf",
                "worst.{field} in {row}"
            );
        }
        for part in ["k", "v", "tables", "scales"] {
            for field in ["loads", "words", "sectors", "lines"] {
                assert!(row["reads"][part][field].is_u64(), "reads.{part}.{field} in {row}");
            }
        }
        assert!(text(row, "id").contains(&format!(";layout={};", text(row, "layout"))), "{row}");
        assert!(row["time_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
        assert!(row["counts"]["checks"].as_u64().is_some_and(|checks| checks > 0), "{row}");
        let digest = text(row, "inputs_sha256");
        assert!(digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit()), "{digest}");
        assert_eq!(row["limits"].is_object(), text(row, "kernel") == "wgsl", "{row}");
    }
}

#[test]
fn inputs_are_one_per_case_whatever_the_layout_and_kernel() {
    let mut digests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in &full().rows {
        digests.entry(text(row, "name")).or_default().insert(text(row, "inputs_sha256"));
    }
    assert!(digests.values().all(|of_case| of_case.len() == 1), "{digests:?}");
    assert_eq!(
        digests.values().flatten().collect::<BTreeSet<_>>().len(),
        digests.len(),
        "two cases share inputs"
    );
}

#[test]
fn every_load_is_predicted_and_the_twin_reads_the_same() {
    let full = full();
    let (wgsl, twin) = (of_kernel(&full.rows, "wgsl"), of_kernel(&full.rows, "cpu-twin"));
    for row in &full.rows {
        assert_eq!(row["reads"]["predicted_equal"], true, "{row}");
        assert!(row["reads"]["k"]["loads"].as_u64().is_some_and(|loads| loads > 0), "{row}");
    }
    let by_id: BTreeMap<_, _> = twin.iter().map(|row| (text(row, "id"), &row["reads"])).collect();
    for row in wgsl {
        assert_eq!(Some(&&row["reads"]), by_id.get(text(row, "id")), "{}", text(row, "id"));
    }
}

#[test]
fn the_largest_share_of_the_bound_is_printed_and_below_one() {
    let full = full();
    let used = |row: &Value| row["budget_used"].as_f64().expect("every row is judged");
    let worst = full.rows.iter().max_by(|a, b| used(a).total_cmp(&used(b))).expect("rows");
    assert!(full.rows.iter().all(|row| (0.0..1.0).contains(&used(row))), "{worst}");
    let line =
        full.ran.out.lines().find(|line| line.starts_with("largest share of the bound")).expect("the line");
    // layouts may tie
    assert!(line.contains(text(worst, "name")) && line.contains(text(worst, "kernel")), "{line}");
    let printed: f64 = line.split([' ', 'x']).find_map(|word| word.parse().ok()).expect("a number");
    assert!((printed / used(worst) - 1.0).abs() < 0.01, "{line}");
}

#[test]
fn one_seed_gives_one_set_of_rows() {
    let full = full();
    let again = run(&["run", "--jobs", "1", "--json", "-"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(
        again.err.starts_with("PASS: "),
        "with --json - the table goes to standard error:\n{}",
        again.err
    );
    let again = rows(&again.out);
    assert_eq!(again.len(), full.rows.len());
    for (a, b) in full.rows.iter().zip(&again) {
        assert_eq!(timeless(a), timeless(b));
    }
}

#[test]
fn another_seed_gives_other_inputs() {
    let of_seed = |seed: &str| kept(&["mqa", "--adapter", "cpu", "--seed", seed]).rows;
    let (ten, hex, other) = (of_seed("16"), of_seed("0x10"), of_seed("17"));
    assert_eq!((ten.len(), other.len()), (5, 5));
    for ((a, b), c) in ten.iter().zip(&hex).zip(&other) {
        assert_eq!(timeless(a), timeless(b), "16 is 0x10");
        assert_eq!(text(a, "id"), text(c, "id"));
        assert_ne!(a["inputs_sha256"], c["inputs_sha256"]);
        assert_eq!((text(a, "seed"), text(c, "seed")), ("0x10", "0x11"));
    }
}

#[test]
fn a_kernel_that_writes_nothing_fails_everywhere() {
    let control = kept(&["--adapter", "noop"]);
    assert_eq!(control.ran.code, 1);
    assert_eq!(statuses(&control.rows), BTreeMap::from([("unwritten", PAIRS)]));
    let headline = control.ran.headline();
    assert!(
        headline.starts_with("FAIL: ") && headline.contains("0 of 150 pass, 150 unwritten"),
        "{headline}"
    );
}

fn says_that_no_shader_ran(ran: &Ran, pairs: usize) {
    let headline = ran.headline();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(headline.starts_with("PASS WITH GAPS: cpu-twin @ cpu"), "{headline}");
    assert!(headline.contains(&format!("{pairs} of {pairs} pass. No shader was run")), "{headline}");
    assert!(!headline.contains("wgsl"), "{headline}");
}

#[test]
fn the_twin_alone_says_that_no_shader_ran() {
    says_that_no_shader_ran(&twin().ran, PAIRS);
    let company: Vec<_> = of_kernel(&full().rows, "cpu-twin").into_iter().map(timeless).collect();
    let alone: Vec<_> = twin().rows.iter().map(timeless).collect();
    assert_eq!(alone, company, "the twin's rows do not depend on what runs beside it");
}

/// The command on a machine without drivers: the Vulkan loader and the EGL dispatcher are sent to files that do not
/// exist, and Mesa to no folder.
#[cfg(target_os = "linux")]
fn without_drivers(args: &[&str]) -> Ran {
    let mut command = attnproof();
    let nowhere = [
        "VK_DRIVER_FILES",
        "VK_ICD_FILENAMES",
        "__EGL_VENDOR_LIBRARY_FILENAMES",
        "LIBGL_DRIVERS_PATH",
        "GBM_BACKENDS_PATH",
    ];
    for name in nowhere {
        command.env(name, "/nonexistent");
    }
    command.env_remove("VK_ADD_DRIVER_FILES");
    finish(command, args)
}

#[cfg(target_os = "linux")]
#[test]
fn without_drivers_the_twin_runs_and_says_so() {
    let doctor = without_drivers(&["doctor"]);
    assert_eq!(doctor.code, 0);
    assert!(doctor.out.starts_with("no adapter: "), "the drivers are not hidden:\n{}", doctor.out);
    says_that_no_shader_ran(&without_drivers(&["run"]), PAIRS);
}

#[cfg(target_os = "linux")]
#[test]
fn without_drivers_an_adapter_asked_for_is_exit_3() {
    for asked in
        [["--adapter", "best"], ["--adapter", "all"], ["--adapter", "0"], ["--require-adapter", "nvidia"]]
    {
        let ran = without_drivers(&["run", asked[0], asked[1]]);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{asked:?}: {}", ran.err);
        assert!(ran.err.starts_with("error: ") && ran.err.lines().count() == 1, "{}", ran.err);
    }
}

#[test]
fn a_required_adapter_that_is_absent_is_exit_3() {
    need_adapter();
    let present = adapters().iter().map(|a| text(a, "name").to_lowercase()).collect::<Vec<_>>();
    for wanted in ["nvidia", "no such adapter", "9999"] {
        if present.iter().any(|name| name.contains(wanted)) {
            continue;
        }
        let folder = folder();
        for flag in ["--require-adapter", "--adapter"] {
            let ran = run_in(folder.path(), &["run", flag, wanted, "--json", "rows.jsonl"]);
            assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{flag} {wanted}: {}", ran.err);
            assert!(ran.err.contains(&format!("no adapter matches '{wanted}'")), "{}", ran.err);
            assert!(present.iter().all(|name| ran.err.to_lowercase().contains(name)), "{}", ran.err);
            assert!(!folder.path().join("rows.jsonl").exists());
        }
    }
    let twin = run(&["run", "mqa", "--adapter", "cpu", "--require-adapter", &present[0]]);
    assert_eq!(twin.code, 3, "the twin is no adapter: {}", twin.err);
}

#[test]
fn a_required_adapter_that_is_present_is_used() {
    need_adapter();
    let backend = text(&adapters()[0], "backend");
    let ran = kept(&["mqa", "--layout", "packed-block-table", "--require-adapter", backend]);
    assert_eq!(ran.ran.code, 0, "{}", ran.ran.err);
    assert_eq!(text(&of_kernel(&ran.rows, "wgsl")[0]["adapter"], "backend"), backend);
}

#[test]
fn nothing_to_run_is_exit_4() {
    let folder = folder();
    let ran = run_in(folder.path(), &["run", "--filter", "nothing-matches", "--json", "rows.jsonl"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert_eq!(ran.err, "nothing ran: no case matches 'nothing-matches'\n");
    assert!(!folder.path().join("rows.jsonl").exists());
    assert_eq!(run(&["list", "nothing-matches"]).code, 4);
    assert_eq!(
        run(&["run", "layout=classic-paged;layout=packed-block-table"]).code,
        4,
        "terms must all match"
    );
}

#[test]
fn an_id_selects_its_row_alone() {
    let id = text(&twin().rows[7], "id");
    let alone = kept(&["--adapter", "cpu", "--filter", id]);
    assert_eq!(alone.rows.iter().map(timeless).collect::<Vec<_>>(), [timeless(&twin().rows[7])]);
    let listed = run(&["list", "--ids"]).out;
    let ids: Vec<&str> = twin().rows.iter().map(|row| text(row, "id")).collect();
    assert_eq!(listed.lines().collect::<Vec<_>>(), ids, "list and run name the same pairs");
}

#[test]
fn the_extra_family_passes_on_both_kernels() {
    need_adapter();
    let extra = kept(&["--tier", "fast", "--filter", "extra:*"]);
    assert_eq!(extra.ran.code, 0, "{}", extra.ran.out);
    let (wgsl, twin) = (of_kernel(&extra.rows, "wgsl"), of_kernel(&extra.rows, "cpu-twin"));
    assert_eq!(ids(&wgsl), ids(&twin));
    assert!(wgsl.iter().all(|row| text(row, "id").starts_with("extra:")));
    assert!(wgsl.len() > 100, "{} pairs", wgsl.len());
    for row in &extra.rows {
        assert_eq!(text(row, "status"), "pass", "{row}");
        assert_eq!(row["reads"]["predicted_equal"], true, "{row}");
        assert!(row["budget_used"].as_f64().is_some_and(|used| used < 1.0), "{row}");
    }
    let all = run(&["list", "--tier", "fast", "--ids"]).out;
    let probes = all.lines().filter(|id| id.starts_with("probe:")).count();
    assert!(probes > 100, "{probes} pairs of probes");
    assert_eq!(
        all.lines().count(),
        PAIRS + wgsl.len() + probes,
        "the thirty, the extra family, short probes"
    );
    for what in
        ["kv=f16", "kv=bf16", "kv=e5m2", "kv=e4m3fnuz", "kv=e5m2fnuz", "kv=int8", "softcap=", "sinks=", "dv="]
    {
        assert!(ids(&wgsl).iter().any(|id| id.contains(what)), "no extra case has {what}");
    }
}

#[test]
fn invariants_hold_after_every_operation() {
    let careful = kept(&["--adapter", "cpu", "--invariants"]);
    assert_eq!(careful.ran.code, 0, "{}", careful.ran.out);
    let strip = |rows: &[Value]| rows.iter().map(timeless).collect::<Vec<_>>();
    assert_eq!(strip(&careful.rows), strip(&twin().rows), "looking changes nothing");
}
