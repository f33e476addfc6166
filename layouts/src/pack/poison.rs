//! What a kernel finds where nothing was ever written. Any trace of it in an output is a fault.
//!
//! WGSL lets an implementation assume that no NaN or infinity occurs, so there are finite patterns for kernels that may
//! load such slots and mask them, and NaN and infinite patterns for those that promise to keep them out.

use attnproof_oracle::elem::{Elem, Saturate};

/// The magnitude of finite poison in formats that hold it.
const LOUD: f64 = 8192.0;

/// The magnitude of finite poison in scale rows of block and token granularity.
pub const LOUD_SCALE: f32 = 1024.0;

/// A poison pattern; P = [`poison_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Poison {
    /// Even slots K = 0, V = P; odd slots, pads and guards K = V = P; scales 2^10. A zero K gives a weight that is
    /// neither 0 nor 1 to a loud V, a loud K takes or loses the whole weight.
    A,
    /// Signs and parity flipped: even slots K = V = -P; odd slots, pads and guards K = 0, V = -P; scales of K -2^10, of V
    /// 2^10, since two flipped signs of V would make A's number again.
    B,
    /// NaN in K and its scales; V and its scales as the odd slots of A. Formats without NaN: A.
    NanK,
    /// NaN in V and its scales; K and its scales as the odd slots of A. Formats without NaN: A.
    NanV,
    /// Even slots K = +inf, V = -inf; odd slots, pads and guards K = -inf, V = +inf; scales +inf. Formats without
    /// infinity: A.
    Infinite,
}

impl Poison {
    /// Every pattern.
    pub const ALL: [Self; 5] = [Self::A, Self::B, Self::NanK, Self::NanV, Self::Infinite];
}

/// Codes by slot parity (even, odd) and scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fill {
    pub(super) k: [u32; 2],
    pub(super) v: [u32; 2],
    pub(super) k_scale: f32,
    pub(super) v_scale: f32,
}

/// Largest magnitude of finite poison in a format, before scales: 2^13, or the largest finite value if that is less.
/// (The largest scale of unwritten rows is 2^10.)
pub fn poison_max(elem: Elem) -> f64 {
    if elem.max_finite() < LOUD { elem.max_finite() } else { LOUD }
}

impl Poison {
    /// The pattern in a format.
    pub(super) fn fill(self, elem: Elem) -> Fill {
        let code = |x: f64| elem.encode(x, Saturate::Finite);
        let loud = code(poison_max(elem));
        let nan = code(f64::NAN);
        let has_nan = elem.is_nan(nan);
        let infinite = [f64::INFINITY, f64::NEG_INFINITY].map(|x| elem.encode(x, Saturate::Nonfinite));
        let has_infinity = elem.decode(infinite[0]) == f64::INFINITY;
        match self {
            Self::B => {
                let negative = code(-poison_max(elem));
                Fill { k: [negative, code(0.0)], v: [negative; 2], k_scale: -LOUD_SCALE, v_scale: LOUD_SCALE }
            }
            Self::NanK if has_nan => {
                Fill { k: [nan; 2], v: [loud; 2], k_scale: f32::NAN, v_scale: LOUD_SCALE }
            }
            Self::NanV if has_nan => {
                Fill { k: [loud; 2], v: [nan; 2], k_scale: LOUD_SCALE, v_scale: f32::NAN }
            }
            Self::Infinite if has_infinity => Fill {
                k: infinite,
                v: [infinite[1], infinite[0]],
                k_scale: f32::INFINITY,
                v_scale: f32::INFINITY,
            },
            Self::A | Self::NanK | Self::NanV | Self::Infinite => {
                Fill { k: [code(0.0), loud], v: [loud; 2], k_scale: LOUD_SCALE, v_scale: LOUD_SCALE }
            }
        }
    }
}
