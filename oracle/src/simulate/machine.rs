//! Simulated f32 arithmetic that is as bad as a model allows.

use super::Rng;
use crate::elem::{Elem, Saturate};
use crate::spec::PRounding;

const EPS: f64 = f32::EPSILON as f64;

/// How an exact result becomes an f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Towards plus infinity.
    Up,
    /// Towards minus infinity.
    Down,
    /// Truncation.
    TowardZero,
    /// Either neighbour, by chance.
    Either,
}

/// Which error an elementary function makes, out of what it is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Errors {
    /// None but the rounding of the result.
    None,
    /// Always this share of the limit.
    Share(f64),
    /// A random share of the limit.
    Random,
}

/// One machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// How sums and products are rounded.
    pub rounding: Rounding,
    /// How wrong exp, log, tanh and division are, out of what WGSL allows them.
    pub errors: Errors,
    /// Subnormals read as zero and become zero.
    pub flush: bool,
    /// `tanh` errs by up to 1e-5 absolute, or up to 4 ulps.
    pub coarse_tanh: bool,
    /// What chance decides.
    pub rng: Rng,
}

impl Machine {
    /// The f32 that stands for an exact (or nearly exact) result.
    fn round(&mut self, exact: f64) -> f32 {
        let near = exact as f32;
        let (below, above) =
            if f64::from(near) <= exact { (near, near.next_up()) } else { (near.next_down(), near) };
        let exact_hit = f64::from(near) == exact;
        let rounded = match self.rounding {
            _ if exact_hit => near,
            Rounding::Nearest => near,
            Rounding::Up => above,
            Rounding::Down => below,
            Rounding::TowardZero => {
                if exact > 0.0 {
                    below
                } else {
                    above
                }
            }
            Rounding::Either => {
                if self.rng.below(2) == 0 {
                    below
                } else {
                    above
                }
            }
        };
        self.flushed(rounded)
    }

    /// Subnormals read as zero on a machine that flushes.
    pub(super) fn flushed(&self, x: f32) -> f32 {
        if self.flush && x.is_subnormal() { 0.0 } else { x }
    }

    /// A share of the limit of a function's error, between -1 and 1.
    fn share(&mut self) -> f64 {
        match self.errors {
            Errors::None => 0.0,
            Errors::Share(share) => share,
            Errors::Random => 2.0 * self.rng.unit() - 1.0,
        }
    }

    pub(super) fn add(&mut self, a: f32, b: f32) -> f32 {
        self.round(f64::from(a) + f64::from(b))
    }

    pub(super) fn mul(&mut self, a: f32, b: f32) -> f32 {
        self.round(f64::from(a) * f64::from(b))
    }

    pub(super) fn fma(&mut self, a: f32, b: f32, c: f32) -> f32 {
        self.round(f64::from(a) * f64::from(b) + f64::from(c))
    }

    /// 2.5 ulps.
    pub(super) fn div(&mut self, a: f32, b: f32) -> f32 {
        let error = 1.0 + 2.0 * EPS * self.share();
        self.round(f64::from(a) / f64::from(b) * error)
    }

    /// `3 + 2 |x|` ulps, exact at 0.
    pub(super) fn exp(&mut self, x: f32) -> f32 {
        self.power(libm::exp(f64::from(x)), x)
    }

    /// `3 + 2 |x|` ulps, exact at 0.
    pub(super) fn exp2(&mut self, x: f32) -> f32 {
        self.power(libm::exp2(f64::from(x)), x)
    }

    fn power(&mut self, exact: f64, x: f32) -> f32 {
        if x == 0.0 {
            return 1.0;
        }
        // One ulp is at least 2^-24 and the rounding below takes up to one more.
        let limit = (2.0 + 2.0 * f64::from(x.abs())) * EPS / 2.0;
        let error = 1.0 + limit * self.share();
        self.round(exact * error)
    }

    /// 2^-21 absolute on [0.5, 2], else 3 ulps.
    pub(super) fn log(&mut self, x: f32) -> f32 {
        let exact = libm::log(f64::from(x));
        let error = if (0.5..=2.0).contains(&x) { 3.0 * EPS } else { exact.abs() * EPS };
        let error = error * self.share();
        self.round(exact + error)
    }

    pub(super) fn tanh(&mut self, x: f32) -> f32 {
        let exact = libm::tanh(f64::from(x));
        let error = if self.coarse_tanh { 0.98e-5 } else { 3.0 * EPS * exact.abs() };
        let error = error * self.share();
        self.round((exact + error).clamp(-1.0, 1.0))
    }

    /// One weight in the format in which it meets V.
    pub(super) fn weight(&mut self, p: f32, rounding: PRounding) -> f32 {
        let through = |elem: Elem, x: f64| elem.decode(elem.encode(x, Saturate::Finite));
        match rounding {
            PRounding::None => p,
            PRounding::F16 => through(Elem::F16, f64::from(p)) as f32,
            PRounding::Bf16 => through(Elem::Bf16, f64::from(p)) as f32,
            PRounding::E4m3 { scale } => {
                let quantised = through(Elem::E4m3fn, f64::from(p) * f64::from(scale));
                self.div(quantised as f32, scale)
            }
        }
    }

    /// A binary16 result.
    pub(super) fn half(exact: f64) -> f32 {
        Elem::F16.decode(Elem::F16.encode(exact, Saturate::Nonfinite)) as f32
    }
}
