//! How far a correct low-precision kernel may be from the exact answer: a rigorous bound for every element of the
//! output and every LSE.
//!
//! A kernel may evaluate the formulas in any order, with any tiling, split and use of fma, against a running
//! maximum; each operation errs as the [`Model`] says. The central fact: errors of a score multiply `|v - o|`, not
//! `|v|`, since a common shift of the scores changes nothing; only accumulation and the rounding of weights multiply
//! `|v|`. Rounding to the output format is not part of the bound: [`mod@crate::compare`] applies it to the interval.
//!
//! Sources: Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3 (sums and dot products in any order);
//! Blanchard, Higham, Higham, "Accurately computing the log-sum-exp and softmax functions", 2021.

pub mod matched;
mod model;
mod output;
mod score;
mod stat;
mod weights;

pub use model::{Model, TanhError};
pub use stat::stat_bounds;

use ndarray::{Array2, Array3, ArrayView3};

use crate::{
    elem::OutType,
    error::OracleError,
    reference::{Answer, Row},
    rule::{alibi_bias, kv_head, position, visible_keys},
    spec::{LseBase, Spec},
};
use model::{EPS, TINY};
use output::Outputs;
use score::Score;
use weights::{Softmax, Weights};

/// Bounds on the absolute error of a kernel, before rounding to the output format.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// `[query token, q head, dv]`. 0 in empty rows.
    pub o: Array3<f64>,
    /// `[query token, q head]`, in the base of the profile. 0 in empty rows, which compare by class.
    pub lse: Array2<f64>,
    /// `[query token, q head]`: false where an intermediate result may overflow, so that nothing is guaranteed.
    pub ok: Array2<bool>,
}

/// The exact answer, and the bound on what a kernel that follows `model` and the profile's `p_rounding`, `accum` and
/// `out` may return.
///
/// # Errors
/// [`OracleError::Shape`] where a tensor does not fit the spec or the others.
pub fn bounds(spec: &Spec, row: &Row<'_>, model: &Model) -> Result<(Answer, Bounds), OracleError> {
    let (tq, heads, dv) = (row.q.dim().0, spec.shape().q_heads, spec.shape().dv);
    let model = model.with_profile(spec.profile());
    let mut answer = Answer::empty(spec, tq);
    let mut bounds = Bounds {
        o: Array3::zeros((tq, heads, dv)),
        lse: Array2::zeros((tq, heads)),
        ok: Array2::from_elem((tq, heads), true),
    };
    for_each_pair(spec, row, &model, |pair| {
        let (i, h) = pair.at;
        let bounded = BoundedRow::new(spec, &model, &pair.scores, &pair.values, pair.sink);
        for c in 0..dv {
            answer.o[[i, h, c]] = bounded.o[c];
            bounds.o[[i, h, c]] = bounded.e[c];
        }
        answer.lse[[i, h]] = bounded.lse;
        bounds.lse[[i, h]] = bounded.e_lse;
        bounds.ok[[i, h]] = bounded.ok;
    })?;
    Ok((answer, bounds))
}

/// A query token and head that sees anything: what its bounds are made of.
struct Pair<'a> {
    /// Query token and head.
    at: (usize, usize),
    /// The visible keys.
    keys: &'a [usize],
    scores: Vec<Score>,
    values: Vec<&'a [f64]>,
    sink: Option<f64>,
}

