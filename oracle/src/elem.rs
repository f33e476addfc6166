//! Number formats of stored K and V and of outputs: exact decoding, encoding with one rounding.
//!
//! Sources: IEEE 754-2019 (f32, f16); the OCP 8-bit floating point specification 1.0 (E4M3 = `e4m3fn`, E5M2);
//! Noune et al., "8-bit numerical formats for deep neural networks", 2022 (the `fnuz` pair: bias one larger, no
//! negative zero, one NaN at 0x80).

mod minifloat;
mod out;

use minifloat::{Minifloat, Special};
pub use out::OutType;

/// The format of one stored element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elem {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// OCP E4M3: bias 7, no infinity, NaN at 0x7F and 0xFF, largest 448.
    E4m3fn,
    /// OCP E5M2: bias 15, infinities and NaN as in IEEE, largest 57344.
    E5m2,
    /// E4M3 with bias 8, no infinity, no negative zero, NaN at 0x80, largest 240.
    E4m3fnuz,
    /// E5M2 with bias 16, no infinity, no negative zero, NaN at 0x80, largest 57344.
    E5m2fnuz,
    /// Two's complement integer, -128 to 127. Has neither NaN nor infinity.
    Int8,
}

/// What becomes of a value beyond the largest finite one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Saturate {
    /// Clamp to the largest finite value; infinities are clamped too.
    #[default]
    Finite,
    /// Overflow to infinity, or to NaN where the format has no infinity. `Int8` has neither and clamps.
    Nonfinite,
}

impl Elem {
    /// Every format, in the order of [`Elem::code`].
    pub const ALL: [Elem; 8] = [
        Elem::F32,
        Elem::F16,
        Elem::Bf16,
        Elem::E4m3fn,
        Elem::E5m2,
        Elem::E4m3fnuz,
        Elem::E5m2fnuz,
        Elem::Int8,
    ];

    /// The number of the format, 0 to 7 in the order of [`Elem::ALL`].
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The name, such as `e4m3fn`.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::F32 => "f32",
            Elem::F16 => "f16",
            Elem::Bf16 => "bf16",
            Elem::E4m3fn => "e4m3fn",
            Elem::E5m2 => "e5m2",
            Elem::E4m3fnuz => "e4m3fnuz",
            Elem::E5m2fnuz => "e5m2fnuz",
            Elem::Int8 => "int8",
        }
    }

    /// The format with this [`name`](Elem::name), if there is one.
    pub fn parse(name: &str) -> Option<Elem> {
        Elem::ALL.into_iter().find(|elem| elem.name() == name)
    }

    /// The size of one element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Elem::F32 => 4,
            Elem::F16 | Elem::Bf16 => 2,
            Elem::E4m3fn | Elem::E5m2 | Elem::E4m3fnuz | Elem::E5m2fnuz | Elem::Int8 => 1,
        }
    }

    /// The largest finite value (127 for `Int8`, whose smallest is -128).
    pub fn max_finite(self) -> f64 {
        self.float().map_or(127.0, |float| float.decode(float.max_code()))
    }

    /// The exact value of a code, NaN for a NaN code. Only the lowest `8 * bytes()` bits are read.
    pub fn decode(self, bits: u32) -> f64 {
        match self.float() {
            Some(float) => float.decode(bits & self.mask()),
            None => f64::from(bits as u8 as i8),
        }
    }

    /// The code nearest to `x`, ties to even, in one rounding. NaN becomes the format's NaN code (`Int8`: 0); a
    /// negative value that rounds to zero keeps its sign where the format has a negative zero.
    pub fn encode(self, x: f64, sat: Saturate) -> u32 {
        match self.float() {
            Some(float) => float.encode(x, sat),
            None if x.is_nan() => 0,
            None => u32::from(x.round_ties_even().clamp(-128.0, 127.0) as i8 as u8),
        }
    }

    /// Whether a code stands for NaN.
    pub fn is_nan(self, bits: u32) -> bool {
        self.decode(bits).is_nan()
    }

    /// The bits that belong to one element.
    const fn mask(self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes())
    }

    /// The layout of a floating point format, `None` for `Int8`.
    const fn float(self) -> Option<Minifloat> {
        let (exponent, mantissa, bias, special) = match self {
            Elem::F32 => (8, 23, 127, Special::Ieee),
            Elem::F16 => (5, 10, 15, Special::Ieee),
            Elem::Bf16 => (8, 7, 127, Special::Ieee),
            Elem::E4m3fn => (4, 3, 7, Special::LastCodeNan),
            Elem::E5m2 => (5, 2, 15, Special::Ieee),
            Elem::E4m3fnuz => (4, 3, 8, Special::NegativeZeroNan),
            Elem::E5m2fnuz => (5, 2, 16, Special::NegativeZeroNan),
            Elem::Int8 => return None,
        };
        Some(Minifloat { exponent, mantissa, bias, special })
    }
}
