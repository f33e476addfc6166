//! Attention of one query in f64, with the edits that a decoder tries.

use ndarray::Axis;

use attnproof_oracle::BiasOrder;

use super::Asked;

/// Keys that score so many nats less than the largest are left out of what is fitted.
const FAR: f64 = 100.0;

/// Scores before softcap and bias, of the visible keys.
pub(super) struct Scores {
    /// Key and `scale * q . k`.
    pub(super) x: Vec<(usize, f64)>,
}

impl Scores {
    /// With K of this KV head.
    pub(super) fn new(asked: &Asked<'_>, kv: usize) -> Self {
        let k = asked.row.k.index_axis(Axis(1), kv);
        let q = asked.row.q.slice(ndarray::s![asked.token, asked.head, ..]).mapv(f64::from);
        let scale = f64::from(asked.case.scale);
        Self { x: asked.visible.clone().map(|key| (key, scale * k.row(key).dot(&q))).collect() }
    }

    /// Without one key.
    pub(super) fn without(&self, missing: usize) -> Self {
        Self { x: self.x.iter().copied().filter(|(key, _)| *key != missing).collect() }
    }

    /// Only keys that can have weight, also where all scores are several times too small.
    pub(super) fn of_weight(&self) -> Self {
        let most = self.x.iter().map(|(_, x)| *x).fold(f64::NEG_INFINITY, f64::max);
        Self { x: self.x.iter().copied().filter(|(_, x)| *x > most - FAR).collect() }
    }

    /// Output with V of a KV head, and its derivative by the factor on the scores.
    pub(super) fn output(
        &self,
        asked: &Asked<'_>,
        kv: usize,
        factor: f64,
        cap: Option<f32>,
    ) -> (Vec<f64>, Vec<f64>) {
        let scores: Vec<f64> = self.x.iter().map(|(key, x)| asked.score(*key, factor * x, cap)).collect();
        let most = scores.iter().copied().chain(asked.sink).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| libm::exp(score - most)).collect();
        let total = weights.iter().sum::<f64>() + asked.sink.map_or(0.0, |sink| libm::exp(sink - most));
        let mut o = vec![0.0; asked.case.shape.dv];
        let mut moved = vec![0.0; o.len()];
        let mut mean = 0.0;
        for ((key, x), weight) in self.x.iter().zip(&weights) {
            let p = weight / total;
            mean += p * x;
            for ((o, moved), v) in o.iter_mut().zip(&mut moved).zip(asked.v(*key, kv)) {
                *o += p * v;
                *moved += p * x * v;
            }
        }
        for (moved, o) in moved.iter_mut().zip(&o) {
            *moved -= mean * o;
        }
        (o, moved)
    }
}

impl Asked<'_> {
    /// What `ALiBi` adds to the score of a key.
    pub(super) fn bias(&self, key: usize) -> f64 {
        -self.slope * self.position.abs_diff(key) as f64
    }

    /// The score of a key after softcap and bias.
    fn score(&self, key: usize, x: f64, cap: Option<f32>) -> f64 {
        let capped = |x: f64| cap.map(f64::from).map_or(x, |cap| cap * libm::tanh(x / cap));
        match self.case.bias_order {
            BiasOrder::CapThenAlibi => capped(x) + self.bias(key),
            BiasOrder::AlibiThenCap => capped(x + self.bias(key)),
        }
    }
}
