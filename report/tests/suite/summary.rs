//! Counting and the headline: nothing but a row that ran and conforms may look like a pass.

use attnproof_report::summary::Gap;
use attnproof_report::{Class, Row, Status, Summary, Verdict, repro};

use crate::fixture::{self, row, twin, with_status};

fn verdict(rows: &[Row]) -> Verdict {
    Summary::of(rows).verdict()
}

#[test]
fn every_status_has_its_verdict() {
    for status in Status::ALL {
        let alone = verdict(&[with_status(row("a", "b"), status, "why")]);
        let beside_a_pass = verdict(&[row("a", "c"), with_status(row("a", "b"), status, "why")]);
        let (want_alone, want_beside) = match status.class() {
            Class::Pass => (Verdict::Pass, Verdict::Pass),
            Class::Fail => (Verdict::Fail, Verdict::Fail),
            Class::Skip => (Verdict::NothingRan, Verdict::PassWithGaps),
            Class::Excused => (Verdict::PassWithGaps, Verdict::PassWithGaps),
            Class::NotRun => (Verdict::NothingRan, Verdict::Incomplete),
        };
        assert_eq!(alone, want_alone, "{status} alone");
        assert_eq!(beside_a_pass, want_beside, "{status} beside a pass");
    }
    assert_eq!(verdict(&[]), Verdict::NothingRan);
}

#[test]
fn the_headline_names_kernels_adapters_and_every_status() {
    let rows = fixture::full();
    assert_eq!(
        Summary::of(&rows).headline(),
        "FAIL: wgsl @ llvmpipe (LLVM 15.0.6, 256 bits), Mesa 22.3.6: 143 of 150 pass, 1 invariant, 1 nonfinite, \
         2 wrong, 1 not-run, 1 unsupported, 1 waived; cpu-twin @ cpu: 150 of 150 pass"
    );
    assert_eq!(Summary::of(&[]).headline(), "NOTHING RAN: there are no result rows");
}

#[test]
fn a_twin_without_a_shader_is_said_and_is_not_a_clean_pass() {
    let twin_rows = [twin(row("a", "b"))];
    let summary = Summary::of(&twin_rows);
    assert!(summary.twin_only() && !summary.shader_ran);
    assert_eq!(summary.verdict(), Verdict::PassWithGaps);
    assert!(summary.headline().contains("No shader was run"), "{}", summary.headline());

    let skipped = [twin(row("a", "b")), with_status(row("a", "b"), Status::Unsupported, "no adapter")];
    assert!(Summary::of(&skipped).headline().contains("No shader was run"));

    let mut external = row("a", "b");
    external.kernel = "python my_kernel.py".to_owned();
    let rows = [external, twin(row("a", "b"))];
    assert!(!Summary::of(&rows).shader_ran);
    assert!(!Summary::of(&rows).headline().contains("No shader was run"));

    let both = [row("a", "b"), twin(row("a", "b"))];
    assert_eq!(verdict(&both), Verdict::Pass);
    assert!(Summary::of(&both).shader_ran);
}

#[test]
fn counts_pairs_cells_and_the_largest_share() {
    let rows = fixture::full();
    let summary = Summary::of(&rows);
    assert_eq!(summary.pairs(), 150);
    assert_eq!(summary.count(Status::Pass), 293);
    assert_eq!(summary.targets.iter().map(|t| t.kernel).collect::<Vec<_>>(), ["wgsl", "cpu-twin"]);
    let shader = &summary.targets[0];
    assert_eq!((shader.cases.len(), shader.layouts.len(), shader.cells.len()), (30, 5, 150));
    assert_eq!(shader.cells[&(2, 1)].status, Status::Wrong);
    assert_eq!(shader.case_budget(2), Some(61.28));
    assert_eq!(summary.largest().map(|row| &row.id), Some(&rows[11].id), "the first of two equals");
    assert_eq!(
        summary.failing.iter().map(|row| row.status.name()).collect::<Vec<_>>(),
        ["invariant", "nonfinite", "wrong", "wrong"]
    );
    assert_eq!(summary.gaps[0], Gap { status: Status::NotRun, reason: "deadline of 60 s reached", rows: 1 });
    assert_eq!(summary.gaps.len(), 3);
}

