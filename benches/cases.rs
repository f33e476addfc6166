//! Cases per second, warmed: a case is prepared once, its pipelines are compiled, then it runs again and again through
//! all five layouts, judged each time as in `attnproof run`.
//!
//! Items are (case, layout) pairs. The adapter is the one `attnproof run` would choose; without one, that bench is
//! left out.

use std::cell::RefCell;

use attnproof::kernel::{Kernel, Twin, Wgsl};
use attnproof::runner::prepare::prepare;
use attnproof::runner::{Options, run_case};
use attnproof_cases::catalogue::thirty;
use attnproof_layouts::kind::LayoutKind;
use attnproof_report::model::Status;
use attnproof_shaders::device::{adapters, best};
use divan::Bencher;
use divan::counter::ItemsCount;

/// From the smallest case to the longest; nested shared prefixes and an 8-bit format are among them.
const CASES: [&str; 5] = [
    "one-token-four-splits",
    "mqa-16x1",
    "fp8-block-scale-copy-on-write",
    "nested-prefix-scattered-rows",
    "long-prime-high-slots",
];
const OPTIONS: Options = Options { seed: 0x9e37, careful: false };

type Kernels = Vec<Box<dyn Kernel>>;

thread_local! {
    /// The device stays open from bench to bench, so that pipelines are compiled once. Empty without an adapter.
    static DEVICE: RefCell<Kernels> = RefCell::new(open());
}

fn main() {
    let divan = divan::Divan::from_args();
    if DEVICE.with_borrow(Vec::is_empty) {
        eprintln!("no adapter could be opened: the bench of the shaders is left out");
        divan.skip_regex("shaders").main();
    } else {
        divan.main();
    }
}

fn open() -> Kernels {
    let opened = best(&adapters()).map(|a| Wgsl::open(a, attnproof_oracle::Model::wgsl_letter()));
    match opened {
        Some(Ok(kernel)) => {
            eprintln!("adapter: {} ({})", kernel.adapter().name, kernel.adapter().driver);
            vec![Box::new(kernel)]
        }
        Some(Err(error)) => {
            eprintln!("{error}");
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// The WGSL kernels on the adapter.
#[divan::bench(args = CASES, max_time = 5)]
fn shaders(bencher: Bencher<'_, '_>, case: &str) {
    DEVICE.with_borrow_mut(|kernels| pairs(bencher, case, kernels));
}

/// The CPU twin.
#[divan::bench(args = CASES, max_time = 5)]
fn twin(bencher: Bencher<'_, '_>, case: &str) {
    pairs(bencher, case, &mut vec![Box::new(Twin::new())]);
}

/// Runs `case` in every layout on `kernels`.
fn pairs(bencher: Bencher<'_, '_>, case: &str, kernels: &mut Kernels) {
    let case = thirty().into_iter().find(|c| c.name == case).expect("the case is in the catalogue");
    let models: Vec<_> = kernels.iter().map(|k| k.model()).collect();
    let prepared = prepare(&case, OPTIONS.seed, &models).expect("the oracle answers catalogue cases");
    let mut run = || {
        for layout in LayoutKind::ALL {
            for row in run_case(&prepared, layout, kernels, OPTIONS).rows {
                // The time of a run that went wrong says nothing.
                assert_eq!(row.status, Status::Pass, "{} {}: {:?}", row.id, row.kernel, row.detail);
            }
        }
    };
    run();
    bencher.counter(ItemsCount::new(LayoutKind::ALL.len())).bench_local(run);
}
