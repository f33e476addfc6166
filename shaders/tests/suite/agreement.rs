//! Random batches: shaders and twin are both within the oracle's bound, close to each other, blind to what was never
//! written, and read exactly what is predicted.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::Split;
use attnproof_layouts::pack::{Poison, Pools};
use attnproof_oracle::{Alibi, Causal, Elem, Model, Profile};
use attnproof_shaders::cpu;
use attnproof_shaders::dispatch::{Run, RunResult};
use proptest::prelude::*;

use crate::batch::{Batch, Plan, RowPlan, measured, predicted};
use crate::machine::gpu;
use crate::random::{fixed, plans};

/// How far shaders and twin may be apart, in units of 2^-23 of the largest value: loose for rounding, tight for any fault.
const APART: f64 = 1024.0;

fn check(plan: &Plan, batch: &Batch, results: &[RunResult], model: &Model) -> Result<(), TestCaseError> {
    let first = &results[0].outputs;
    for verdict in batch.judge(first, model) {
        prop_assert!(
            verdict.budget_used <= 1.0 && verdict.over == 0,
            "{}: {verdict:?}; {plan:?}",
            model.name
        );
    }
    prop_assert!(batch.passes(first, model), "{}: guards; {plan:?}", model.name);
    for result in results {
        prop_assert!(result.outputs == *first, "{}: poison shows in an output; {plan:?}", model.name);
        let log = result.probe.as_ref().expect("the probe was on");
        prop_assert_eq!(measured(log), predicted(&batch.problem), "{}; {:?}", model.name, plan);
    }
    Ok(())
}

fn close(plan: &Plan, batch: &Batch, gpu: &RunResult, twin: &RunResult) -> Result<(), TestCaseError> {
    let (a, b) = (&gpu.outputs, &twin.outputs);
    for (name, a, b, size) in [("o", a.o(), b.o(), batch.loudest()), ("lse", a.lse(), b.lse(), 10.0)] {
        for (at, (&a, &b)) in a.iter().zip(b).enumerate() {
            let (a, b) = (f64::from(f32::from_bits(a)), f64::from(f32::from_bits(b)));
            let apart = APART * f64::from(f32::EPSILON) * size.max(b.abs());
            prop_assert!(a == b || (a - b).abs() <= apart, "{name}[{at}]: {a} and {b}; {plan:?}");
        }
    }
    Ok(())
}

fn agree(plan: &Plan) -> Result<(), TestCaseError> {
    let batch = Batch::new(plan);
    let images: Vec<Pools> = Poison::ALL.iter().map(|&p| batch.pools(p)).collect();
    let runs: Vec<Run<'_>> = images.iter().map(|pools| Run { pools, probe: true }).collect();
    let twin = cpu::run(&batch.problem, &runs).expect("the twin runs");
    check(plan, &batch, &twin, &Model::strict())?;
    // WGSL lets an implementation assume that there are no NaN
    let on_gpu = gpu().run(&batch.problem, &runs[..2]).expect("the device runs");
    check(plan, &batch, &on_gpu, &Model::wgsl_letter())?;
    close(plan, &batch, &on_gpu[0], &twin[0])
}

/// The formats that the random batches use; [`crate::decoders`] has all of them.
const ELEMS: [Elem; 4] = [Elem::F32, Elem::F16, Elem::E4m3fn, Elem::Int8];

#[test]
fn shaders_and_twin_agree_with_the_oracle() {
    // a missing device is no property of a batch
    drop(gpu());
    proptest!(fixed(48), |(plan in plans(&LayoutKind::ALL, &ELEMS))| agree(&plan)?);
}

#[test]
fn prefixes_shared_within_prefixes_are_merged_level_by_level() {
    let row = |prompt, q_len, fork| RowPlan { prompt, appended: 9, q_len, fork };
    // two pairs of rows share 144 keys each, all four share 40
    let rows = vec![row(140, 1, false), row(0, 2, true), row(140, 1, false), row(0, 3, true)];
    for split in [Split::Own, Split::Count(3)] {
        for sink in [None, Some(vec![0.25; 4])] {
            let profile = Profile { sinks: sink, ..Profile::default() };
            let plain = Plan::plain(LayoutKind::HybridPrefixShared);
            let plan = Plan { split, shared: 40, rows: rows.clone(), profile, ..plain };
            assert_eq!(Batch::new(&plan).problem.launch.tables.levels, 2);
            agree(&plan).expect("shaders and twin are right");
        }
    }
}

// Without a causal limit the bias is the distance to either side.
#[test]
fn alibi_looks_both_ways_without_a_causal_limit() {
    drop(gpu());
    proptest!(fixed(10), |(mut plan in plans(&LayoutKind::ALL, &ELEMS))| {
        (plan.profile.causal, plan.profile.alibi) = (Causal::None, Alibi::Formula);
        agree(&plan)?;
    });
}
