//! A narrower bound for random continuous data: independent roundings add up like the square root of their number.
//!
//! Valid only where each rounding is to nearest and the data are random and continuous, so that roundings are
//! independent with mean zero. Constant or equal values break that: there, only [`bounds`](super::bounds) holds.
//!
//! Sources: Higham, Mary, "A new approach to probabilistic rounding error analysis", 2019; Ipsen, Zhou, "Probabilistic
//! error analysis for inner products", 2020. Errors that need not have mean zero, those of exp, tanh and the addition
//! of the maximum, still add up in full.

use ndarray::{Array3, s};

use super::{
    BoundedRow, Pair, for_each_pair,
    model::{EPS, Model, TINY},
    score::Score,
    weights::{Softmax, Weights},
};
use crate::{
    error::OracleError,
    reference::Row,
    spec::{BiasOrder, Spec},
};

/// How many standard deviations a sum of roundings may reach: at 6, two elements in 10^9 of a right kernel would
/// exceed the bound even if it were as small as its random part.
pub(super) const LAMBDA: f64 = 6.0;
/// How far random partial sums may leave the range seen in one order of the keys, in standard deviations.
const PARTIAL_SUMS: f64 = 4.0;

/// Bounds on the absolute error of each output, `[query token, head, dv]`, before rounding to the output format:
/// never above those of [`bounds`](super::bounds), and far below them for thousands of keys.
///
/// Valid only for random continuous data and rounding to nearest. For a model with directed rounding, whose errors
/// need not have mean zero, the rigorous bounds are returned.
///
/// # Errors
/// [`OracleError::Shape`] where a tensor does not fit the spec or the others.
pub fn stat_bounds(spec: &Spec, row: &Row<'_>, model: &Model) -> Result<Array3<f64>, OracleError> {
    let model = model.with_profile(spec.profile());
    let mut bounds = Array3::zeros((row.q.dim().0, spec.shape().q_heads, spec.shape().dv));
    for_each_pair(spec, row, &model, |pair| {
        let (i, h) = pair.at;
        let row = StatRow::new(spec, &model, &pair);
        bounds.slice_mut(s![i, h, ..]).assign(&ndarray::aview1(&row.e));
    })?;
    Ok(bounds)
}

/// One query token and head: its exact softmax and outputs, with the bounds.
pub(super) struct StatRow {
    pub(super) softmax: Softmax,
    pub(super) o: Vec<f64>,
    pub(super) e: Vec<f64>,
}

impl StatRow {
    pub(super) fn new(spec: &Spec, model: &Model, pair: &Pair<'_>) -> StatRow {
        let bounded = BoundedRow::new(spec, model, &pair.scores, &pair.values, pair.sink);
        let softmax = Softmax::new(&pair.scores, pair.sink);
        let e = if model.nearest && !pair.values.is_empty() {
            let stat = errors(spec, model, pair, &softmax, &bounded.o);
            stat.iter().zip(&bounded.e).map(|(stat, det)| stat.min(*det)).collect()
        } else {
            bounded.e
        };
        StatRow { softmax, o: bounded.o, e }
    }
}

/// The slope of the softcap at a score: how much of a change of `scale * q . k` reaches it.
pub(super) fn gain(spec: &Spec, score: &Score) -> f64 {
    let Some(cap) = spec.profile().softcap.map(f64::from) else { return 1.0 };
    let cosh = libm::cosh((argument(spec, score) / cap).abs().min(300.0));
    1.0 / (cosh * cosh)
}

/// What the softcap is applied to.
fn argument(spec: &Spec, score: &Score) -> f64 {
    match spec.profile().bias_order {
        BiasOrder::CapThenAlibi => score.dot.x,
        BiasOrder::AlibiThenCap => score.dot.x + score.bias,
    }
}

/// The errors of one key's log weight.
struct LogWeight {
    /// Those that may have a common sign: they add up in full.
    shared: f64,
    /// Those that are independent from key to key.
    random: f64,
}

