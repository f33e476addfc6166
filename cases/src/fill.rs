//! What K and V hold: a pure function of the suite, the seed, the case's name, the chain hash of a
//! token's whole prefix with its salt, its position, KV head and dim.
//!
//! Never of a layout, so that every layout must produce the same rows; never of the query. As in the
//! layers of a model above the first, the content of a token depends on everything before it, so that a block
//! shared under the wrong parent or salt is visible.
//!
//! Real values before encoding (plain ones exact in f32; no transcendental function is involved):
//! * K: noise in (-1, 1) times a loudness of the token and head: 6/8, 7/8 or 1.
//! * V, even dims: noise in (-1.5, 1.5) times such a loudness. V, dim = 1 mod 8: the low digit of the position,
//!   5 mod 8: its next digit (base 64), 3 mod 4: the KV head. Outputs so spell which positions and which head
//!   were read.
//!
//! With [`FillKind::Outliers`] one element of 64 is 60 times larger (saturated codes in 8-bit formats) and dim 2 is
//! so small that its codes are subnormal ones in the 8-bit formats and in f16.
//!
//! The other kinds have values of their own: `hostile` and random families, and probes of `exact` codes.

mod exact;
mod hostile;
mod kind;

use std::ops::Range;

use attnproof_oracle::{Elem, Granularity, block_scale, token_scale};

use crate::case::Case;
use crate::hash;

use exact::Balance;
pub(crate) use exact::{AMPLITUDE, BASE, CLASSES, CODES_PER_CENTRE, DIGITS, FIRST_CLASS, REACH, centres};
pub(crate) use hostile::{DEEP_KEY, LEVEL_KEY, RAMP, loudest};
pub use kind::FillKind;

/// Version of the inputs: part of every key, so that results of different suites are never compared.
pub const SUITE: &str = "2026.12";

/// How far outliers stand out.
const OUTLIER: f64 = 60.0;
/// Positions per digit in the position dims of V.
const DIGIT: usize = 64;
/// Constant factor of V's noise, which keeps V's scales apart from K's.
const V_LOUDNESS: f64 = 1.5;
/// Magnitude of another tenant's loud values in formats with that range: far above any real K or V, and
/// small enough that scores stay finite in f32.
const FOREIGN: f64 = 1024.0;

/// One token's K and V as stored: element codes and the scales they were encoded with.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRow {
    /// Codes of K, `[kv head][d]` flattened, one element each in the low bits.
    pub k: Vec<u32>,
    /// Codes of V, `[kv head][dv]` flattened.
    pub v: Vec<u32>,
    /// Scales of K: none, one (tensor), or one per KV head (head, block, token).
    pub k_scale: Vec<f32>,
    /// Scales of V, as `k_scale`.
    pub v_scale: Vec<f32>,
}

/// Which of the two cached tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tensor {
    K,
    V,
}

/// One token's K or V of one KV head, as the fills see it.
struct Slot {
    tensor: Tensor,
    position: usize,
    /// Elements of the tensor per token and head.
    dims: usize,
    /// Key of everything drawn for this token, tensor and head.
    stream: u64,
    /// The same for K where the tensor is V, and the other way round.
    sibling_stream: u64,
    /// The same for the whole row: it depends on the first token.
    row_stream: u64,
    /// The same for the whole case.
    head_stream: u64,
}

/// The content of one case under one seed.
#[derive(Clone, Debug)]
pub struct Content<'c> {
    case: &'c Case,
    key: u64,
    xray: Option<usize>,
}

impl<'c> Content<'c> {
    /// The content of `case` under `seed`.
    pub fn new(case: &'c Case, seed: u64) -> Self {
        Self { case, key: case.key(seed), xray: None }
    }

    /// The same content, but V is one-hot: position `p` has one element that is not 0, at dim `p mod dv`, if
    /// `p / dv == pass`. K and all scales stay. An output element so reads back the weight of one key, see
    /// [`crate::probe::weights`].
    #[must_use]
    pub fn with_xray(self, pass: usize) -> Self {
        Self { xray: Some(pass), ..self }
    }

