//! Needle: one key has all the weight, so that the output is its V.

use super::softmax::Scores;
use super::{Asked, LOOSE};

/// How far the LSE may be from the hit's score, in nats, besides rounding of the score itself.
const LSE: f64 = 0.05;

/// Shares of V below this are too near to the subnormal numbers to be read.
const LEAST_SHARE: f64 = 1e-30;

/// The fault that the outputs show.
pub(super) fn says(asked: &Asked<'_>) -> Option<String> {
    let is_own = |target: &&crate::query::Target| (target.token, target.head) == (asked.token, asked.head);
    let target = asked.row.targets.iter().find(is_own)?.key;
    let hit = asked.bias(target);
    let sink = asked.sink.map_or(0.0, |sink| libm::exp(sink - hit));
    let needle = Needle { asked, target, share: 1.0 / (1.0 + sink) };
    let lse = asked.lse - hit - libm::log1p(sink);
    if !needle.holds() {
        return None;
    }
    let is_off = asked.lse.is_finite() && lse.abs() > LSE + hit.abs() / 1_048_576.0;
    if !needle.is(target, asked.kv) {
        return Some(needle.elsewhere());
    }
    is_off.then(|| {
        // Only the target has weight, so its weight in the sum says how often it was taken.
        let times = libm::exp(lse) * (1.0 + sink) - sink;
        if (times - times.round()).abs() < 0.1 && times.round() > 1.0 {
            format!("key {target} counted {times:.0} times")
        } else {
            format!("LSE off by {lse:.4}")
        }
    })
}

struct Needle<'a, 'r> {
    asked: &'a Asked<'r>,
    target: usize,
    /// What the sink leaves to the target.
    share: f64,
}

impl Needle<'_, '_> {
    /// Whether the inputs are a needle at all: long rows under a small slope may leave other keys a weight, and under a large
    /// one a sink may leave the target so little that its share of V is subnormal.
    fn holds(&self) -> bool {
        if self.share < LEAST_SHARE {
            return false;
        }
        let (asked, own) = (self.asked, self.asked.kv);
        let (exact, _) = Scores::new(asked, own).output(asked, own, 1.0, asked.case.softcap);
        let v = asked.v(self.target, own);
        exact.iter().zip(v).all(|(o, v)| (o - self.share * v).abs() <= LOOSE / 4.0 * self.share * v.abs())
    }

    /// Whether the output is V of this key and KV head.
    fn is(&self, key: usize, kv: usize) -> bool {
        let wanted = self.asked.v(key, kv);
        self.asked
            .o
            .iter()
            .zip(wanted)
            .all(|(o, v)| (o - self.share * v).abs() <= LOOSE * self.share * v.abs())
    }

    /// Whether the output is what another set of scores gives.
    fn is_from(&self, scores: &Scores, kv: usize) -> bool {
        let (wanted, _) = scores.output(self.asked, kv, 1.0, self.asked.case.softcap);
        let size = wanted.iter().map(|o| o.abs()).fold(0.0, f64::max);
        size > 0.0 && self.asked.o.iter().zip(&wanted).all(|(o, wanted)| (o - wanted).abs() <= LOOSE * size)
    }

    fn elsewhere(&self) -> String {
        let (asked, target, own) = (self.asked, self.target, self.asked.kv);
        if let Some(gain) = asked.gain(&asked.v(target, own)) {
            return format!("gain {:.4}", gain / self.share);
        }
        if let Some(kv) = asked.other_heads().find(|kv| self.is(target, *kv)) {
            return format!("V of KV head {own} read as that of {kv}");
        }
        if self.is_from(&Scores::new(asked, own).without(target), own) {
            return format!("key {target} missing");
        }
        for kv in asked.other_heads() {
            let scores = Scores::new(asked, kv);
            if self.is_from(&scores, kv) {
                return format!("KV head {own} read as {kv}");
            }
            if self.is_from(&scores, own) {
                return format!("K of KV head {own} read as that of {kv}");
            }
        }
        match (0..asked.row.len).find(|key| self.is(*key, own)) {
            Some(key) if asked.visible.contains(&key) => {
                format!("V of key {target} read as that of key {key}")
            }
            Some(key) => format!("V of key {target} read as that of key {key} ({})", asked.whereabouts(key)),
            None => format!("the weight is not on key {target} alone"),
        }
    }
}
