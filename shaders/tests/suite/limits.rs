//! Problems that an adapter cannot hold are refused by name, before anything is allocated on it.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::{Poison, Pools};
use attnproof_shaders::abi::{GUARD_WORDS, Problem};
use attnproof_shaders::cpu;
use attnproof_shaders::dispatch::{Run, RunError};

use crate::batch::{Batch, Plan, RowPlan};
use crate::machine::{adapter, gpu};

/// The name of the limit, what is needed and what is allowed.
fn refusal(problem: &Problem, pools: &Pools) -> (&'static str, u64, u64) {
    let mut gpu = gpu();
    let pipelines = gpu.pipelines();
    match gpu.run(problem, &[Run { pools, probe: true }]) {
        Err(RunError::Limit { what, need, allowed }) => {
            assert_eq!(gpu.pipelines(), pipelines, "refused before anything is compiled");
            (what, need, allowed)
        }
        other => panic!("not refused: {:?}", other.map(|results| results.len())),
    }
}

#[test]
fn a_pool_beyond_the_largest_binding_is_refused() {
    let batch = Batch::new(&Plan::plain(LayoutKind::PackedBlockTable));
    let allowed = adapter().info.max_binding_bytes;
    // zeroed pages that nobody touches
    let pools = Pools { k: vec![0; (allowed / 4 + 1) as usize], ..batch.pools(Poison::A) };
    let problem = Problem::new(batch.problem.launch.clone(), &[], &pools, &[], &[]);
    let (what, need, limit) = refusal(&problem, &pools);
    assert_eq!((what, limit), ("bytes in one binding", allowed));
    assert!(need > allowed);
}

#[test]
fn outputs_beyond_the_largest_binding_are_refused() {
    let batch = Batch::new(&Plan::plain(LayoutKind::PackedBlockTable));
    let pools = batch.pools(Poison::A);
    let mut launch = batch.problem.launch;
    let per_token = u64::from(launch.q_heads * (launch.dv + 2)) * u64::from(launch.schedule.splits) * 4;
    launch.q_tokens = (adapter().info.max_binding_bytes / per_token + 1) as u32;
    let problem = Problem::new(launch, &[], &pools, &[], &[]);
    assert_eq!(refusal(&problem, &pools).0, "bytes in one binding");
}

#[test]
fn a_grid_beyond_the_largest_dimension_is_refused() {
    let rows = vec![RowPlan { prompt: 1, appended: 0, q_len: 16_384, fork: false }];
    let batch = Batch::new(&Plan { rows, ..Plan::plain(LayoutKind::PackedBlockTable) });
    let pools = batch.pools(Poison::A);
    // one workgroup per query token and head in the merge
    assert_eq!(refusal(&batch.problem, &pools), ("workgroups in one dimension", 65_536, 65_535));
}

#[test]
fn sizes_that_32_bits_cannot_count_are_refused() {
    let batch = Batch::new(&Plan::plain(LayoutKind::PackedBlockTable));
    let pools = batch.pools(Poison::A);
    let mut launch = batch.problem.launch;
    launch.q_tokens = 64;
    launch.schedule.splits = 1 << 20;
    let problem = Problem::new(launch, &[], &pools, &[], &[]);
    // 2^20 splits x 64 query tokens x 4 heads x 18 words are 4.5 x 2^30 words
    let (what, need, allowed) = refusal(&problem, &pools);
    assert_eq!((what, need), ("words of partial results", (1 << 20) * 64 * 4 * 18));
    assert!(need > allowed);
    let on_twin = cpu::run(&problem, &[Run { pools: &pools, probe: false }]);
    assert!(matches!(on_twin, Err(RunError::Limit { what: "words of partial results", .. })));
}

#[test]
fn limits_name_what_is_wrong() {
    let error =
        RunError::Limit { what: "bytes in one binding", need: 9, allowed: u64::from(GUARD_WORDS) - 60 };
    assert_eq!(error.to_string(), "needs 9 bytes in one binding, the adapter allows 4");
}