    /// The identity of every position: a hash of the salt and of all tokens up to and with this one.
    pub fn chain(&self, tokens: &[u64], salt: u64) -> Vec<u64> {
        let start = hash::fold(hash::key(&[b"chain"]), salt);
        tokens
            .iter()
            .scan(start, |state, token| {
                *state = hash::fold(*state, *token);
                Some(*state)
            })
            .collect()
    }

    /// K and V of the positions in `range` (clipped to the row) of a row with these tokens and salt.
    pub fn rows(&self, tokens: &[u64], salt: u64, range: Range<usize>) -> Vec<TokenRow> {
        let end = range.end.min(tokens.len());
        let chain = self.chain(&tokens[..end], salt);
        let balance = (self.case.fill == FillKind::Ballot && range.start < end).then(|| {
            let shape = self.case.shape;
            Balance::new(end, shape.kv_heads, shape.dv, |position, head| {
                self.stream(chain[position], position, head, Tensor::V)
            })
        });
        (range.start..end).map(|position| self.row(&chain, position, balance.as_ref())).collect()
    }

    /// Scale tables of K and V that do not depend on tokens: one value (tensor), one per KV head (head),
    /// otherwise empty.
    pub fn static_scales(&self) -> (Vec<f32>, Vec<f32>) {
        (self.static_table(Tensor::K), self.static_table(Tensor::V))
    }

    /// What another tenant writes: loud and finite, in the case's own format. Even tags have small K and loud
    /// V (seen wherever a masked weight is not exactly zero), odd ones loud K and V.
    pub fn foreign(&self, tag: u64) -> TokenRow {
        let key = hash::fold(hash::fold(self.key, 0xF0), tag);
        let code = |tensor, counter: u64, loud: bool| {
            let word = hash::word(hash::fold(key, tensor), counter);
            let magnitude = if loud { FOREIGN } else { 0.25 };
            let sign = if word & 1 == 0 { 1.0 } else { -1.0 };
            let value = (sign * magnitude).clamp(-self.max_finite(), self.max_finite());
            self.case.kv.encode(value, self.case.saturate)
        };
        let shape = self.case.shape;
        let loud_k = tag % 2 == 1;
        TokenRow {
            k: (0..(shape.kv_heads * shape.d) as u64).map(|i| code(0, i, loud_k)).collect(),
            v: (0..(shape.kv_heads * shape.dv) as u64).map(|i| code(1, i, true)).collect(),
            k_scale: self.foreign_scales(Tensor::K),
            v_scale: self.foreign_scales(Tensor::V),
        }
    }

    fn foreign_scales(&self, tensor: Tensor) -> Vec<f32> {
        match self.granularity(tensor) {
            Granularity::Block | Granularity::Token => {
                (0..self.case.shape.kv_heads).map(|head| 8.0 + head as f32).collect()
            }
            _ => self.static_table(tensor),
        }
    }

    fn max_finite(&self) -> f64 {
        self.case.kv.max_finite()
    }

    fn granularity(&self, tensor: Tensor) -> Granularity {
        match tensor {
            Tensor::K => self.case.k_scale,
            Tensor::V => self.case.v_scale,
        }
    }

    fn dims(&self, tensor: Tensor) -> usize {
        match tensor {
            Tensor::K => self.case.shape.d,
            Tensor::V => self.case.shape.dv,
        }
    }

