//! What is said of a wrong kernel: faults planted in the twin, and the lines of their diagnosis.

use std::fmt::Write as _;
use std::sync::LazyLock;

use attnproof::kernel::Kernels;
use attnproof::runner::prepare::prepare;
use attnproof::runner::{Options, run_case};
use attnproof::selftest::kernels::WrongTwin;
use attnproof_cases::case::Case;
use attnproof_cases::catalogue;
use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::Model;
use attnproof_report::model::Diagnosis;
use attnproof_shaders::fault::{KernelFault, library};

const SEED: u64 = 7;

static FAULTS: LazyLock<Vec<KernelFault>> = LazyLock::new(library);

fn case(name: &str) -> Case {
    let all = catalogue::thirty().into_iter().chain(catalogue::extra());
    all.into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

/// The diagnosis of a fault in a case and layout.
fn diagnosis(id: &str, name: &str, layout: LayoutKind) -> Diagnosis {
    let fault = FAULTS.iter().find(|fault| fault.id == id).unwrap_or_else(|| panic!("no fault {id}"));
    let case = case(name);
    let prepared = prepare(&case, SEED, &[Model::strict()]).expect("the case can be judged");
    let mut kernels: Kernels = vec![Box::new(WrongTwin::new(fault))];
    let options = Options { seed: SEED, careful: false };
    let row = run_case(&prepared, layout, &mut kernels, options).rows.remove(0);
    row.diagnosis.unwrap_or_else(|| panic!("{id} in {name}: no diagnosis: {:?} {:?}", row.status, row.detail))
}

#[test]
fn wrong_kernels_are_described() {
    use LayoutKind::{
        ClassicPaged, HotTailContiguous, HybridPrefixShared, PackedBlockTable, VirtualContiguous,
    };
    let mut told = String::new();
    for (id, name, layout) in [
        ("window-plus-one", "sinks-window-splits", ClassicPaged),
        ("causal-minus-one", "shared-prefix-multi-query", PackedBlockTable),
        ("head-mod", "gqa-6x2-group-of-3", PackedBlockTable),
        ("scale-per-mille", "head-dim-80", VirtualContiguous),
        ("sink-per-split", "sinks-window-splits", PackedBlockTable),
        ("kvscale-missing-in-prefix", "padded-slots-fp8", HybridPrefixShared),
        ("kvscale-divided", "mixed-head-token-scales", ClassicPaged),
        ("drop-last-block", "one-token-in-new-block", HotTailContiguous),
        ("tile-tail-of-one", "five-query-tokens-ragged", HotTailContiguous),
        ("no-rescale", "exactly-full-final-block", HotTailContiguous),
        ("merge-base2", "sinks-window-splits", ClassicPaged),
        ("f16-accumulator", "int8-saturate", ClassicPaged),
        ("empty-row-zero-lse", "ragged-batch-empty-row", PackedBlockTable),
    ] {
        let diagnosis = diagnosis(id, name, layout);
        let best = diagnosis.best.as_ref().map_or("", |best| best.id.as_str());
        assert!(diagnosis.explained && best.split(" or ").any(|named| named == id), "{id}: {diagnosis:?}");
        assert!(!diagnosis.unwritten && diagnosis.seen.is_empty(), "{id}: {diagnosis:?}");
        tell(&mut told, id, name, layout, &diagnosis);
    }
    // no hypothesis on logical data, or reads of slots never written
    for (id, name, layout, unwritten) in [
        ("kvscale-logical", "int8-token-scale-fork", PackedBlockTable, false),
        ("alibi-physical", "alibi-shared-prefix-unequal-suffix", PackedBlockTable, false),
        ("masked-weight-small", "one-token-four-splits", ClassicPaged, true),
        ("masked-weight-small", "int8-token-scale-fork", ClassicPaged, true),
        ("blocks-swapped", "ragged-batch-empty-row", ClassicPaged, true),
    ] {
        let diagnosis = diagnosis(id, name, layout);
        assert!(!diagnosis.explained && diagnosis.unwritten == unwritten, "{id}: {diagnosis:?}");
        assert!(!diagnosis.seen.is_empty() && diagnosis.seen.len() <= 3, "{id}: {diagnosis:?}");
        tell(&mut told, id, name, layout, &diagnosis);
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("diagnosis", told));
}

fn tell(told: &mut String, id: &str, name: &str, layout: LayoutKind, diagnosis: &Diagnosis) {
    writeln!(told, "{id} in {name}, {}", layout.name()).expect("a String takes all");
    for line in diagnosis.lines() {
        assert!(line.chars().count() <= 200, "{id}: {line}");
        writeln!(told, "  {line}").expect("a String takes all");
    }
}
