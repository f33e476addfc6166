//! The self-test: every planted fault is caught, and one that nothing catches makes it fail.

use std::sync::OnceLock;

use attnproof::select::{Selection, Source, select};
use attnproof::selftest::{Plan, on_twin};
use attnproof_cases::tiers::Tier;
use attnproof_layouts::fault as manager_faults;
use attnproof_report::kill::{Fate, KillMatrix};
use attnproof_report::model::Status;
use attnproof_shaders::fault::{self as kernel_faults, KernelFault, Kind};

use crate::common::{Ran, folder, need_adapter, run};

/// The whole self-test on the CPU twin, run once.
fn whole() -> &'static (Ran, KillMatrix) {
    static WHOLE: OnceLock<(Ran, KillMatrix)> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let folder = folder();
        let file = folder.path().join("kill.json");
        let ran = run(&["selftest", "--json", file.to_str().expect("a UTF-8 path")]);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("no matrix ({e}):\n{}", ran.err));
        (ran, serde_json::from_str(&text).expect("a kill matrix"))
    })
}

#[test]
fn every_fault_is_caught_and_nothing_right_is_accused() {
    let (ran, matrix) = whole();
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.headline().starts_with("PASS: "), "{}", ran.headline());
    assert_eq!(matrix.faults.len(), kernel_faults::library().len() + manager_faults::library().len());
    for fate in [Fate::Survived, Fate::Unreached, Fate::Accused] {
        assert_eq!(matrix.of(fate).map(|fault| &fault.id).collect::<Vec<_>>(), [""; 0], "{fate:?}");
    }
    assert!(matrix.whole && matrix.false_alarms.is_empty());
    let allowed = [
        Status::Wrong,
        Status::Nonfinite,
        Status::Unwritten,
        Status::OutOfBounds,
        Status::Nondeterministic,
        Status::TrafficMismatch,
        Status::Invariant,
    ];
    let statuses = matrix.faults.iter().flat_map(|fault| &fault.cells).filter_map(|cell| cell.status);
    assert!(statuses.into_iter().all(|status| allowed.contains(&status)), "an error catches nothing");
}

/// One line a fault: a mark for each of the thirty cases.
fn strips(site: &str) -> String {
    let (_, matrix) = whole();
    let mark = |fault: &attnproof_report::kill::FaultRow, case: usize| {
        fault.cells.iter().find(|cell| cell.case == case).map_or('.', |cell| match cell.killed {
            0 => '-',
            killed if killed == cell.reached => '#',
            _ => '+',
        })
    };
    let faults = matrix.faults.iter().filter(|fault| fault.site == site);
    let lines = faults.map(|fault| {
        let marks: String = (0..30).map(|case| mark(fault, case)).collect();
        format!("{} {marks}\n", fault.id)
    });
    lines.collect()
}

#[test]
fn the_thirty_cases_catch_what_they_caught() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| {
        insta::assert_snapshot!("kill_matrix_kernels", strips("kernel"));
        insta::assert_snapshot!("kill_matrix_managers", strips("manager"));
    });
}

#[test]
fn the_usual_rules_catch_less() {
    let (_, matrix) = whole();
    let rule = |name: &str| matrix.criteria.iter().find(|rule| rule.name == name).expect("a rule");
    let bound = rule("this harness");
    assert_eq!((bound.killed, bound.killed_numbers), (bound.of, bound.of_numbers));
    assert_eq!(bound.false_alarms, 0);
    for name in ["1e-3", "1e-2", "nmse", "cosine", "flash-attn"] {
        assert!(rule(name).killed < bound.killed, "{name} catches as much as the bound");
    }
    assert!(rule("torch").false_alarms > 0, "torch's tolerance accuses right kernels");
    assert!(bound.right > 500, "{} outputs of right kernels", bound.right);
}

fn one_case(name: &str) -> Selection {
    select(&Source::Tier(Tier::Smoke), &[name.to_owned()], &["packed-block-table".to_owned()])
        .expect("a case")
}

