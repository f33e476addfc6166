//! Partial results of one query token and head, and their merge.

use ndarray::Array1;

use super::{
    eval::capped,
    predicted::{F32, Noise, PartNoise},
    tweaks::{Cap, Lse, Merge, NanPart, Normalise, Rescale, Sink, Tweaks},
    visits::RowRules,
};
use crate::spec::{LseBase, Spec};

/// The state of an online softmax over one split.
pub(super) struct Part {
    /// The number of the part.
    number: usize,
    keys: usize,
    pub(super) max: f64,
    pub(super) sum: f64,
    pub(super) acc: Array1<f64>,
    pub(super) noise: PartNoise,
}

impl Part {
    /// A part that is to take in `keys` keys.
    pub(super) fn new(number: usize, keys: usize, dv: usize) -> Part {
        Part { number, keys, max: 0.0, sum: 0.0, acc: Array1::zeros(dv), noise: PartNoise::default() }
    }

    /// Remembers how large the output is.
    pub(super) fn note_size(&mut self) {
        self.noise.largest = largest(self.acc.iter().copied()).max(self.noise.largest);
    }

    /// Moves the running maximum over the scores of a tile.
    pub(super) fn rise_to(&mut self, scores: impl Iterator<Item = f64>, rescale: Rescale) {
        let empty = self.sum == 0.0;
        if !empty && rescale == Rescale::Frozen {
            return;
        }
        let start = if empty { f64::NEG_INFINITY } else { self.max };
        // A NaN score shows in its weight; here it is passed over.
        let top = scores.fold(start, f64::max);
        if top == f64::NEG_INFINITY {
            return;
        }
        if !empty {
            let old = libm::exp(self.max - top);
            if matches!(rescale, Rescale::Both | Rescale::NotAccumulator) {
                self.sum *= old;
                self.noise.lse *= old;
            }
            if matches!(rescale, Rescale::Both | Rescale::NotSum) {
                self.acc *= old;
                self.noise.o *= old;
                self.noise.sum *= old;
                self.noise.largest *= old;
            }
        }
        self.max = top;
    }

    fn lse(&self) -> f64 {
        self.max + libm::log(self.sum)
    }
}

