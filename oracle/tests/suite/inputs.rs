//! Random sequences and profiles with every field varied, and a generator with a fixed seed.

use attnproof_oracle::{
    Accum, Alibi, AlibiOrigin, BiasOrder, Causal, EmptyRow, HeadMap, LseBase, LseEmpty, Profile, Row, Scale,
    Shape, Spec, Window, simulate::Rng,
};
use ndarray::{Array2, Array3};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed},
};

/// A proptest configuration that asks the same questions on every run.
pub(crate) fn fixed(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(0x00A7_7920), failure_persistence: None, ..Config::default() }
}

/// A sequence that owns its tensors.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) spec: Spec,
    pub(crate) q: Array3<f64>,
    pub(crate) k: Array3<f64>,
    pub(crate) v: Array3<f64>,
    pub(crate) mask: Option<Array2<bool>>,
}

impl Sequence {
    /// Normal tensors for `tq` queries over `tk` keys.
    pub(crate) fn normal(spec: Spec, tq: usize, tk: usize, seed: u64) -> Sequence {
        let mut rng = Rng(seed);
        let Shape { q_heads, kv_heads, d, dv } = *spec.shape();
        let mut tensor = |shape| Array3::from_shape_simple_fn(shape, || rng.normal());
        let (q, k, v) = (tensor((tq, q_heads, d)), tensor((tk, kv_heads, d)), tensor((tk, kv_heads, dv)));
        Sequence { spec, q, k, v, mask: None }
    }

    pub(crate) fn row(&self) -> Row<'_> {
        Row {
            q: self.q.view(),
            k: self.k.view(),
            v: self.v.view(),
            mask: self.mask.as_ref().map(|mask| mask.view()),
        }
    }

    /// Fills keys and values that no query may see, with the mask that hides them, with NaN.
    pub(crate) fn poison(&mut self) {
        let Some(mask) = &self.mask else { return };
        for (j, column) in mask.columns().into_iter().enumerate() {
            if !column.iter().any(|&seen| seen) {
                self.k.index_axis_mut(ndarray::Axis(0), j).fill(f64::NAN);
                self.v.index_axis_mut(ndarray::Axis(0), j).fill(f64::NAN);
            }
        }
    }
}

/// One of several values.
fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1..=3_usize, 1..=3_usize, 1..=9_usize, 1..=7_usize).prop_map(|(kv_heads, group, d, dv)| Shape {
        q_heads: kv_heads * group,
        kv_heads,
        d,
        dv,
    })
}

fn windows() -> impl Strategy<Value = Window> {
    let side = || prop_oneof![2 => Just(None), 3 => (0..12_u32).prop_map(Some)];
    (side(), side()).prop_map(|(left, right)| Window { left, right })
}

fn specs() -> impl Strategy<Value = Spec> {
    let places = (
        one_of(&[HeadMap::Floor, HeadMap::Modulo]),
        one_of(&[Causal::BottomRight, Causal::TopLeft, Causal::None]),
        windows(),
    );
    let scores = (
        prop_oneof![Just(Scale::InvSqrtD), (-2.0..2.0_f32).prop_map(Scale::Explicit)],
        0..3_usize,
        one_of(&[AlibiOrigin::Query, AlibiOrigin::Absolute]),
        prop_oneof![Just(None), (0.5..20.0_f32).prop_map(Some)],
        one_of(&[BiasOrder::CapThenAlibi, BiasOrder::AlibiThenCap]),
        any::<bool>(),
    );
    let ends = (
        one_of(&[EmptyRow::Zero, EmptyRow::Nan]),
        one_of(&[LseBase::E, LseBase::Two]),
        one_of(&[LseEmpty::NegInf, LseEmpty::PosInf]),
    );
    (shapes(), places, scores, ends, any::<u64>()).prop_map(|(shape, places, scores, ends, seed)| {
        let mut rng = Rng(seed);
        let mut per_head = || (0..shape.q_heads).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
        let (head_map, causal, window) = places;
        let (scale, alibi, alibi_origin, softcap, bias_order, sink) = scores;
        let (empty_row, lse_base, lse_empty) = ends;
        let alibi = [Alibi::None, Alibi::Formula, Alibi::Slopes(per_head())][alibi].clone();
        let sinks = sink.then(per_head);
        let profile = Profile {
            scale,
            head_map,
            causal,
            window,
            alibi,
            alibi_origin,
            softcap,
            bias_order,
            sinks,
            empty_row,
            lse_base,
            lse_empty,
            accum: Accum::F32,
            ..Profile::default()
        };
        Spec::new(shape, profile).expect("every field is in range")
    })
}

/// Random sequences of 0 to 5 queries over 0 to 40 keys, half of them with an explicit mask.
pub(crate) fn sequences() -> impl Strategy<Value = Sequence> {
    (specs(), 0..=5_usize, 0..=40_usize, any::<u64>(), any::<bool>()).prop_map(
        |(spec, tq, tk, seed, masked)| {
            let mut sequence = Sequence::normal(spec, tq, tk, seed);
            let mut rng = Rng(!seed);
            sequence.mask = masked.then(|| Array2::from_shape_simple_fn((tq, tk), || rng.below(3) > 0));
            sequence
        },
    )
}
