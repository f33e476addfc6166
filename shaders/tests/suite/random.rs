//! Random batches with every field varied.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::Split;
use attnproof_oracle::{Alibi, BiasOrder, Causal, Elem, Granularity, Profile, Scale, Shape, Window};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use crate::batch::{Plan, RowPlan};
use crate::machine::Rng;

/// A proptest configuration that asks the same questions on every run.
pub(crate) fn fixed(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(0x00A7_7920), failure_persistence: None, ..Config::default() }
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn shapes() -> impl Strategy<Value = Shape> {
    let group = prop_oneof![4 => 1..=5_usize, 1 => Just(20)];
    (1..=3_usize, group, one_of(&[16, 32, 80]), one_of(&[4, 16, 36, 96]))
        .prop_map(|(kv_heads, group, d, dv)| Shape { q_heads: kv_heads * group, kv_heads, d, dv })
}

fn windows() -> impl Strategy<Value = Window> {
    let side = || prop_oneof![3 => Just(None), 2 => (0..40_u32).prop_map(Some)];
    (side(), side()).prop_map(|(left, right)| Window { left, right })
}

/// Profiles for `q_heads` query heads; the lists per head come from `seed`.
fn profiles(q_heads: usize, seed: u64) -> impl Strategy<Value = Profile> {
    let places = (one_of(&[Causal::BottomRight, Causal::TopLeft, Causal::None]), windows());
    let scores = (
        prop_oneof![Just(Scale::InvSqrtD), (-0.5..0.5_f32).prop_map(Scale::Explicit)],
        0..3_usize,
        prop_oneof![Just(None), (0.5..20.0_f32).prop_map(Some)],
        one_of(&[BiasOrder::CapThenAlibi, BiasOrder::AlibiThenCap]),
        // far above and below the scores, too: then the sink takes all or nothing
        one_of(&[0.0, 1.0, 150.0]),
    );
    (places, scores).prop_map(move |((causal, window), (scale, alibi, softcap, bias_order, sink))| {
        let mut rng = Rng(seed);
        let mut per_head = || (0..q_heads).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
        let alibi = [Alibi::None, Alibi::Formula, Alibi::Slopes(per_head())][alibi].clone();
        let sinks = (sink > 0.0).then(|| per_head().into_iter().map(|x| x * sink).collect());
        Profile { scale, causal, window, alibi, softcap, bias_order, sinks, ..Profile::default() }
    })
}

fn rows() -> impl Strategy<Value = Vec<RowPlan>> {
    let row = (0..=150_u32, 0..=3_u32, 1..=5_u32, prop::bool::weighted(0.2))
        .prop_map(|(prompt, appended, q_len, fork)| RowPlan { prompt, appended, q_len, fork });
    prop::collection::vec(row, 1..=4)
}

fn splits() -> impl Strategy<Value = Split> {
    prop_oneof![Just(Split::Own), (1..=5_u32).prop_map(Split::Count), (1..=100_u32).prop_map(Split::Tokens)]
}

/// Random plans in the given layouts and formats.
pub(crate) fn plans(kinds: &[LayoutKind], elems: &[Elem]) -> impl Strategy<Value = Plan> + use<> {
    let store = (one_of(kinds), one_of(elems), shapes(), one_of(&[4, 16, 128]), one_of(&[0, 16]));
    let scales = (one_of(&Granularity::ALL), one_of(&Granularity::ALL));
    let batch = (splits(), 0..=80_u32, rows());
    (store, scales, batch, any::<u64>()).prop_flat_map(|(store, (k_scale, v_scale), batch, seed)| {
        let (kind, elem, shape, block_size, slot_pad) = store;
        profiles(shape.q_heads, seed).prop_map(move |profile| {
            let (split, shared, rows) = batch.clone();
            Plan {
                kind,
                elem,
                shape,
                block_size,
                slot_pad,
                first_block: 1,
                gain: 1.0,
                k_scale,
                v_scale,
                profile,
                split,
                shared,
                rows,
                seed,
            }
        })
    })
}
