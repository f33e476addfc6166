//! The exact softmax weights of one row, and how far a kernel's weights may be from them.

use super::{
    model::{EPS, Model, gamma},
    score::Score,
};

/// The exact softmax of one row of visible keys.
pub(super) struct Softmax {
    /// The maximum over scores and sink.
    pub(super) m: f64,
    /// `sum exp(s - m)`, sink included.
    pub(super) l: f64,
    /// The weight of each key, summing to 1 with the sink's.
    pub(super) p: Vec<f64>,
    /// The sink's weight, 0 without a sink.
    pub(super) p_sink: f64,
}

impl Softmax {
    pub(super) fn new(scores: &[Score], sink: Option<f64>) -> Softmax {
        let m = scores.iter().map(|score| score.s).chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let sink = sink.map_or(0.0, |sink| libm::exp(sink - m));
        let mut p: Vec<f64> = scores.iter().map(|score| libm::exp(score.s - m)).collect();
        let l = p.iter().sum::<f64>() + sink;
        for p in &mut p {
            *p /= l;
        }
        Softmax { m, l, p, p_sink: sink / l }
    }

    /// The logarithm of the denominator.
    pub(super) fn ln_l(&self) -> f64 {
        libm::log(self.l)
    }
}

/// What may happen to one key's weight. With `A` the bound on the error of its logarithm, which moves numerator and
/// denominator alike, and `mu`, `zeta` the further relative errors of its share of each.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    /// `p (e^A - 1)`.
    pub(super) moved: f64,
    /// `p e^A`.
    pub(super) largest: f64,
    /// Relative error in the numerator besides `A` and the accumulation.
    pub(super) mu: f64,
    /// Relative error in the denominator besides `A`.
    pub(super) zeta: f64,
    /// Absolute error from rounding a small weight, as a share of the denominator.
    pub(super) absolute: f64,
}

/// The weights of one row and what holds for all of them.
pub(super) struct Weights {
    pub(super) keys: Vec<Weight>,
    /// `p_sink (e^A - 1)` of the sink.
    pub(super) sink_moved: f64,
    /// `p_sink (e^A (1 + zeta) - 1)` of the sink.
    pub(super) sink_in_sum: f64,
    /// The largest `A`, the sink's included.
    pub(super) worst_log: f64,
    /// The largest `mu`.
    pub(super) mu_max: f64,
    /// The largest `zeta`.
    pub(super) zeta_max: f64,
    /// Additions one value may pass: declared, or one per key.
    pub(super) depth: f64,
}

impl Weights {
    /// Bounds for every weight of a row with these scores and exact softmax.
    pub(super) fn new(model: &Model, scores: &[Score], softmax: &Softmax, sink: Option<f64>) -> Weights {
        let n = scores.len() as f64;
        let (u, levels, m) = (model.u, model.levels, softmax.m);
        let depth = model.depth.map_or(n, |depth| depth.min(n)) + 2.0;
        let sum_error = gamma(sum_depth(model, &softmax.p, depth), u);
        let merge = merge_error(model, m, n, depth);
        let theta = (1.0 + levels) * (model.div_ulp * EPS + u);
        let rescales = Rescales::new(scores, model.r_max);

        let mut weights = Weights {
            keys: Vec::with_capacity(scores.len()),
            sink_moved: 0.0,
            sink_in_sum: 0.0,
            worst_log: 0.0,
            mu_max: 0.0,
            zeta_max: 0.0,
            depth,
        };
        let mut r_max: f64 = 0.0;
        for (score, &p) in scores.iter().zip(&softmax.p) {
            let r = rescales.after(score.s);
            let exp = model.exp_const * (1.0 + r + 2.0 * levels)
                + model.exp_slope * (m - score.s + 2.0 * model.lazy);
            let log = score.ds + 3.0 * u * (score.s.abs() + m.abs()) + EPS * exp + merge;
            let (moved, largest) = grown(score.s - m, log, p, softmax.l);
            let weight = Weight {
                moved,
                largest,
                mu: (1.0 + gamma(r + 2.0 * levels + model.c_o, model.u_acc))
                    * (1.0 + model.u_p)
                    * (1.0 + model.u_part)
                    * (1.0 + theta)
                    - 1.0,
                zeta: (1.0 + gamma(r + 2.0 * levels + 4.0, u)) * (1.0 + sum_error) - 1.0,
                absolute: (model.a_p / softmax.l).min(largest),
            };
            weights.worst_log = weights.worst_log.max(log);
            weights.mu_max = weights.mu_max.max(weight.mu);
            weights.zeta_max = weights.zeta_max.max(weight.zeta);
            weights.keys.push(weight);
            r_max = r_max.max(r);
        }
        if let Some(sink) = sink {
            let exp = model.exp_const * (2.0 + r_max + 2.0 * levels) + model.exp_slope * (m - sink);
            let log = 4.0 * u * (sink.abs() + m.abs()) + EPS * exp + merge;
            weights.worst_log = weights.worst_log.max(log);
            let (moved, largest) = grown(sink - m, log, softmax.p_sink, softmax.l);
            weights.sink_moved = moved;
            weights.sink_in_sum = largest * (1.0 + weights.zeta_max) - softmax.p_sink;
        }
        weights
    }