/// The parts of one query token and head, in the order of their splits.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    pub(super) fn push(&mut self, part: Part) {
        self.0.push(part);
    }

    /// The output, the LSE and their noise; `None` for an empty row.
    pub(super) fn merged(mut self, rules: &RowRules<'_, '_>, h: usize) -> Option<(Array1<f64>, f64, Noise)> {
        let (scene, tweaks) = (rules.scene, rules.tweaks);
        let spec = scene.spec;
        self.0.retain(|part| part.sum > 0.0 || part.sum.is_nan() && tweaks.nan_part == NanPart::Spreads);
        let all_parts = scene.rows[rules.row].parts() * scene.splits;
        let empty_parts = all_parts.saturating_sub(self.0.len());
        match tweaks.merge {
            Merge::DropsLast => drop(self.0.pop()),
            Merge::DropsLastOfSeveral if self.0.len() > 1 => drop(self.0.pop()),
            Merge::FirstTwo => self.0.retain(|part| part.number < 2),
            Merge::FirstTwoSeen => self.0.truncate(2),
            _ => {}
        }
        let part_lse = |part: &Part| match tweaks.lse {
            Lse::PartsWithoutMax => part.lse() - part.max,
            _ => part.lse(),
        };
        let lses: Vec<f64> = self.0.iter().map(part_lse).collect();
        let (sink, sinks) = sink(spec, tweaks, h, scene.splits);
        let counts_empty = tweaks.merge == Merge::EmptyCountsOne && empty_parts > 0;
        if lses.is_empty() && sink.is_none() && !counts_empty {
            return None;
        }
        let mut top = lses.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        if counts_empty {
            top = top.max(0.0);
        }
        let weight = |lse: f64| merge_weight(tweaks.merge, lse, top);
        let mut o = Array1::zeros(spec.shape().dv);
        let (mut sum, mut leading) = (0.0, 0.0_f64);
        let mut noise = PartNoise::default();
        for (part, &lse) in self.0.iter().zip(&lses) {
            let weight = weight(lse);
            sum += weight;
            let divisor = if tweaks.normalise == Normalise::NotParts { 1.0 } else { part.sum };
            o.scaled_add(weight / divisor, &part.acc);
            let roundings = F32 * (part.keys as f64 + 4.0);
            noise.o += weight / divisor * part.noise.o;
            noise.sum += weight / divisor * part.noise.sum * roundings;
            noise.largest += weight / divisor * part.noise.largest;
            noise.lse += weight * (part.noise.lse / part.sum + roundings);
            leading = leading.max(weight / part.sum.max(1.0));
        }
        let parts_only = sum;
        if let Some(sink) = sink {
            sum += sinks
                * match tweaks.merge {
                    Merge::BaseTwo { sink: true, .. } | Merge::WithoutMax => weight(sink),
                    _ => libm::exp(sink - top),
                };
        }
        if counts_empty {
            sum += empty_parts as f64 * libm::exp(-top);
        }
        let rise = match tweaks.normalise {
            Normalise::Right | Normalise::NotParts => 1.0 / sum,
            Normalise::NotMerged => 1.0,
            Normalise::Never => {
                let max = self.0.iter().map(|part| part.max).chain(sink).fold(f64::NEG_INFINITY, f64::max);
                libm::exp(top - max)
            }
        };
        match tweaks.normalise {
            Normalise::Right | Normalise::NotParts => o /= sum,
            Normalise::NotMerged | Normalise::Never => o *= rise,
        }
        let lse = self.lse(tweaks, &lses, (top, sum, parts_only), sink);
        let shared = noise.lse / sum;
        // Errors of the scores move weight between keys: the less there is beside the leading key, the less moves.
        let movable = (4.0 * (1.0 - leading / sum)).clamp(0.0, 1.0);
        let noise = Noise {
            o: movable * (noise.o * rise + largest(o.iter().copied()) * shared) + noise.sum * rise,
            lse: shared + 4.0 * F32 * lse.abs(),
            step: noise.largest * rise / 1024.0,
        };
        Some((o, in_base(spec, tweaks, lse), noise))
    }

    /// The natural LSE.
    fn lse(&self, tweaks: &Tweaks, lses: &[f64], merged: (f64, f64, f64), sink: Option<f64>) -> f64 {
        let (top, sum, parts_only) = merged;
        let right = match tweaks.merge {
            Merge::EqualWeightsRightLse => {
                top + libm::log(lses.iter().copied().chain(sink).map(|lse| libm::exp(lse - top)).sum())
            }
            Merge::WithoutMax => libm::log(sum),
            Merge::BaseTwo { lse: true, .. } => top + libm::log2(sum),
            _ => top + libm::log(sum),
        };
        match tweaks.lse {
            Lse::Right | Lse::OtherBase | Lse::PartsWithoutMax => right,
            Lse::WithoutMax => {
                right - self.0.iter().map(|part| part.max).chain(sink).fold(f64::NEG_INFINITY, f64::max)
            }
            Lse::WithoutTop => right - top,
            Lse::OfLastPart => lses.last().copied().unwrap_or(right),
            Lse::WithoutSink => top + libm::log(parts_only),
        }
    }
}

/// The weight of a part in the merge.
fn merge_weight(merge: Merge, lse: f64, top: f64) -> f64 {
    match merge {
        Merge::EqualWeights | Merge::EqualWeightsRightLse => 1.0,
        Merge::BaseTwo { .. } => libm::exp2(lse - top),
        Merge::WithoutMax => f64::from(libm::exp(lse) as f32),
        _ => libm::exp(lse - top),
    }
}

/// The largest finite magnitude.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most))
}

/// The sink logit and how often it counts.
fn sink(spec: &Spec, tweaks: &Tweaks, h: usize, splits: usize) -> (Option<f64>, f64) {
    let Some(declared) = spec.sink(h) else { return (None, 0.0) };
    let heads = spec.shape().q_heads;
    match tweaks.sink {
        Sink::Declared => (Some(declared), 1.0),
        Sink::Ignored => (None, 0.0),
        Sink::Scaled => (Some(spec.scale() * declared), 1.0),
        Sink::Twice => (Some(declared), 2.0),
        Sink::PerSplit => (Some(declared), splits as f64),
        Sink::NextHead => (spec.sink((h + 1) % heads), 1.0),
        Sink::Capped => {
            let cap = spec.profile().softcap.map(f64::from);
            (Some(cap.map_or(declared, |c| capped(Cap::Declared, c, declared))), 1.0)
        }
    }
}

/// A natural LSE in the base that the kernel returns.
fn in_base(spec: &Spec, tweaks: &Tweaks, lse: f64) -> f64 {
    let two = (spec.profile().lse_base == LseBase::Two) != (tweaks.lse == Lse::OtherBase);
    if two { lse * std::f64::consts::LOG2_E } else { lse }
}