/// Visits every query token and head that sees a key or has a sink, token by token.
fn for_each_pair(
    spec: &Spec,
    row: &Row<'_>,
    model: &Model,
    mut visit: impl FnMut(Pair<'_>),
) -> Result<(), OracleError> {
    let (tq, tk) = row.check(spec)?;
    let (q, k, v) = (Rows::new(&row.q), Rows::new(&row.k), Rows::new(&row.v));
    for i in 0..tq {
        let p = position(spec, i, tq, tk);
        let keys = visible_keys(spec, row.mask, i, p, tk);
        for h in 0..spec.shape().q_heads {
            let sink = spec.sink(h);
            if keys.is_empty() && sink.is_none() {
                continue;
            }
            let kv = kv_head(spec, h);
            let score =
                |&j: &usize| Score::new(spec, model, q.row(i, h), k.row(j, kv), alibi_bias(spec, h, p, j));
            let scores = keys.iter().map(score).collect();
            let values = keys.iter().map(|&j| v.row(j, kv)).collect();
            visit(Pair { at: (i, h), keys: &keys, scores, values, sink });
        }
    }
    Ok(())
}

/// The rows of a tensor `[token, head, dim]`, each contiguous.
struct Rows {
    data: Vec<f64>,
    heads: usize,
    dim: usize,
}

impl Rows {
    fn new(tensor: &ArrayView3<'_, f64>) -> Rows {
        let (_, heads, dim) = tensor.dim();
        Rows { data: tensor.iter().copied().collect(), heads, dim }
    }

    fn row(&self, token: usize, head: usize) -> &[f64] {
        let start = (token * self.heads + head) * self.dim;
        &self.data[start..start + self.dim]
    }
}

/// One query token and head: answer and bounds.
struct BoundedRow {
    o: Vec<f64>,
    e: Vec<f64>,
    lse: f64,
    e_lse: f64,
    ok: bool,
}

impl BoundedRow {
    fn new(spec: &Spec, model: &Model, scores: &[Score], values: &[&[f64]], sink: Option<f64>) -> BoundedRow {
        let out = spec.profile().out;
        let softmax = Softmax::new(scores, sink);
        let weights = Weights::new(model, scores, &softmax, sink);
        let (lse, e_lse) = log_sum_exp(spec, model, &softmax, &weights);
        let (o, e, size, v_max) = if values.is_empty() {
            // Only the sink: the numerator is an empty sum, exactly zero.
            (vec![0.0; spec.shape().dv], vec![0.0; spec.shape().dv], 0.0, 0.0)
        } else {
            let outputs = Outputs::new(model, &softmax, &weights, values, spec.shape().dv);
            (outputs.o, outputs.e, outputs.size, outputs.v_max)
        };
        let e: Vec<f64> = o.iter().zip(e).map(|(&o, e)| widen_for_output(model, out, o, e)).collect();
        let largest = out.elem().max_finite();
        let ok = scores_fit(spec, model, scores, softmax.m)
            && accumulator_fits(model, size * softmax.l)
            && 1.01 * v_max < model.part_max
            && o.iter().zip(&e).all(|(o, e)| o.abs() + e < largest)
            && lse.is_finite()
            && e_lse.is_finite();
        BoundedRow { o, e, lse, e_lse, ok }
    }
}

/// The LSE and its bound, in the base of the profile.
///
/// A shift of the log weights by up to `A` moves the LSE by at most `ln sum p e^A`, and by no more than the largest
/// `A`; on top come the denominator's sum, the logarithm and the addition of the maximum.
fn log_sum_exp(spec: &Spec, model: &Model, softmax: &Softmax, weights: &Weights) -> (f64, f64) {
    let (m, ln_l) = (softmax.m, softmax.ln_l());
    let lse = m + ln_l;
    let moved = weights.keys.iter().map(|key| key.moved).sum::<f64>() + weights.sink_moved;
    let rounded =
        if model.p_in_sum { 1.01 * model.u_p / (1.0 - model.u_p) + weights.absolute_sum() } else { 0.0 };
    let error = libm::log1p(moved).min(weights.worst_log)
        + (1.01 * weights.zeta_sum()).min(weights.zeta_max / (1.0 - weights.zeta_max).max(0.0))
        + 1.01 * rounded
        + model.log_abs
        + model.log_ulp * EPS * ln_l.abs()
        + 6.0 * model.u * (m.abs() + ln_l.abs() + lse.abs())
        + (4.0 * softmax.p.len() as f64 + 8.0) * TINY;
    match spec.profile().lse_base {
        LseBase::E => (lse, error),
        LseBase::Two => {
            // One more multiplication by a rounded constant.
            let (lse, error) = (lse * std::f64::consts::LOG2_E, error * std::f64::consts::LOG2_E);
            (lse, error + 3.0 * model.u * lse.abs())
        }
    }
}

/// Where binary16 outputs may go to either neighbour or be flushed, the interval grows so that rounding its ends to
/// nearest covers that.
fn widen_for_output(model: &Model, out: OutType, o: f64, e: f64) -> f64 {
    const MIN_NORMAL: f64 = 1.0 / 16384.0;
    const HALF_ULP: f64 = 1.0 / 2048.0;
    if !model.out_either || out != OutType::F16 || e == 0.0 {
        return e;
    }
    // Beyond half a unit: exactly half is a tie, which may round back to where it came from. Where `e` vanishes in f64 next
    // to the unit, it alone does not make the difference.
    let wide = (e + HALF_ULP * (o.abs() + e).max(MIN_NORMAL)) * (1.0 + EPS);
    if o.abs() - e < MIN_NORMAL { wide.max(o.abs()) } else { wide }
}

/// No product sum overflows, and the weight of the largest score does not.
///
/// `exp2(s c - m c)` with a rounded `m c` errs by `u |m|` at the maximum itself: beyond 60 it leaves f32.
fn scores_fit(spec: &Spec, model: &Model, scores: &[Score], m: f64) -> bool {
    let size = spec.scale().abs().max(1.0);
    let dots = scores.iter().all(|score| 1.5 * size * score.dot.magnitude < model.qk_max());
    let exponents = scores.iter().all(|score| 4.0 * model.u * score.s.abs() < 60.0);
    dots && exponents && 4.0 * model.u * m.abs() < 60.0
}

/// The unnormalised output stays finite; quantised weights are up to 448 times as large.
fn accumulator_fits(model: &Model, size: f64) -> bool {
    let factor = if model.a_p > 0.0 { 448.0 } else { 1.0 };
    size * 1.01 * factor < f64::from(f32::MAX)
}
