//! What a device's arithmetic may do to each operation: the constants of the error bound.

use crate::{
    elem::OutType,
    spec::{Accum, PRounding, Profile},
};

/// The unit in the last place of an f32 in [1, 2).
pub(super) const EPS: f64 = f32::EPSILON as f64;
/// The smallest normal f32: what an operation may lose to underflow, flushed or not.
pub(super) const TINY: f64 = f32::MIN_POSITIVE as f64;
/// The smallest normal binary16.
const F16_MIN_NORMAL: f64 = 1.0 / 16384.0;
/// The unit roundoff of binary16, to nearest.
const F16_U: f64 = 1.0 / 2048.0;

/// How wrong `tanh` may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TanhError {
    /// WGSL, "Accuracy of builtin functions": the worse of 1e-5 absolute and what `sinh / cosh` inherits.
    Wgsl,
    /// A relative error.
    Relative(f64),
}

/// The constants of the bound. Units: `u*` are relative (unit roundoffs), `*_ulp` are multiples of 2^-23.
///
/// Sources: Higham, "Accuracy and Stability of Numerical Algorithms", section 3, for the constants `n u / (1 - n u)`
/// that hold in any order of summation; WGSL, "Floating Point Accuracy", for the functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The name in reports.
    pub name: &'static str,
    /// Roundoff of `+ - *` and fma in f32: 2^-24 to nearest, 2^-23 where either neighbour may be returned.
    pub u: f64,
    /// The same inside `q . k`.
    pub u_qk: f64,
    /// The same inside `sum p v`.
    pub u_acc: f64,
    /// What one operation inside `q . k` may lose to underflow, absolute.
    pub tiny_qk: f64,
    /// Additions round to nearest, so that adding a negligible term costs nothing. Only then are the accumulation
    /// depths cut down to the terms that matter.
    pub nearest: bool,
    /// `exp(z)` errs by at most `(exp_const + exp_slope |z|)` 2^-23 relative; covers `exp2(z log2 e)` too.
    pub exp_const: f64,
    /// See `exp_const`. WGSL's `3 + 2 |x|` for `exp2`, in terms of `z`: `2 log2 e + 2`, rounded up.
    pub exp_slope: f64,
    /// Division, in ulps (WGSL: 2.5).
    pub div_ulp: f64,
    /// `log`, absolute error near 1 (WGSL: 2^-21 on [0.5, 2]).
    pub log_abs: f64,
    /// `log`, in ulps elsewhere (WGSL: 3).
    pub log_ulp: f64,
    /// `tanh` of the softcap.
    pub tanh: TanhError,
    /// Roundoff of the weights before they meet V; 0 if they are not rounded.
    pub u_p: f64,
    /// The same for small weights, absolute, relative to a weight of 1.
    pub a_p: f64,
    /// Roundoff of the partial outputs of splits where they are stored in 16 bits; 0 if they are not.
    pub u_part: f64,
    /// The same for small partial outputs, absolute.
    pub a_part: f64,
    /// The largest partial output that can be stored.
    pub part_max: f64,
    /// The denominator sums the rounded weights.
    pub p_in_sum: bool,
    /// Roundings per product of `q . k` besides the sum: dequantisation, scale, log2 e, casts.
    pub c_q: f64,
    /// Roundings per product of `p v` besides the sum.
    pub c_o: f64,
    /// Merges of partial results through their LSE that one value may pass: 0 or 1.
    pub levels: f64,
    /// How far the running maximum may lag behind the scores, in nats.
    pub lazy: f64,
    /// Inputs smaller than this may be read as zero; in units of dequantised values.
    pub ftz_in: f64,
    /// binary16 outputs may be rounded to either neighbour and flushed to zero below the smallest normal number.
    pub out_either: bool,
    /// The longest chain of additions, where a kernel declares it; `None` for any order.
    pub depth: Option<f64>,
    /// The most rescales of one value by a new maximum: the number of tiles, where a kernel declares it.
    pub r_max: f64,
}

impl Model {
    /// f32 to nearest even, functions as inexact as WGSL allows, `tanh` of a good library. The default.
    pub const fn strict() -> Model {
        Model {
            name: "strict",
            u: EPS / 2.0,
            u_qk: EPS / 2.0,
            u_acc: EPS / 2.0,
            tiny_qk: TINY,
            nearest: true,
            exp_const: 3.0,
            exp_slope: 4.9,
            div_ulp: 2.5,
            log_abs: 4.0 * EPS,
            log_ulp: 3.0,
            tanh: TanhError::Relative(4.0 * EPS),
            u_p: 0.0,
            a_p: 0.0,
            u_part: 0.0,
            a_part: 0.0,
            part_max: f64::INFINITY,
            p_in_sum: false,
            c_q: 10.0,
            c_o: 6.0,
            levels: 1.0,
            lazy: 0.0,
            ftz_in: 0.0,
            out_either: false,
            depth: None,
            r_max: f64::INFINITY,
        }
    }

    /// The letter of WGSL: "correctly rounded" means either neighbour, subnormals may be flushed, `tanh` may err by
    /// 1e-5. binary16 read through `unpack2x16float` loses its subnormals too: see [`Model::with_ftz_in`].
    pub const fn wgsl_letter() -> Model {
        Model {
            name: "wgsl-letter",
            u: EPS,
            u_qk: EPS,
            u_acc: EPS,
            nearest: false,
            tanh: TanhError::Wgsl,
            ftz_in: TINY,
            out_either: true,
            ..Model::strict()
        }
    }

