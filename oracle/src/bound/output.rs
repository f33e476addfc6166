//! From weights to outputs: the exact output of one row and the bound on each of its elements.

use super::{
    model::{Model, TINY, gamma},
    weights::{Softmax, Weights, effective_depth},
};

/// Below this share of the exact denominator the first-order expansion says nothing.
const SMALLEST_DENOMINATOR: f64 = 0.1;
/// Covers the terms of second order in `ln(1 + x)` and the f64 rounding of the bound itself.
const SECOND_ORDER: f64 = 1.001;

/// Sums over the keys for one element of the output.
#[derive(Clone)]
struct Channel {
    /// `sum p v`: the exact output.
    o: f64,
    /// `sum p |v|`.
    size: f64,
    /// The least and the largest v.
    range: (f64, f64),
    /// The number of terms that matter in the sum.
    matter: f64,
    /// `sum p (e^A - 1) |v - o|`.
    moved: f64,
    /// `sum p e^A mu |v|`.
    scaled: f64,
    /// `sum p e^A |v|`.
    largest: f64,
    /// `sum p e^A |v - o|`.
    spread: f64,
    /// `sum absolute |v|`.
    absolute: f64,
    /// `sum p e^A |v|` over the v that may be read as zero.
    flushed: f64,
    /// The largest |v| that may be read as zero.
    flushed_max: f64,
}

/// One row's outputs.
pub(super) struct Outputs {
    /// The exact output of each element.
    pub(super) o: Vec<f64>,
    /// The bound on its error.
    pub(super) e: Vec<f64>,
    /// `max_d sum p |v|`: what an accumulator may have to hold, as a share of the denominator.
    pub(super) size: f64,
    /// The largest |v|, which no partial output exceeds but for rounding.
    pub(super) v_max: f64,
}

impl Outputs {
    /// The outputs of a row whose visible values are `v`, each `dv` long, in the order of the weights.
    pub(super) fn new(
        model: &Model,
        softmax: &Softmax,
        weights: &Weights,
        v: &[&[f64]],
        dv: usize,
    ) -> Outputs {
        let channels = channels(model, softmax, weights, v, dv);
        let row = RowTerms::new(model, softmax, weights, &channels, v.len());
        Outputs {
            o: channels.iter().map(|channel| channel.o).collect(),
            e: channels.iter().map(|channel| row.error(channel)).collect(),
            size: channels.iter().map(|channel| channel.size).fold(0.0, nan_max),
            v_max: channels.iter().map(RowTerms::v_max).fold(0.0, nan_max),
        }
    }
}

/// The larger of two, NaN if either is: overflow and NaN must not vanish in a maximum.
fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The sums of every element, in three passes over the keys: outputs first, then what is relative to them.
fn channels(model: &Model, softmax: &Softmax, weights: &Weights, v: &[&[f64]], dv: usize) -> Vec<Channel> {
    let zero = Channel {
        o: 0.0,
        size: 0.0,
        range: (f64::INFINITY, f64::NEG_INFINITY),
        matter: 0.0,
        moved: 0.0,
        scaled: 0.0,
        largest: 0.0,
        spread: 0.0,
        absolute: 0.0,
        flushed: 0.0,
        flushed_max: 0.0,
    };
    let mut channels = vec![zero; dv];
    for (v, p) in v.iter().zip(&softmax.p) {
        for (channel, &v) in channels.iter_mut().zip(*v) {
            channel.o += p * v;
            channel.size += p * v.abs();
            channel.range = (channel.range.0.min(v), channel.range.1.max(v));
        }
    }
    for ((v, p), weight) in v.iter().zip(&softmax.p).zip(&weights.keys) {
        for (channel, &v) in channels.iter_mut().zip(*v) {
            let (size, distance) = (v.abs(), (v - channel.o).abs());
            if size > 0.0 {
                channel.matter += (p * size / (model.u_acc * channel.size)).min(1.0);
            }
            channel.moved += weight.moved * distance;
            channel.scaled += weight.largest * weight.mu * size;
            channel.largest += weight.largest * size;
            channel.spread += weight.largest * distance;
            channel.absolute += weight.absolute * size;
            if size < model.ftz_in {
                channel.flushed += weight.largest * size;
                channel.flushed_max = channel.flushed_max.max(size);
            }
        }
    }
    channels
}

/// What every element of one row shares.
struct RowTerms<'a> {
    model: &'a Model,
    weights: &'a Weights,
    has_sink: bool,
    keys: usize,
    zeta_sum: f64,
    absolute_sum: f64,
    denominator: f64,
    /// The relative growth of a convex combination of the v.
    growth: f64,
    /// What underflow may cost, per unit.
    underflow: f64,
}

impl<'a> RowTerms<'a> {
    fn new(
        model: &'a Model,
        softmax: &Softmax,
        weights: &'a Weights,
        channels: &[Channel],
        n: usize,
    ) -> Self {
        let depths = channels.iter().map(|channel| effective_depth(model, n, weights.depth, channel.matter));
        let accumulation = depths.map(|depth| gamma(depth, model.u_acc)).fold(0.0, f64::max);
        let growth = if weights.zeta_max < 0.5 {
            (1.0 + weights.mu_max) * (1.0 + accumulation) / (1.0 - weights.zeta_max) - 1.0
        } else {
            f64::INFINITY
        };
        RowTerms {
            model,
            weights,
            has_sink: softmax.p_sink > 0.0,
            keys: n,
            zeta_sum: weights.zeta_sum(),
            absolute_sum: weights.absolute_sum(),
            denominator: weights.denominator(model, softmax),
            growth,
            underflow: (4.0 * n as f64 + 8.0) * TINY,
        }
    }

    /// The bound on one element: the smaller of a perturbation bound and the hull of the values.
    fn error(&self, channel: &Channel) -> f64 {
        SECOND_ORDER * self.perturbation(channel).min(self.hull(channel))
    }

    /// How far small errors in the weights and in the sums can move the quotient.
    fn perturbation(&self, channel: &Channel) -> f64 {
        let model = self.model;
        let depth = effective_depth(model, self.keys, self.weights.depth, channel.matter);
        let o = channel.o.abs();
        let accumulation = gamma(depth, model.u_acc) * (1.0 + self.weights.mu_max) * channel.largest;
        let rounded_in_both = model.u_p * (channel.spread - channel.largest).max(0.0);
        let numerator = channel.moved
            + channel.scaled
            + accumulation
            + o * (self.zeta_sum + self.weights.sink_moved + self.absolute_sum)
            + rounded_in_both
            + channel.absolute
            + self.underflow * (1.0 + Self::v_max(channel) + o)
            + model.a_part * (1.0 + self.weights.mu_max)
            + channel.flushed;
        if self.denominator > SMALLEST_DENOMINATOR { numerator / self.denominator } else { f64::INFINITY }
    }

    /// Whatever the scores, the result is a convex combination of the values (and 0, with a sink), up to rounding.
    fn hull(&self, channel: &Channel) -> f64 {
        let (least, largest) = channel.range;
        let mut reach = (largest - channel.o).max(channel.o - least);
        if self.has_sink {
            reach = reach.max(channel.o.abs());
        }
        let v_max = Self::v_max(channel);
        let tails = channel.absolute
            + self.underflow * (1.0 + v_max)
            + self.model.a_part * (1.0 + self.growth)
            + channel.flushed_max;
        reach + self.growth * v_max + tails
    }

    fn v_max(channel: &Channel) -> f64 {
        channel.range.0.abs().max(channel.range.1.abs())
    }
}