fn judged(fault: &KernelFault) -> KillMatrix {
    let selection = one_case("gqa-6x2-group-of-3");
    let plan =
        Plan { selection: &selection, kernels: &[fault], managers: &[], seed: 7, jobs: 1, whole: true };
    on_twin(&plan, &|_| {}).expect("the case can be judged")
}

#[test]
fn a_fault_that_nothing_catches_is_a_failure() {
    let harmless = KernelFault {
        id: "does-nothing",
        kind: Kind::Scale,
        says: "nothing at all",
        reach: |_| true,
        twin: |_| {},
        wgsl: &[],
        equivalent: None,
    };
    let survivor = judged(&harmless);
    assert_eq!(survivor.faults[0].fate(), Fate::Survived);
    assert!(!survivor.passes(), "{}", survivor.headline());

    let excused = judged(&KernelFault { equivalent: Some("it does nothing"), ..harmless });
    assert_eq!(excused.faults[0].fate(), Fate::Equivalent);
    assert!(!excused.passes(), "nothing was caught, so nothing was tested");

    let unreached = judged(&KernelFault { reach: |_| false, ..harmless });
    assert_eq!(unreached.faults[0].fate(), Fate::Unreached);
    assert!(!unreached.passes());

    let caught = judged(&KernelFault { twin: |rules| rules.k_head = |_, _| 0, ..harmless });
    assert_eq!(caught.faults[0].fate(), Fate::Killed);
    assert!(caught.passes(), "{}", caught.headline());
}

#[test]
fn threads_do_not_change_the_matrix() {
    let filters = ["mqa-16x1".to_owned(), "fork-at-block-boundary".to_owned(), "sinks-empty-row".to_owned()];
    let selection = select(&Source::Tier(Tier::Fast), &filters, &[]).expect("cases");
    let library = kernel_faults::library();
    let kernels: Vec<_> = library.iter().step_by(4).collect();
    let managers: Vec<_> = manager_faults::library().iter().step_by(7).collect();
    let of = |jobs| {
        let plan = Plan {
            selection: &selection,
            kernels: &kernels,
            managers: &managers,
            seed: 3,
            jobs,
            whole: false,
        };
        let matrix = on_twin(&plan, &|_| {}).expect("the cases can be judged");
        KillMatrix { seconds: 0.0, ..matrix }
    };
    assert_eq!(of(1), of(3));
}

#[test]
fn the_shaders_are_caught_too() {
    need_adapter();
    let faults = ["window-plus-one", "head-mod", "drop-last-token", "k-loaded-twice", "unwritten-lse"];
    let mut args = vec!["selftest", "--adapter", "best", "--pairs", "1"];
    args.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
    args.extend(["window-starts-mid-block", "gqa-6x2-group-of-3"]);
    let ran = run(&args);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.headline().contains("5 of 5 faults caught") && ran.headline().contains("wgsl @ "),
        "{}",
        ran.out
    );
}

#[test]
fn an_empty_test_is_no_pass() {
    for args in [&["selftest", "no-such-case"][..], &["selftest", "--fault", "no-such-fault"]] {
        let ran = run(args);
        assert_eq!(ran.code, 4, "{args:?}: {}", ran.out);
        assert!(ran.err.contains("nothing was tested"), "{}", ran.err);
    }
    let absent = run(&["selftest", "--adapter", "no-such-adapter", "mqa-16x1"]);
    assert_eq!(absent.code, 3, "{}", absent.err);
}

#[test]
fn a_filtered_test_needs_no_reach_but_counts_survivors() {
    let ran = run(&["selftest", "head-dim-80", "--fault", "alibi-sign", "--fault", "head-dim-32"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.headline().contains("1 of 2 faults caught") && ran.headline().contains("reached by no case"));
    let survivor = run(&["selftest", "mqa-16x1", "--fault", "head-shift"]);
    assert_eq!(survivor.code, 1, "a fault that the case reaches and does not show: {}", survivor.out);
}