    /// `sum p e^A zeta`: the relative error of the denominator besides the `A`.
    pub(super) fn zeta_sum(&self) -> f64 {
        self.keys.iter().map(|key| key.largest * key.zeta).sum()
    }

    /// `sum` of the absolute errors of small weights.
    pub(super) fn absolute_sum(&self) -> f64 {
        self.keys.iter().map(|key| key.absolute).sum()
    }

    /// A lower bound on a kernel's denominator as a share of the exact one; the linear terms only, so it may be
    /// negative.
    pub(super) fn denominator(&self, model: &Model, softmax: &Softmax) -> f64 {
        let rounded = if model.p_in_sum { 1.01 * model.u_p + self.absolute_sum() } else { 0.0 };
        let grown: f64 = self.keys.iter().map(|key| key.largest * (1.0 + key.zeta)).sum();
        1.0 - rounded - (grown - softmax.p.iter().sum::<f64>()) - self.sink_in_sum
    }
}

/// `p (e^A - 1)` and `p e^A` for `p = e^below / l`. From the exponent, since `p` itself may have underflowed where
/// `A` is large; infinite where the error is beyond all bounds.
fn grown(below: f64, log: f64, p: f64, l: f64) -> (f64, f64) {
    let largest = libm::exp(below + log) / l;
    (if log < 1.0 { p * libm::expm1(log) } else { largest - p }, largest)
}

/// The number of additions that matter in a sum of `terms`, out of `depth`.
///
/// To nearest, an addition errs by at most `u |a + b|`, and by no more than either operand. Charging each to its
/// smaller side, on which a term lies at most log2(n) times, gives the count. Not valid for directed rounding.
pub(super) fn effective_depth(model: &Model, n: usize, depth: f64, matter: f64) -> f64 {
    if model.negligible_is_free() { depth.min(libm::log2(n.max(2) as f64) * matter + 2.0) } else { depth }
}

/// The depth of the denominator's sum.
fn sum_depth(model: &Model, p: &[f64], depth: f64) -> f64 {
    effective_depth(model, p.len(), depth, p.iter().map(|p| (p / model.u).min(1.0)).sum())
}

/// The error of a log weight from merging partial results through their LSE.
fn merge_error(model: &Model, m: f64, n: f64, depth: f64) -> f64 {
    if model.levels == 0.0 {
        return 0.0;
    }
    let log = libm::log(n + 1.0);
    let lse = model.log_abs + model.log_ulp * EPS * log + 3.0 * model.u * (m.abs() + log);
    let exp = EPS * (model.exp_const + model.exp_slope * log);
    model.levels * (2.0 * lse + gamma(depth, model.u_acc) + exp)
}

/// How many new maxima may still follow a key, in any order of the keys.
struct Rescales {
    sorted: Vec<f64>,
    slack: f64,
    most: f64,
}

impl Rescales {
    fn new(scores: &[Score], most: f64) -> Rescales {
        let mut sorted: Vec<f64> = scores.iter().map(|score| score.s).collect();
        sorted.sort_by(f64::total_cmp);
        let slack = 2.0 * scores.iter().map(|score| score.ds).fold(0.0, f64::max);
        Rescales { sorted, slack, most }
    }

    /// The keys whose score, as a kernel may see it, exceeds `s`.
    fn after(&self, s: f64) -> f64 {
        let above = self.sorted.len() - self.sorted.partition_point(|&other| other <= s - self.slack);
        (above as f64).min(self.most)
    }
}
