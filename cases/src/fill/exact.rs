//! K and V of the probes: codes that every format holds exactly under its scale.
//!
//! K is a small whole number, V a small whole number of quarters of 64 (in ballot +-64). Scales are powers of two,
//! smaller than 1 for K and larger for V, and differ between neighbouring heads, blocks and tokens; the real
//! values do not, so that a scale of another block shows as a factor of two.

use attnproof_oracle::{Elem, Granularity};

use super::{FillKind, Slot, Tensor};
use crate::hash;

/// Magnitude of V's codes.
pub(crate) const AMPLITUDE: f64 = 64.0;
/// Dims of K that spell the position in [`FillKind::Ballot`], base 8, lowest digit first. The dim after them is 1.
pub(crate) const DIGITS: usize = 6;
/// The base of those digits, whose values even a two-bit mantissa holds.
pub(crate) const BASE: usize = 8;
/// Code dims per centring dim of [`FillKind::Needle`], whose K is minus this number.
pub(crate) const CODES_PER_CENTRE: usize = 7;
/// Classes of keys in [`FillKind::Octave`] and [`FillKind::Thermometer`]; each has half the members of the one before.
pub(crate) const CLASSES: usize = 16;
/// The dim of K of the first class; dims 0 and 1 hold the level.
pub(crate) const FIRST_CLASS: usize = 2;
/// Partial sums of ballot codes stay within plus or minus this number.
pub(crate) const REACH: i8 = 8;

/// Centring dims of a needle with `d` dims: the last ones that are used.
pub(crate) const fn centres(d: usize) -> usize {
    d / (CODES_PER_CENTRE + 1)
}

/// A scale that makes the unit of K or V a code of 16, 8 or 4.
pub(super) fn scale(tensor: Tensor, choice: u64) -> f32 {
    let unit = if tensor == Tensor::K { 1.0 } else { AMPLITUDE };
    (unit / [8.0, 4.0, 16.0][(choice % 3) as usize]) as f32
}

/// Levels of [`FillKind::Octave`]: weights are 2^-level.
fn levels(elem: Elem) -> u64 {
    if elem.bytes() == 1 { 8 } else { 16 }
}

/// Everything but V of ballot, whose codes depend on those before: see [`Balance`].
pub(super) fn value(kind: FillKind, elem: Elem, granularity: Granularity, slot: &Slot, dim: usize) -> f64 {
    let sign = |dim: usize| if bit(slot.stream, dim) { 1.0 } else { -1.0 };
    let d = slot.dims;
    match (kind, slot.tensor) {
        (FillKind::Ballot, Tensor::K) if dim < DIGITS => (slot.position / BASE.pow(dim as u32) % BASE) as f64,
        (FillKind::Ballot, Tensor::K) if dim == DIGITS => 1.0,
        (FillKind::Needle, Tensor::K) => {
            let codes = CODES_PER_CENTRE * centres(d);
            match dim {
                dim if dim < codes => sign(dim),
                dim if dim < codes + centres(d) => -(CODES_PER_CENTRE as f64),
                _ => 0.0,
            }
        }
        (FillKind::Octave | FillKind::Thermometer, Tensor::K) if dim < FIRST_CLASS + CLASSES => match dim {
            dim if dim < FIRST_CLASS => level(elem, slot.stream),
            dim => f64::from(u8::from(dim - FIRST_CLASS == class(slot.stream))),
        },
        (_, Tensor::K) => sign(dim),
        (FillKind::HeadConstant, Tensor::V) => loud_code(hash::word(slot.row_stream, dim as u64)),
        (FillKind::Octave, Tensor::V) if elem.bytes() > 1 && granularity == Granularity::None => {
            // The rarer a key's weight the louder its V: all octaves move the output alike.
            let k_stream = slot.sibling_stream;
            let louder = libm::exp2(level(elem, k_stream));
            loud_code(hash::word(slot.stream, dim as u64)) * louder / AMPLITUDE
        }
        (_, Tensor::V) => loud_code(hash::word(slot.stream, dim as u64)),
    }
}

/// +-64, +-80, +-96 or +-112: sign and size from one word.
fn loud_code(word: u64) -> f64 {
    let size = (4 + (word >> 1 & 3)) as f64 / 4.0 * AMPLITUDE;
    if word & 1 == 0 { size } else { -size }
}

/// One of 64 independent bits per word.
fn bit(stream: u64, dim: usize) -> bool {
    hash::word(stream, (dim / 64) as u64) >> (dim % 64) & 1 == 1
}

/// The class of a key: `c` with probability 2^-(c + 1).
fn class(k_stream: u64) -> usize {
    (hash::word(k_stream, 0xC1A5).trailing_zeros() as usize).min(CLASSES - 1)
}

/// The level of a key, a whole number.
fn level(elem: Elem, k_stream: u64) -> f64 {
    (hash::word(k_stream, 0x1EFE) % levels(elem)) as f64
}

/// V's codes of a ballot: in each dim the signs are random, but for the ones that would take the sum of all signs
/// so far beyond [`REACH`]. So every run of keys has a sum of its own that is small, and a sum over any number of
/// keys fits a 16-bit output.
pub(super) struct Balance {
    signs: Vec<i8>,
    width: usize,
}

impl Balance {
    /// The codes of all positions; `streams` gives the words of a position and KV head.
    pub(super) fn new(len: usize, heads: usize, dims: usize, stream: impl Fn(usize, usize) -> u64) -> Self {
        let width = heads * dims;
        let mut sums = vec![0_i8; width];
        let mut signs = Vec::with_capacity(len * width);
        for position in 0..len {
            for head in 0..heads {
                let stream = stream(position, head);
                for dim in 0..dims {
                    let sum = &mut sums[head * dims + dim];
                    let sign = match *sum {
                        REACH => -1,
                        sum if sum == -REACH => 1,
                        _ if bit(stream, dim) => 1,
                        _ => -1,
                    };
                    *sum += sign;
                    signs.push(sign);
                }
            }
        }
        Self { signs, width }
    }

    /// Values of V of one position, `[kv head][dv]` flattened.
    pub(super) fn row(&self, position: usize) -> impl Iterator<Item = f64> {
        let signs = &self.signs[position * self.width..(position + 1) * self.width];
        signs.iter().map(|sign| f64::from(*sign) * AMPLITUDE)
    }
}
