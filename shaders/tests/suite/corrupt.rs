//! Stale tables: an entry that points far outside the pool. The twin names the load; the device survives, and its answer
//! or its traffic is wrong.

use attnproof_layouts::kind::LayoutKind as Kind;
use attnproof_layouts::pack::Poison;
use attnproof_layouts::tables::Table;
use attnproof_oracle::{Granularity, Model};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::cpu;
use attnproof_shaders::dispatch::{Run, RunError};

use crate::batch::{Batch, Plan, measured, predicted};
use crate::machine::gpu;

/// A block or slot that no pool here has; its address still fits 32 bits.
const FAR: u32 = 1 << 20;

/// Words that hold a block or a slot: (table, index).
fn entries(kind: Kind) -> Vec<(Table, usize)> {
    match kind {
        Kind::ClassicPaged => vec![(Table::BlockTable, 0)],
        Kind::PackedBlockTable => vec![(Table::Indices, 1)],
        Kind::HotTailContiguous => vec![(Table::Indices, 0), (Table::Tail, 0)],
        // the third word of the first span record
        Kind::VirtualContiguous | Kind::HybridPrefixShared => vec![(Table::Spans, 2)],
    }
}

fn spoil(problem: &Problem, table: Table, index: usize) -> Problem {
    assert!(index < problem.launch.tables.get(table).len(), "{table:?} has such an entry");
    let mut problem = problem.clone();
    let at = problem.launch.tables.at(table) as usize + index;
    problem.launch.tables.words[at] = FAR;
    problem
}

#[test]
fn an_entry_outside_the_pool_is_named_by_the_twin() {
    for (k_scale, binding) in [(Granularity::None, "k"), (Granularity::Token, "side")] {
        for kind in Kind::ALL {
            let batch = Batch::new(&Plan { k_scale, ..Plan::plain(kind) });
            let pools = batch.pools(Poison::A);
            let run = Run { pools: &pools, probe: false };
            for (table, index) in entries(kind) {
                let error =
                    cpu::run(&spoil(&batch.problem, table, index), &[run]).expect_err("it reads outside");
                let RunError::OutOfBounds { binding: named, word, words } = error else {
                    panic!("{kind}: {error}");
                };
                assert_eq!(named, binding, "{kind}, {table:?}");
                assert!(word as usize >= words, "{kind}, {table:?}: word {word} of {words}");
            }
            assert!(cpu::run(&batch.problem, &[run]).is_ok(), "{kind}");
        }
    }
}

#[test]
fn an_entry_outside_the_pool_is_survived_and_seen_on_the_device() {
    let mut gpu = gpu();
    for kind in Kind::ALL {
        let batch = Batch::new(&Plan::plain(kind));
        let pools = batch.pools(Poison::A);
        let runs = [Run { pools: &pools, probe: true }];
        for (table, index) in entries(kind) {
            let spoilt = spoil(&batch.problem, table, index);
            let result = gpu.run(&spoilt, &runs).expect("the device survives").remove(0);
            let log = result.probe.expect("the probe was on");
            let right = batch.passes(&result.outputs, &Model::wgsl_letter());
            assert!(
                !right || measured(&log) != predicted(&batch.problem),
                "{kind}, {table:?}: nobody noticed"
            );
        }
        let healthy = gpu.run(&batch.problem, &runs).expect("the device runs").remove(0);
        assert!(batch.passes(&healthy.outputs, &Model::wgsl_letter()), "{kind}: the device works afterwards");
    }
}