impl LogWeight {
    fn new(spec: &Spec, model: &Model, score: &Score, m: f64) -> LogWeight {
        let (x, spread, gain) = (score.dot.x.abs(), score.dot.spread, gain(spec, score));
        let (u, steps) = (model.u, spec.shape().d as f64 + model.c_q);
        let cap = spec.profile().softcap.map_or(0.0, |cap| {
            let cap = f64::from(cap);
            let t = argument(spec, score).abs() / cap;
            cap * (model.tanh_error(t) + 9.0 * u * libm::tanh(t))
        });
        let exp = model.exp_const + model.exp_slope * (m - score.s + 2.0 * model.lazy);
        let added = 4.0 * u * (score.s.abs() + m.abs() + score.bias.abs());
        LogWeight {
            shared: LAMBDA * model.u_qk * model.c_q.sqrt() * spread * gain
                + score.dot.lost
                + cap
                + added
                + EPS * exp,
            random: LAMBDA * model.u_qk * steps.sqrt() * (x + spread) * gain,
        }
    }
}

/// Sums over the keys for one element of the output.
#[derive(Clone, Default)]
struct Channel {
    /// `sum p shared |v - o|`.
    shared: f64,
    /// `sum (p random (v - o))^2`.
    random: f64,
    /// `sum (p v)^2`.
    square: f64,
    /// `sum (p (v - o))^2`.
    square_apart: f64,
    /// The partial sums of `p v` and of `p (v - o)`.
    walk: Walk,
    walk_apart: Walk,
    absolute: f64,
    flushed: f64,
    v_max: f64,
}

/// A running sum and how far it has been.
#[derive(Clone, Copy, Default)]
struct Walk {
    at: f64,
    least: f64,
    most: f64,
}

impl Walk {
    fn step(&mut self, by: f64) {
        self.at += by;
        self.least = self.least.min(self.at);
        self.most = self.most.max(self.at);
    }
}

/// The bound on each element.
fn errors(spec: &Spec, model: &Model, pair: &Pair<'_>, softmax: &Softmax, o: &[f64]) -> Vec<f64> {
    let weights = Weights::new(model, &pair.scores, softmax, pair.sink);
    let mut channels = vec![Channel::default(); o.len()];
    for (((score, v), &p), weight) in pair.scores.iter().zip(&pair.values).zip(&softmax.p).zip(&weights.keys)
    {
        let log = LogWeight::new(spec, model, score, softmax.m);
        for ((channel, &v), o) in channels.iter_mut().zip(*v).zip(o) {
            let apart = p * (v - o);
            channel.shared += log.shared * apart.abs();
            channel.random += (log.random * apart) * (log.random * apart);
            channel.square += (p * v) * (p * v);
            channel.square_apart += apart * apart;
            channel.walk.step(p * v);
            channel.walk_apart.step(apart);
            channel.absolute += weight.absolute * v.abs();
            channel.v_max = channel.v_max.max(v.abs());
            if v.abs() < model.ftz_in {
                channel.flushed += p * v.abs();
            }
        }
    }
    let (n, u, levels) = (pair.scores.len() as f64, model.u, model.levels);
    // The expected number of new maxima in a random order is ln n; four times that is hardly ever reached.
    let log_n = libm::log(n + 1.0);
    let rescales = (4.0 * log_n + 4.0).min(model.r_max) + 2.0 * levels;
    let theta = (1.0 + levels) * (model.div_ulp * EPS + u);
    let merge = levels * (model.log_abs + 3.0 * u * (softmax.m.abs() + log_n));
    let small = weights.absolute_sum() + weights.sink_moved;
    let bound = |(channel, o): (&Channel, &f64)| {
        let reach = |walk: &Walk, square: f64| walk.most - walk.least + PARTIAL_SUMS * square.sqrt();
        let (w, w_apart) =
            (reach(&channel.walk, channel.square), reach(&channel.walk_apart, channel.square_apart));
        let random = channel.random.sqrt()
            + LAMBDA * (u + model.u_p + model.u_part) * channel.square.sqrt()
            + LAMBDA * weights.depth.sqrt() * model.u_acc * (w + o.abs())
            + LAMBDA * rescales.sqrt() * (model.exp_const * EPS + u) * (w + w_apart);
        let tails = channel.absolute
            + 2.0 * model.a_part
            + channel.flushed
            + small * o.abs()
            + (4.0 * n + 8.0) * TINY * (1.0 + channel.v_max + o.abs());
        channel.shared
            + random
            + (theta + model.u_p + model.u_part + 4.0 * u) * o.abs()
            + merge * w_apart
            + tails
    };
    channels.iter().zip(o).map(bound).collect()
}
