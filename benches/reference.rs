//! Speed of the oracle: the reference, the second reference and the bound, next to `ndarray`'s own matrix products of
//! the same shapes.
//!
//! Items are floating-point operations, so `Gitem/s` reads GFLOP/s. All benches are charged the same number, that of
//! the two products: `4 * D` per key and query head.

use attnproof_oracle::{Model, Profile, Row, Shape, Spec, attention, bounds, second};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use ndarray::{Array2, Array3, s};

const SHAPE: Shape = Shape { q_heads: 8, kv_heads: 2, d: 64, dv: 64 };
const KEYS: [usize; 2] = [1024, 8192];

fn main() {
    divan::main();
}

/// One decode step: one query token that sees every key.
struct Step {
    spec: Spec,
    /// `[1, q head, d]`.
    q: Array3<f64>,
    /// `[key, kv head, d]`.
    k: Array3<f64>,
    /// `[key, kv head, dv]`.
    v: Array3<f64>,
}

impl Step {
    fn new(keys: usize) -> Self {
        Self {
            spec: Spec::new(SHAPE, Profile::default()).expect("the shape is valid"),
            q: Array3::from_shape_fn((1, SHAPE.q_heads, SHAPE.d), |(t, h, d)| noise(1, [t, h, d])),
            k: Array3::from_shape_fn((keys, SHAPE.kv_heads, SHAPE.d), |(t, h, d)| noise(2, [t, h, d])),
            v: Array3::from_shape_fn((keys, SHAPE.kv_heads, SHAPE.dv), |(t, h, d)| noise(3, [t, h, d])),
        }
    }

    fn row(&self) -> Row<'_> {
        Row { q: self.q.view(), k: self.k.view(), v: self.v.view(), mask: None }
    }
}

/// A number in [-1, 1) that depends on every argument.
fn noise(tensor: usize, index: [usize; 3]) -> f64 {
    let mixed = index.into_iter().fold(tensor as f64, |mixed, i| (mixed + i as f64) * 1.618_033_988_75);
    2.0 * mixed.fract() - 1.0
}

fn flops(keys: usize) -> ItemsCount {
    ItemsCount::new(2 * (SHAPE.d + SHAPE.dv) * keys * SHAPE.q_heads)
}

/// The reference of the oracle.
#[divan::bench(args = KEYS)]
fn reference(bencher: Bencher<'_, '_>, keys: usize) {
    let step = Step::new(keys);
    bencher.counter(flops(keys)).bench_local(|| attention(black_box(&step.spec), black_box(&step.row())));
}

/// `K[n, d] . q[d, m]` and `P[m, n] . V[n, dv]` for each KV head, `m` its query heads: no softmax.
#[divan::bench(args = KEYS)]
fn product(bencher: Bencher<'_, '_>, keys: usize) {
    let step = Step::new(keys);
    let group = SHAPE.group();
    let p = Array2::from_shape_fn((group, keys), |(h, t)| noise(4, [t, h, 0]));
    bencher.counter(flops(keys)).bench_local(|| {
        (0..SHAPE.kv_heads)
            .map(|kv| {
                let q = step.q.slice(s![0, kv * group..(kv + 1) * group, ..]);
                let scores = black_box(step.k.slice(s![.., kv, ..])).dot(&q.t());
                let o = black_box(&p).dot(&step.v.slice(s![.., kv, ..]));
                (scores, o)
            })
            .collect::<Vec<_>>()
    });
}

/// The answer and the error bound of every element.
#[divan::bench(args = KEYS)]
fn bound(bencher: Bencher<'_, '_>, keys: usize) {
    let (step, model) = (Step::new(keys), Model::strict());
    bencher
        .counter(flops(keys))
        .bench_local(|| bounds(black_box(&step.spec), black_box(&step.row()), &model));
}

/// The second reference: scalar loops with compensated sums.
#[divan::bench(args = KEYS)]
fn second_reference(bencher: Bencher<'_, '_>, keys: usize) {
    let step = Step::new(keys);
    bencher
        .counter(flops(keys))
        .bench_local(|| second::attention(black_box(&step.spec), black_box(&step.row())));
}
