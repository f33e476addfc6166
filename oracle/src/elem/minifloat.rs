//! One codec for every binary floating point format up to 32 bits: sign, exponent, mantissa, and where the
//! special codes lie.

use super::Saturate;

/// Where infinity and NaN live.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// The largest exponent holds infinity (mantissa 0) and NaN.
    Ieee,
    /// Only the all-ones code is NaN; there is no infinity.
    LastCodeNan,
    /// The code of negative zero is NaN; there is neither infinity nor negative zero.
    NegativeZeroNan,
}

/// The layout of a format: bits of exponent and mantissa, exponent bias, special codes.
#[derive(Clone, Copy)]
pub(super) struct Minifloat {
    pub(super) exponent: u32,
    pub(super) mantissa: u32,
    pub(super) bias: i32,
    pub(super) special: Special,
}

impl Minifloat {
    /// The sign bit.
    const fn sign(self) -> u32 {
        1 << (self.exponent + self.mantissa)
    }

    /// The code of positive infinity in an IEEE format: all exponent bits set.
    const fn infinity(self) -> u32 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    /// The positive code of the largest finite value.
    pub(super) const fn max_code(self) -> u32 {
        match self.special {
            Special::Ieee => self.infinity() - 1,
            Special::LastCodeNan => self.sign() - 2,
            Special::NegativeZeroNan => self.sign() - 1,
        }
    }

    /// The NaN code that encoding produces: positive and quiet where there is a choice.
    const fn nan(self) -> u32 {
        match self.special {
            Special::Ieee => self.infinity() | 1 << (self.mantissa - 1),
            Special::LastCodeNan => self.sign() - 1,
            Special::NegativeZeroNan => self.sign(),
        }
    }

    /// The exact value of a code.
    pub(super) fn decode(self, bits: u32) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        let negative = bits & self.sign() != 0;
        if self.special == Special::NegativeZeroNan && bits == self.sign() {
            return f64::NAN;
        }
        let value = if magnitude > self.max_code() {
            if self.special == Special::Ieee && magnitude == self.infinity() {
                f64::INFINITY
            } else {
                f64::NAN
            }
        } else {
            let fraction = magnitude & ((1 << self.mantissa) - 1);
            let exponent = (magnitude >> self.mantissa) as i32;
            let hidden = if exponent == 0 { 0 } else { 1 << self.mantissa };
            let quantum = exponent.max(1) - self.bias - self.mantissa as i32;
            libm::ldexp(f64::from(hidden + fraction), quantum)
        };
        if negative { -value } else { value }
    }

    /// The code nearest to `x`, ties to even.
    ///
    /// The positive codes count upwards with their values, so rounding `|x|` to a whole number of quanta of its
    /// binade and adding the binade's first code gives the answer even where the rounding carries.
    pub(super) fn encode(self, x: f64, sat: Saturate) -> u32 {
        if x.is_nan() {
            return self.nan();
        }
        let magnitude = x.abs();
        let code = if magnitude.is_infinite() { u64::MAX } else { self.round(magnitude) };
        let code = if code <= u64::from(self.max_code()) {
            code as u32
        } else {
            match (sat, self.special) {
                (Saturate::Finite, _) => self.max_code(),
                (Saturate::Nonfinite, Special::Ieee) => self.infinity(),
                (Saturate::Nonfinite, _) => return self.nan_with_sign(x),
            }
        };
        if code == 0 && self.special == Special::NegativeZeroNan {
            return 0;
        }
        if x.is_sign_negative() { code | self.sign() } else { code }
    }

    /// Overflow to NaN keeps the sign where NaN has one (E4M3: 0x7F and 0xFF).
    fn nan_with_sign(self, x: f64) -> u32 {
        if self.special == Special::LastCodeNan && x.is_sign_negative() {
            self.nan() | self.sign()
        } else {
            self.nan()
        }
    }

    /// The code of a finite `magnitude` as if the exponent had no upper end.
    fn round(self, magnitude: f64) -> u64 {
        let smallest = 1 - self.bias;
        // f64's own subnormals are far below every format's smallest, so `ilogb` need not be exact there.
        let exponent =
            if magnitude < f64::MIN_POSITIVE { smallest } else { libm::ilogb(magnitude) }.max(smallest);
        // Scaling by a power of two is exact: the result is below 2^(mantissa + 1).
        let quanta = libm::ldexp(magnitude, self.mantissa as i32 - exponent).round_ties_even() as u64;
        // In a normal binade the quanta include the hidden bit, which is one step of the exponent field.
        quanta + (((exponent - smallest) as u64) << self.mantissa)
    }
}
