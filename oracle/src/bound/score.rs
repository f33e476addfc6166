//! The score of one key and how far a kernel's score may be from it.

use super::model::{Model, TINY, gamma};
use crate::spec::{BiasOrder, Spec};

/// One exact score with its error bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score {
    /// The score after softcap and bias.
    pub(super) s: f64,
    /// The bound on its absolute error.
    pub(super) ds: f64,
    /// The dot product it comes from.
    pub(super) dot: Dot,
    /// The bias in it.
    pub(super) bias: f64,
}

/// A scaled dot product and what its errors are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dot {
    /// `scale * q . k`.
    pub(super) x: f64,
    /// `sum_d |q_d k_d|`, before the scale: what an accumulator may have to hold.
    pub(super) magnitude: f64,
    /// `|scale| sqrt(sum_d (q_d k_d)^2)`: how far independent errors of the products add up.
    pub(super) spread: f64,
    /// What underflow and inputs read as zero may cost.
    pub(super) lost: f64,
}

/// A value with a bound on its absolute error.
#[derive(Clone, Copy)]
struct Inexact {
    value: f64,
    error: f64,
}

impl Score {
    /// The score of `k` for `q`.
    pub(super) fn new(spec: &Spec, model: &Model, q: &[f64], k: &[f64], bias: f64) -> Score {
        let dot = Dot::new(spec.scale(), model, q, k);
        let error = spec.scale().abs() * gamma_qk(model, q.len()) * dot.magnitude + dot.lost;
        let x = Inexact { value: dot.x, error };
        let cap = spec.profile().softcap.map(f64::from);
        let score = match (cap, spec.profile().bias_order) {
            (Some(cap), BiasOrder::CapThenAlibi) => biased(model, capped(model, x, cap), bias, 0.0),
            (Some(cap), BiasOrder::AlibiThenCap) => {
                let y = capped(model, biased(model, x, bias, gamma_qk(model, q.len())), cap);
                Inexact { error: y.error + 4.0 * model.u * y.value.abs(), ..y }
            }
            (None, _) => biased(model, x, bias, gamma_qk(model, q.len())),
        };
        Score { s: score.value, ds: score.error, dot, bias }
    }
}

/// The relative error of a scaled dot product of length `d`, in any order.
fn gamma_qk(model: &Model, d: usize) -> f64 {
    gamma(d as f64 + model.c_q, model.u_qk)
}

impl Dot {
    fn new(scale: f64, model: &Model, q: &[f64], k: &[f64]) -> Dot {
        let (mut dot, mut magnitude, mut square, mut flushed, mut inputs) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (q, k) in q.iter().zip(k) {
            dot += q * k;
            magnitude += (q * k).abs();
            square += (q * k) * (q * k);
            inputs += q.abs() + k.abs();
            if q.abs() < model.ftz_in || k.abs() < model.ftz_in {
                flushed += (q * k).abs();
            }
        }
        let size = scale.abs();
        let underflow = model.tiny_qk.max(TINY) * (1.0 + size) * (2.0 * q.len() as f64 + 16.0 + inputs);
        Dot { x: scale * dot, magnitude, spread: size * square.sqrt(), lost: size * flushed + underflow }
    }
}

/// `c tanh(x / c)`: the error of `x` shrinks by the slope of tanh at the point of the interval nearest to zero.
fn capped(model: &Model, x: Inexact, cap: f64) -> Inexact {
    let t = x.value / cap;
    let dt = x.error / cap + 6.0 * model.u * t.abs();
    let cosh = libm::cosh((t.abs() - dt).clamp(0.0, 300.0));
    let value = cap * libm::tanh(t);
    let moved = (dt / (cosh * cosh)).min(2.0);
    let error = cap * (moved + model.tanh_error(t.abs() + dt)) + 3.0 * model.u * value.abs();
    Inexact { value, error }
}

/// `y + bias`; `shared` is the relative error of the constants applied to the bias together with the dot product.
fn biased(model: &Model, y: Inexact, bias: f64, shared: f64) -> Inexact {
    let size = bias.abs();
    let error = y.error + shared * size + 3.0 * model.u * size + 4.0 * model.u * (y.value.abs() + size);
    Inexact { value: y.value + bias, error }
}
