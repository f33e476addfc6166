//! K and V of the hostile and random families: values that stress the arithmetic of a right kernel.

use attnproof_oracle::Elem;

use super::{FillKind, Slot, Tensor};
use crate::hash;

/// Magnitude of V in [`FillKind::Cancel`].
const CANCEL: f64 = 256.0;
/// How far V of f32 and bf16 stays below the largest finite value, so that 65,536 of them can be summed.
const ROOM_FOR_SUMS: f64 = 1.0 / 262_144.0;
/// Magnitude of K of f32 and bf16 in [`FillKind::Extreme`]: 2^60, far from 1 and small enough for the error
/// of products with subnormals to stay small.
const LOUD_K: f64 = 1_152_921_504_606_846_976.0;
/// Key value of the constant dims of [`FillKind::Deep`].
pub(crate) const DEEP_KEY: f64 = 0.5;
/// Key value of the dims that carry a level of [`FillKind::TwoLevel`].
pub(crate) const LEVEL_KEY: f64 = 0.5;
/// Positions per digit of the ramp dims of [`FillKind::Ascending`]: dim 0 the low digit, dim 1 the next one,
/// each divided by this number.
pub(crate) const RAMP: usize = 256;

/// The largest magnitude that K or V of the kind usually has: what the static scales of 8-bit formats leave
/// room for. Not the same for K and V, so that their scales differ.
pub(super) fn reach(kind: FillKind, tensor: Tensor) -> f64 {
    match (kind, tensor) {
        (FillKind::Cancel, Tensor::V) => CANCEL + 8.0,
        (_, Tensor::K) => 6.0,
        (_, Tensor::V) => 7.0,
    }
}

/// The largest magnitude of K or V in [`FillKind::Extreme`]; queries are divided by that of K. `scaled` says whether
/// the tensor has scales.
pub(crate) fn loudest(elem: Elem, tensor: Tensor, scaled: bool) -> f64 {
    match (elem, tensor) {
        (_, _) if scaled => reach(FillKind::Extreme, tensor),
        (Elem::F32 | Elem::Bf16, Tensor::K) => LOUD_K,
        (Elem::F32 | Elem::Bf16, Tensor::V) => elem.max_finite() * ROOM_FOR_SUMS,
        _ => elem.max_finite(),
    }
}

/// The smallest normal value of a format (1 in int8).
fn smallest_normal(elem: Elem) -> f64 {
    let exponent = match elem {
        Elem::F32 | Elem::Bf16 => -126,
        Elem::F16 | Elem::E5m2 => -14,
        Elem::E4m3fn => -6,
        Elem::E4m3fnuz => -7,
        Elem::E5m2fnuz => -15,
        Elem::Int8 => 0,
    };
    libm::ldexp(1.0, exponent)
}

/// One element. `static_scale` is the scale that values of the tensor are usually divided by, `None` without scales.
pub(super) fn value(kind: FillKind, elem: Elem, slot: &Slot, dim: usize, static_scale: Option<f64>) -> f64 {
    let normal = || hash::normal(slot.stream, dim as u64);
    let of_head = || hash::normal(slot.head_stream, dim as u64);
    match (kind, slot.tensor) {
        (FillKind::Cancel, Tensor::V) => {
            let sign = if slot.position.is_multiple_of(2) { 1.0 } else { -1.0 };
            sign * CANCEL + normal()
        }
        (FillKind::Equal, Tensor::K) | (FillKind::Constant, Tensor::V) => of_head(),
        (FillKind::Subnormal, Tensor::K) if dim % 2 == 0 => normal(),
        (FillKind::Subnormal, _) => smallest_normal(elem) * static_scale.unwrap_or(1.0) * normal(),
        (FillKind::Extreme, tensor) => {
            let word = hash::word(slot.stream, dim as u64);
            let size = 0.875 + 0.125 * hash::signed_unit(word).abs();
            let sign = if word & 1 == 0 { 1.0 } else { -1.0 };
            sign * size * loudest(elem, tensor, static_scale.is_some())
        }
        (FillKind::Ascending | FillKind::Descending, Tensor::K) if dim < 2 => {
            let digit = if dim == 0 { slot.position % RAMP } else { slot.position / RAMP % RAMP };
            digit as f64 / RAMP as f64
        }
        (FillKind::TwoLevel, Tensor::K) if dim == 0 => {
            if hash::word(slot.stream, dim as u64) & 1 == 0 {
                LEVEL_KEY
            } else {
                -LEVEL_KEY
            }
        }
        (FillKind::Deep, Tensor::K) if dim < slot.dims / 2 => DEEP_KEY,
        _ => normal(),
    }
}
