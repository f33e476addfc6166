//! Right kernels in simulated low-precision arithmetic: several algorithms, orders and splits on machines as inexact
//! as a [`Model`](crate::Model) allows. A bound must cover all of them; none of them may ever be accused.

mod kernel;
mod machine;

pub use kernel::Algorithm;
pub use machine::{Errors, Machine, Rounding};

use ndarray::{ArrayView3, s};

use crate::reference::Row;
use crate::rule::{alibi_distance, kv_head, position, visible_keys};
use crate::spec::Spec;

/// A generator with a seed: `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Bell-shaped, mean 0, variance 1, exact in f32.
    pub fn normal(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        f64::from((sum - 6.0) as f32)
    }

    /// A random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// One query token and head: visible keys only, in the order in which the kernel visits them.
#[derive(Clone, Debug)]
pub struct Question {
    /// Query `[d]`.
    pub q: Vec<f32>,
    /// Keys, each `[d]`.
    pub k: Vec<Vec<f32>>,
    /// Values, each `[dv]`.
    pub v: Vec<Vec<f32>>,
    /// `ALiBi` slope and distance of each key: the bias is their product.
    pub bias: Vec<(f32, f32)>,
    /// Sink logit.
    pub sink: Option<f32>,
    /// Factor of q . k.
    pub scale: f32,
    /// Dims of the output.
    pub dv: usize,
}

impl Question {
    /// What query token `i` and head `h` of `row` ask, with the keys in an order drawn from `shuffle`, or ascending.
    /// Values are rounded to f32.
    pub fn new(spec: &Spec, row: &Row<'_>, i: usize, h: usize, shuffle: Option<&mut Rng>) -> Question {
        let p = position(spec, i, row.q.dim().0, row.k.dim().0);
        let mut keys = visible_keys(spec, row.mask, i, p, row.k.dim().0);
        if let Some(rng) = shuffle {
            rng.shuffle(&mut keys);
        }
        let kv = kv_head(spec, h);
        let rows = |tensor: &ArrayView3<'_, f64>| -> Vec<Vec<f32>> {
            keys.iter().map(|&j| tensor.slice(s![j, kv, ..]).iter().map(|&x| x as f32).collect()).collect()
        };
        let slope = spec.slopes().map_or(0.0, |slopes| slopes[h]);
        Question {
            q: row.q.slice(s![i, h, ..]).iter().map(|&x| x as f32).collect(),
            k: rows(&row.k),
            v: rows(&row.v),
            bias: keys.iter().map(|&j| (slope, alibi_distance(spec, p, j) as f32)).collect(),
            sink: spec.sink(h).map(|sink| sink as f32),
            scale: spec.scale() as f32,
            dv: spec.shape().dv,
        }
    }
}