    fn static_table(&self, tensor: Tensor) -> Vec<f32> {
        let base = self.base_scale(tensor);
        match self.granularity(tensor) {
            Granularity::Tensor if self.case.fill.is_probe() => vec![exact::scale(tensor, 0)],
            Granularity::Head if self.case.fill.is_probe() => {
                (0..self.case.shape.kv_heads as u64).map(|head| exact::scale(tensor, head)).collect()
            }
            Granularity::Tensor => vec![base as f32],
            Granularity::Head => {
                // Heads differ by more than any rounding, and K's order is not V's.
                let step = if tensor == Tensor::K { 0.375 } else { 0.625 };
                (0..self.case.shape.kv_heads).map(|head| (base * (1.0 + step * head as f64)) as f32).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The scale of the whole tensor (of KV head 0). In 8-bit floats the largest finite value stands for 13.44 in
    /// K and 89.6 in V (scales 0.03 and 0.2 in e4m3fn), so that outliers saturate; in int8 1 is code 117 of
    /// K and 1.5 is code 120 of V.
    fn base_scale(&self, tensor: Tensor) -> f64 {
        let elem = self.case.kv;
        match (elem, tensor) {
            _ if !self.case.fill.is_aimed() => {
                let most = if elem.bytes() == 1 { elem.max_finite() } else { 32.0 };
                hostile::reach(self.case.fill, tensor) / most
            }
            (Elem::Int8, Tensor::K) => 0.0085,
            (Elem::Int8, Tensor::V) => 0.0125,
            (Elem::F32 | Elem::F16 | Elem::Bf16, Tensor::K) => 0.03,
            (Elem::F32 | Elem::F16 | Elem::Bf16, Tensor::V) => 0.2,
            (_, Tensor::K) => 13.44 / elem.max_finite(),
            (_, Tensor::V) => 89.6 / elem.max_finite(),
        }
    }

    fn row(&self, chain: &[u64], position: usize, balance: Option<&Balance>) -> TokenRow {
        let (k, k_scale) = self.encoded(chain, position, Tensor::K, balance);
        let (mut v, v_scale) = self.encoded(chain, position, Tensor::V, balance);
        if let Some(pass) = self.xray {
            v = self.one_hot(pass, position);
        }
        TokenRow { k, v, k_scale, v_scale }
    }

    /// V's codes of an X-ray: the hot one is 1, or 64 in int8, exact under any scale.
    fn one_hot(&self, pass: usize, position: usize) -> Vec<u32> {
        let elem = self.case.kv;
        let dv = self.case.shape.dv;
        let [cold, hot] = [0.0, if elem == Elem::Int8 { 64.0 } else { 1.0 }]
            .map(|value| elem.encode(value, self.case.saturate));
        let is_hot = |dim: usize| position / dv == pass && position % dv == dim;
        (0..self.case.shape.kv_heads * dv).map(|i| if is_hot(i % dv) { hot } else { cold }).collect()
    }

    /// Codes and scales of one token's K or V.
    fn encoded(
        &self,
        chain: &[u64],
        position: usize,
        tensor: Tensor,
        balance: Option<&Balance>,
    ) -> (Vec<u32>, Vec<f32>) {
        let scales = self.scales(chain, position, tensor);
        let heads = 0..self.case.shape.kv_heads;
        let values: Vec<f64> = match (tensor, balance) {
            (Tensor::V, Some(balance)) => balance.row(position).collect(),
            _ => heads.flat_map(|head| self.values(chain, position, head, tensor)).collect(),
        };
        let scale = |head: usize| match scales.len() {
            0 => 1.0,
            1 => f64::from(scales[0]),
            _ => f64::from(scales[head]),
        };
        let dims = self.dims(tensor);
        let encode =
            |(i, value): (usize, f64)| self.case.kv.encode(value / scale(i / dims), self.case.saturate);
        (values.into_iter().enumerate().map(encode).collect(), scales)
    }

    /// The scales one token is encoded with. A block's scale is set by the first token of the logical block,
    /// which starts at a multiple of the block size: so copies of a block keep their codes.
    fn scales(&self, chain: &[u64], position: usize, tensor: Tensor) -> Vec<f32> {
        let (first, scale): (usize, fn(f64, Elem) -> f32) = match self.granularity(tensor) {
            Granularity::Block => (position - position % self.case.block_size as usize, block_scale),
            Granularity::Token => (position, token_scale),
            _ => return self.static_table(tensor),
        };
        (0..self.case.shape.kv_heads)
            .map(|head| {
                if self.case.fill.is_probe() {
                    return exact::scale(tensor, self.stream(chain[first], first, head, tensor));
                }
                let values = self.values(chain, first, head, tensor);
                let absmax = values.into_iter().map(f64::abs).fold(0.0, f64::max);
                scale(absmax, self.case.kv)
            })
            .collect()
    }

    /// The key of everything drawn for one token, KV head and tensor.
    fn stream(&self, identity: u64, position: usize, head: usize, tensor: Tensor) -> u64 {
        [position as u64, head as u64, u64::from(tensor == Tensor::V)]
            .into_iter()
            .fold(hash::fold(self.key, identity), hash::fold)
    }

    /// The real values of one token and KV head before encoding.
    fn values(&self, chain: &[u64], position: usize, head: usize, tensor: Tensor) -> Vec<f64> {
        if self.case.fill.is_aimed() {
            return self.aimed_values(chain[position], position, head, tensor);
        }
        let (fill, elem) = (self.case.fill, self.case.kv);
        let other = if tensor == Tensor::K { Tensor::V } else { Tensor::K };
        let slot = Slot {
            tensor,
            position,
            dims: self.dims(tensor),
            stream: self.stream(chain[position], position, head, tensor),
            sibling_stream: self.stream(chain[position], position, head, other),
            row_stream: self.stream(chain[0], 0, head, tensor),
            head_stream: self.stream(0, 0, head, tensor),
        };
        let granularity = self.granularity(tensor);
        if fill.is_probe() {
            return (0..slot.dims).map(|dim| exact::value(fill, elem, granularity, &slot, dim)).collect();
        }
        let scale = (granularity != Granularity::None).then(|| self.base_scale(tensor));
        (0..slot.dims).map(|dim| hostile::value(fill, elem, &slot, dim, scale)).collect()
    }

    /// The values of [`FillKind::Plain`] and [`FillKind::Outliers`].
    fn aimed_values(&self, identity: u64, position: usize, head: usize, tensor: Tensor) -> Vec<f64> {
        let stream = self.stream(identity, position, head, tensor);
        let dims = self.dims(tensor);
        let loudness = (6 + hash::word(stream, dims as u64) % 3) as f64 / 8.0;
        (0..dims)
            .map(|dim| {
                let word = hash::word(stream, dim as u64);
                let noise = hash::signed_unit(word) * loudness;
                let value = match (tensor, dim % 8) {
                    (Tensor::K, _) => noise,
                    (Tensor::V, 1) => digit(position),
                    (Tensor::V, 5) => digit(position / DIGIT),
                    (Tensor::V, 3 | 7) => (1 + head) as f64 / 16.0,
                    (Tensor::V, _) => noise * V_LOUDNESS,
                };
                value * self.exaggeration(word, dim, tensor)
            })
            .collect()
    }

    /// The factor of [`FillKind::Outliers`], otherwise 1. The low bits of the word choose; the noise uses the
    /// high ones.
    fn exaggeration(&self, word: u64, dim: usize, tensor: Tensor) -> f64 {
        match (dim, tensor) {
            _ if self.case.fill == FillKind::Plain => 1.0,
            (2, _) => self.quiet(tensor),
            _ if word.is_multiple_of(64) => OUTLIER,
            _ => 1.0,
        }
    }

    /// What makes 1 about half the smallest normal value under the scale of the whole tensor; small in any format.
    fn quiet(&self, tensor: Tensor) -> f64 {
        match (self.case.kv, tensor) {
            (Elem::E5m2 | Elem::E5m2fnuz, Tensor::K) => 5e-9,
            (Elem::E5m2 | Elem::E5m2fnuz, Tensor::V) => 3e-8,
            (Elem::F16, _) => 2e-5,
            (_, Tensor::K) => 1e-4,
            (_, Tensor::V) => 1e-3,
        }
    }
}

/// A digit in base 64 as a value in (-1, 1), never 0: odd multiples of 1/64.
fn digit(position: usize) -> f64 {
    ((2 * (position % DIGIT)) as f64 - 63.0) / 64.0
}

#[cfg(test)]
mod tests;