#[test]
fn infinite_and_missing_shares_are_never_the_largest() {
    let mut rows = vec![row("a", "b"), row("a", "c"), row("a", "d")];
    rows[0].budget_used = Some(f64::NAN);
    rows[1].budget_used = Some(f64::INFINITY);
    rows[2].budget_used = None;
    assert!(Summary::of(&rows).largest().is_none());
    rows[2].budget_used = Some(0.0);
    assert_eq!(Summary::of(&rows).largest().map(|row| row.layout.as_str()), Some("d"));
}

#[test]
fn a_cell_takes_the_worst_of_its_rows() {
    let mut second = with_status(row("a", "b"), Status::Unwritten, "o untouched");
    second.id.push_str(";len=255");
    for rows in [[row("a", "b"), second.clone()], [second.clone(), row("a", "b")]] {
        let summary = Summary::of(&rows);
        assert_eq!(summary.targets[0].cells[&(0, 0)].status, Status::Unwritten);
    }
}

#[test]
fn reads_are_ratios_of_sums_over_cases_passed_by_every_layout() {
    let mut rows = Vec::new();
    for (name, layout, loads, needed) in
        [("a", "x", 200, 800), ("b", "x", 900, 3200), ("a", "y", 400, 800), ("b", "y", 800, 3200)]
    {
        let mut one = row(name, layout);
        one.reads = Some(fixture::reads(loads, needed));
        rows.push(one);
    }
    let ratios = |rows: &[Row]| -> Vec<(usize, Option<f64>)> {
        Summary::of(rows).targets[0].reads.iter().map(|x| (x.rows, x.reads.requested_ratio())).collect()
    };
    // (200 + 900) loads of K and as many of V, 4 bytes each, over 4000 bytes.
    assert_eq!(ratios(&rows), [(2, Some(2.2)), (2, Some(2.4))]);

    rows[3].status = Status::Wrong;
    assert_eq!(ratios(&rows), [(1, Some(2.0)), (1, Some(4.0))], "case b counts for neither layout");
    assert!(Summary::of(&rows).targets[0].reads_comparable);

    rows[0].status = Status::Wrong;
    assert!(!Summary::of(&rows).targets[0].reads_comparable, "no case is left in common");
}

#[test]
fn the_managers_counts_are_taken_once_per_case_not_per_kernel() {
    let rows = fixture::full();
    let summary = Summary::of(&rows);
    assert_eq!(summary.counts.len(), 5);
    for layout in &summary.counts {
        assert_eq!((layout.cases, layout.counts.prompt_tokens, layout.counts.checks), (30, 30 * 64, 60));
        assert_eq!(layout.counts.hit_rate(), Some(0.75));
    }
}

#[test]
fn repro_lines_cannot_be_broken_out_of() {
    assert_eq!(
        repro(&row("a", "b")),
        "attnproof run --filter 'decode:a;layout=b;kv=f32' --adapter 'llvmpipe (LLVM 15.0.6, 256 bits)' --seed '0x5eed'"
    );
    assert_eq!(
        repro(&twin(row("a", "b"))),
        "attnproof run --filter 'decode:a;layout=b;kv=f32' --adapter cpu --seed '0x5eed'"
    );
    let mut control = row("a", "b");
    control.id = "user:a;layout=b;kv=f32".to_owned();
    control.adapter.backend = "noop".to_owned();
    assert_eq!(
        repro(&control),
        "attnproof run --filter 'user:a;layout=b;kv=f32' --cases FILE --adapter noop --seed '0x5eed'"
    );
    let mut external = row("a", "b");
    external.kernel = "sh -c 'x'".to_owned();
    external.id = "a'; rm -rf ~; '\n".to_owned();
    assert_eq!(
        repro(&external),
        r"attnproof run --filter 'a'\''; rm -rf ~; '\''' --kernel 'sh -c '\''x'\''' --seed '0x5eed'"
    );
}

#[test]
fn software_adapters_are_known_by_name() {
    assert!(fixture::llvmpipe().is_software());
    assert!(!fixture::host().is_software());
    let mut adapter = fixture::host();
    adapter.name = "Microsoft Basic Render Driver".to_owned();
    assert!(adapter.is_software());
    adapter.name = "NVIDIA L4".to_owned();
    assert!(!adapter.is_software());
}