    /// f32 to nearest with the fast functions of CUDA and Metal: hardware `exp2` and `tanh` (1.1e-5 relative, measured
    /// by N. Juffa, rounded up), division by reciprocal, subnormals flushed.
    pub const fn fast_math() -> Model {
        Model {
            name: "fast-math",
            exp_const: 4.0,
            div_ulp: 4.0,
            tanh: TanhError::Relative(1.2e-5),
            ftz_in: TINY,
            ..Model::strict()
        }
    }

    /// The named models, from the narrowest to the widest rounding.
    pub const fn all() -> [Model; 3] {
        [Model::strict(), Model::fast_math(), Model::wgsl_letter()]
    }

    /// Inputs below `threshold` may be read as zero: 2^-14 for binary16 through WGSL's `unpack2x16float`.
    #[must_use]
    pub const fn with_ftz_in(self, threshold: f64) -> Model {
        Model { ftz_in: threshold, ..self }
    }

    /// Another number of LSE merges: 0 for a kernel that never splits a row's keys.
    #[must_use]
    pub const fn with_levels(self, levels: f64) -> Model {
        Model { levels, ..self }
    }

    /// Rounded weights. Sums are then widened to 2^-23, the truncation of tensor cores (Fasi, Higham, Mikaitis,
    /// Pranesh, PeerJ CS 2021), since kernels round weights in order to use those.
    #[must_use]
    pub const fn with_p_rounding(self, rounding: PRounding) -> Model {
        let directed = if self.nearest { 1.0 } else { 2.0 };
        let (u_p, a_p, u_qk) = match rounding {
            PRounding::None => return self,
            PRounding::Bf16 => (1.0 / 256.0, 0.0, self.u_qk),
            PRounding::F16 if self.ftz_in > 0.0 => (F16_U, F16_MIN_NORMAL, self.u_qk),
            PRounding::F16 => (F16_U, F16_MIN_NORMAL / 2048.0, self.u_qk),
            PRounding::E4m3 { scale } => (1.0 / 16.0, 1.0 / 1024.0 / scale as f64, self.u_qk.max(EPS)),
        };
        let u_acc = self.u_acc.max(EPS);
        Model { u_p: u_p * directed, a_p: a_p * directed, u_qk, u_acc, ..self }
    }

    /// Partial outputs of splits stored in a format of 16 bits, rounded once; their LSEs in f32. `F32` leaves the
    /// model as it is.
    #[must_use]
    pub const fn with_part_rounding(self, out: OutType) -> Model {
        let directed = if self.nearest { 1.0 } else { 2.0 };
        let (u_part, a_part, part_max) = match out {
            OutType::F32 => return self,
            OutType::F16 if self.ftz_in > 0.0 => (F16_U, F16_MIN_NORMAL, 65504.0),
            OutType::F16 => (F16_U, F16_MIN_NORMAL / 2048.0, 65504.0),
            OutType::Bf16 => (1.0 / 256.0, TINY, f32::MAX as f64),
        };
        Model { u_part: u_part * directed, a_part: a_part * directed, part_max, ..self }
    }

    /// The format in which `q . k` is summed.
    #[must_use]
    pub const fn with_accum(self, accum: Accum) -> Model {
        match accum {
            Accum::F32 => self,
            Accum::F16Qk => {
                let u_qk = if self.nearest { F16_U } else { 2.0 * F16_U };
                let tiny_qk = if self.ftz_in > 0.0 { F16_MIN_NORMAL } else { F16_MIN_NORMAL / 1024.0 };
                Model { u_qk, tiny_qk, ..self }
            }
        }
    }

    /// What the profile declares about weights and sums. [`bounds`](super::bounds) does this itself; doing it twice
    /// changes nothing.
    #[must_use]
    pub const fn with_profile(self, profile: &Profile) -> Model {
        self.with_p_rounding(profile.p_rounding).with_accum(profile.accum)
    }

    /// The absolute error of `tanh` for arguments of magnitude up to `t`.
    pub(super) fn tanh_error(&self, t: f64) -> f64 {
        match self.tanh {
            TanhError::Wgsl => (EPS * (12.5 + 4.0 * t.min(88.0))).max(1e-5),
            TanhError::Relative(error) => error * libm::tanh(t),
        }
    }

    /// The largest magnitude a sum of `q . k` may reach.
    pub(super) fn qk_max(&self) -> f64 {
        if self.u_qk > 1e-4 { 65504.0 } else { f64::from(f32::MAX) }
    }

    /// Accumulation depths may be cut down to the terms that matter.
    pub(super) fn negligible_is_free(&self) -> bool {
        self.nearest && self.u_acc <= EPS / 2.0
    }
}

impl Default for Model {
    fn default() -> Model {
        Model::strict()
    }
}

/// `k u / (1 - k u)`, the relative error of a chain of `k` operations (Higham, lemma 3.1); infinite where the bound
/// says nothing.
pub(super) fn gamma(k: f64, u: f64) -> f64 {
    let ku = k * u;
    if ku < 0.5 { ku / (1.0 - ku) } else { f64::INFINITY }
}
