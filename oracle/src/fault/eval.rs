//! One evaluator for right and wrong kernels: scores, an online softmax over tiles, parts per split, a merge.

use std::borrow::Cow;

use ndarray::{ArrayView3, CowArray, Ix3, s};

use super::{
    SceneRow,
    known::{Known, Sizes, decoded},
    parts::{Part, Parts},
    predicted::{F32, Predicted},
    tweaks::{
        Cap, Coarse, Decode, Dims, Distance, Edit, Head, Rescale, ScaleRule, Scaling, Slope, Table, Tweaks,
        Where,
    },
    visits::{Counts, RowRules, Visit},
};
use crate::{
    elem::{Elem, Saturate},
    rule::kv_head,
    scale::Granularity,
    spec::{AlibiOrigin, BiasOrder, Causal, Spec},
};

/// What the kernel returns for one row; `None` if that depends on slots that the scene does not hold.
pub(super) fn row_answer(rules: &RowRules<'_, '_>, known: &[Known]) -> Option<Predicted> {
    let tweaks = rules.tweaks;
    let row = RowEval::new(rules, known);
    let mut predicted = Predicted::empty(rules.scene.spec, rules.tokens);
    for i in 0..rules.tokens {
        let mut with = 0..0;
        let (mut plain, mut edited) = (None, None);
        for h in 0..rules.scene.spec.shape().q_heads {
            if rules.workgroup(i, h) != with {
                with = rules.workgroup(i, h);
                plain = rules.visits(i, with.clone(), Edit::None);
                edited = match tweaks.edit {
                    Edit::None => None,
                    edit => rules.visits(i, with.clone(), edit),
                };
            }
            let is_edited = tweaks.edit != Edit::None && row.edits(h);
            let visits = if is_edited { &edited } else { &plain };
            let parts = row.parts(i, h, visits.as_ref()?);
            match parts.merged(rules, h) {
                Some(merged) => predicted.set((i, h), merged),
                None => predicted.set_empty((i, h), tweaks.empty),
            }
        }
    }
    Some(predicted)
}

/// Half of the smallest positive f32: rounded to 0.
const LEAST_WEIGHT: f64 = f32::from_bits(1) as f64 / 2.0;

/// `x` rounded to a format, overflowing to infinity.
fn rounded(elem: Elem, x: f64) -> f64 {
    elem.decode(elem.encode(x, Saturate::Nonfinite))
}

/// One row with everything that its query tokens and heads share.
pub(super) struct RowEval<'a, 's> {
    rules: &'a RowRules<'a, 's>,
    spec: &'a Spec,
    tweaks: &'a Tweaks,
    q: ArrayView3<'s, f64>,
    k: CowArray<'s, f64, Ix3>,
    v: CowArray<'s, f64, Ix3>,
    source: &'a SceneRow<'s>,
    /// What is known of the row itself.
    own: &'a Known,
    sizes: Cow<'a, Sizes>,
}

/// One query token and head.
struct Pair {
    i: usize,
    h: usize,
    k_head: usize,
    v_head: usize,
    position: i64,
    slope: f64,
    scale: f64,
}

impl<'a, 's> RowEval<'a, 's> {
    pub(super) fn new(rules: &'a RowRules<'a, 's>, known: &'a [Known]) -> RowEval<'a, 's> {
        let (scene, tweaks) = (rules.scene, rules.tweaks);
        let read = match tweaks.table {
            Table::Own => rules.row,
            Table::NextRow => (rules.row + 1) % scene.rows.len(),
        };
        let source = &scene.rows[read];
        let k = decoded(tweaks.decode, scene.elem, &source.k, source.k_codes, |j, kv| source.k_scale(j, kv));
        let v = decoded(tweaks.decode, scene.elem, &source.v, source.v_codes, |j, kv| source.v_scale(j, kv));
        let sizes = match tweaks.decode {
            Decode::Declared => Cow::Borrowed(&known[read].sizes),
            _ => Cow::Owned(Sizes::of(&k.view(), &v.view())),
        };
        let q = scene.rows[rules.row].q;
        RowEval { rules, spec: scene.spec, tweaks, q, k, v, source, own: &known[rules.row], sizes }
    }

    /// The scores of the keys that a query token sees, in their order.
    pub(super) fn scores(&self, i: usize, h: usize) -> Vec<f64> {
        let pair = self.pair(i, h);
        self.rules.seen(i).map(|key| self.score(&pair, &self.rules.whole(key))).collect()
    }

    fn pair(&self, i: usize, h: usize) -> Pair {
        Pair {
            i,
            h,
            k_head: head(self.spec, self.tweaks.k_head, h),
            v_head: head(self.spec, self.tweaks.v_head, h),
            position: self.rules.position(i),
            slope: self.slope(h),
            scale: factor(self.spec, self.tweaks.scale),
        }
    }

    /// Whether the edit of the list of keys applies to this head.
    fn edits(&self, h: usize) -> bool {
        let last_row = self.rules.row + 1 == self.rules.scene.rows.len();
        match self.tweaks.edit_where {
            Where::Everywhere => true,
            Where::Row(row) => row == self.rules.row,
            Where::LastHeadOfLastRow => last_row && h + 1 == self.spec.shape().q_heads,
        }
    }

    /// The partial results of one query token and head.
    fn parts(&self, i: usize, h: usize, visits: &[Visit]) -> Parts {
        let pair = self.pair(i, h);
        let mut parts = Parts::default();
        for visits in visits.chunk_by(|a, b| a.part == b.part) {
            let mut part = Part::new(visits[0].part, visits.len(), self.spec.shape().dv);
            for tile in visits.chunk_by(|a, b| a.tile == b.tile) {
                self.take_in(&pair, tile, &mut part);
            }
            parts.push(part);
        }
        parts
    }

    /// One step of the online softmax.
    fn take_in(&self, pair: &Pair, tile: &[Visit], part: &mut Part) {
        let score = |visit: &Visit| match visit.counts {
            Counts::Fully => Some(self.score(pair, visit)),
            Counts::Score(score) => Some(score),
            Counts::Weight(_) => None,
        };
        let scores: Vec<Option<f64>> = tile.iter().map(score).collect();
        part.rise_to(scores.iter().copied().flatten(), self.tweaks.rescale);
        for (visit, score) in tile.iter().zip(scores) {
            let weight = match (visit.counts, score) {
                (Counts::Weight(weight), _) => weight,
                (_, Some(score)) => libm::exp(score - part.max),
                (_, None) => 0.0,
            };
            // A maximum that does not follow lets a weight leave f32.
            let too_large = self.tweaks.rescale == Rescale::Frozen && weight > f64::from(f32::MAX);
            // One that f32 cannot tell from 0 leaves out its key, whatever V is.
            let weight = match weight {
                _ if too_large => f64::INFINITY,
                tiny if tiny <= LEAST_WEIGHT => 0.0,
                weight => weight,
            };
            let coarse = match self.tweaks.coarse {
                Coarse::WeightsBf16 | Coarse::WeightsBf16InSum => rounded(Elem::Bf16, weight),
                _ => weight,
            };
            part.sum += if self.tweaks.coarse == Coarse::WeightsBf16InSum { coarse } else { weight };
            if weight == 0.0 {
                continue;
            }
            let gain = coarse * self.gain(self.tweaks.v_scale, pair, visit, pair.v_head, false);
            let v = self.v.slice(s![visit.v_from, pair.v_head, ..]);
            part.acc.scaled_add(gain, &v);
            let noise = score.map_or(0.0, |score| self.noise(pair, visit, score));
            part.noise.lse += weight * noise;
            let size = gain.abs() * self.sizes.v[[visit.v_from, pair.v_head]];
            part.noise.o += noise * size;
            part.noise.sum += size;
            if self.tweaks.coarse == Coarse::AccumulatorF16 {
                part.acc.mapv_inplace(|acc| rounded(Elem::F16, acc));
                part.note_size();
            }
        }
    }

    /// How far f32 may take a score: the roundings of a dot product in any order, of scale, bias and sum.
    fn noise(&self, pair: &Pair, visit: &Visit, score: f64) -> f64 {
        let gain = self.gain(self.tweaks.k_scale, pair, visit, pair.k_head, true);
        let length = self.own.q[[pair.i, pair.h]] * self.sizes.k[[visit.k_from, pair.k_head]];
        let roundings = self.spec.shape().d as f64 + 8.0;
        let bias = self.bias(pair, visit.key);
        // A cap shrinks what comes before it by its slope.
        let slope = match self.spec.profile().softcap.map(f64::from) {
            Some(c) if matches!(self.tweaks.cap, Cap::Declared | Cap::OtherOrder | Cap::Twice) => {
                let t = if self.cap_last() { score / c } else { (score - bias) / c };
                (1.0 - t * t).clamp(1.0 / 1024.0, 1.0)
            }
            _ => 1.0,
        };
        let dot = slope * roundings * (gain * pair.scale * length).abs();
        F32 * (dot + 4.0 * (score.abs() + bias.abs()))
    }

    /// Whether the bias is added before the cap.
    fn cap_last(&self) -> bool {
        (self.spec.profile().bias_order == BiasOrder::AlibiThenCap) != (self.tweaks.cap == Cap::OtherOrder)
    }

    fn score(&self, pair: &Pair, visit: &Visit) -> f64 {
        let gain = self.gain(self.tweaks.k_scale, pair, visit, pair.k_head, true);
        let dot = gain * self.dot(pair, visit);
        let profile = self.spec.profile();
        let cap = profile.softcap.map(f64::from).filter(|_| self.tweaks.cap != Cap::Ignored);
        let bias = self.bias(pair, visit.key);
        let score = match cap {
            None => pair.scale * dot + bias,
            Some(c) if self.tweaks.cap == Cap::BeforeScale => {
                pair.scale * capped(Cap::Declared, c, dot) + bias
            }
            Some(c) if self.cap_last() => capped(self.tweaks.cap, c, pair.scale * dot + bias),
            Some(c) => capped(self.tweaks.cap, c, pair.scale * dot) + bias,
        };
        if let Scaling::Score(factor) = self.tweaks.scale { score * factor } else { score }
    }

    /// `q . k`, with the scale of K.
    fn dot(&self, pair: &Pair, visit: &Visit) -> f64 {
        if self.tweaks.right_dots() {
            return self.own.dots[[pair.i, pair.h, visit.k_from]];
        }
        let d = self.spec.shape().d;
        let dims = match self.tweaks.dims {
            Dims::All => d,
            Dims::MultipleOf32 => (d / 32 * 32).max(32).min(d),
            Dims::AtMost128 => d.min(128),
        };
        let q = self.q.slice(s![pair.i, pair.h, ..dims]);
        let k = self.k.slice(s![visit.k_from, pair.k_head, ..dims]);
        let scale = self.source.k_scale(visit.k_from, pair.k_head);
        match self.tweaks.coarse {
            Coarse::DotF16 => {
                // In f32 as a kernel does it: a sum that f64 puts to the other side of a middle is off by a whole step.
                let add = |sum: f32, (q, k): (&f64, &f64)| {
                    let sum = sum + *q as f32 * (k / scale) as f32;
                    rounded(Elem::F16, f64::from(sum)) as f32
                };
                scale * f64::from(q.iter().zip(&k).fold(0.0, add))
            }
            Coarse::FinishedDotF16 => scale * rounded(Elem::F16, q.dot(&k) / scale),
            _ => q.dot(&k),
        }
    }

    fn slope(&self, h: usize) -> f64 {
        let Some(slopes) = self.spec.slopes() else { return 0.0 };
        let heads = slopes.len();
        let declared = f64::from(slopes[h]);
        match self.tweaks.slope {
            Slope::Declared | Slope::TimesScale => declared,
            Slope::Ignored => 0.0,
            Slope::IgnoredInDecode => {
                if self.rules.tokens == 1 {
                    0.0
                } else {
                    declared
                }
            }
            Slope::NextHead => f64::from(slopes[(h + 1) % heads]),
            Slope::PowerOfTwo => libm::exp2(-8.0 * (h + 1) as f64 / heads as f64),
            Slope::ExponentShift => {
                let n = 1_usize << heads.ilog2();
                declared * libm::exp2(8.0 / n as f64)
            }
            Slope::ByKvHead => f64::from(slopes[kv_head(self.spec, h)]),
            Slope::Negated => -declared,
        }
    }

    fn bias(&self, pair: &Pair, key: usize) -> f64 {
        if pair.slope == 0.0 {
            return 0.0;
        }
        let profile = self.spec.profile();
        let ahead = key as i64 - pair.position;
        let absolute = (profile.alibi_origin == AlibiOrigin::Absolute)
            != (self.tweaks.distance == Distance::OtherOrigin);
        let both_ways = profile.causal == Causal::None || self.tweaks.distance == Distance::Absolute;
        let distance = match (absolute, both_ways) {
            (true, _) => key as i64,
            (false, true) => -ahead.abs(),
            (false, false) => ahead,
        };
        let scaled = if self.tweaks.slope == Slope::TimesScale { pair.scale } else { 1.0 };
        pair.slope * distance as f64 * scaled
    }

    /// What a wrong scale of K or V multiplies the right value by.
    fn gain(&self, rule: ScaleRule, pair: &Pair, visit: &Visit, kv: usize, of_k: bool) -> f64 {
        if rule == ScaleRule::Declared {
            return 1.0;
        }
        let (j, heads) = (if of_k { visit.k_from } else { visit.v_from }, self.spec.shape().kv_heads);
        let scale = |j: usize, kv: usize, of_k: bool| {
            if of_k { self.source.k_scale(j, kv) } else { self.source.v_scale(j, kv) }
        };
        let granularity = if of_k { self.rules.scene.k_granularity } else { self.rules.scene.v_granularity };
        let per_key = matches!(granularity, Granularity::Block | Granularity::Token);
        let right = scale(j, kv, of_k);
        let used = match rule {
            ScaleRule::OfOther => scale(j, kv, !of_k),
            ScaleRule::Ignored => 1.0,
            ScaleRule::Divided => 1.0 / right,
            ScaleRule::HeadZero => scale(j, 0, of_k),
            ScaleRule::QueryHeadModulo => scale(j, pair.h % heads, of_k),
            ScaleRule::QueryHeadClamped => scale(j, pair.h.min(heads - 1), of_k),
            ScaleRule::FirstOfTile if per_key => scale(visit.tile.0, kv, of_k),
            ScaleRule::IgnoredInPrefix(prefix) if self.rules.in_prefix(prefix, j) => 1.0,
            ScaleRule::Declared | ScaleRule::FirstOfTile | ScaleRule::IgnoredInPrefix(_) => right,
        };
        used / right
    }
}

/// The KV head of query head `h`.
fn head(spec: &Spec, rule: Head, h: usize) -> usize {
    let (group, heads) = (spec.shape().group(), spec.shape().kv_heads);
    match rule {
        Head::Declared => kv_head(spec, h),
        Head::Modulo => h % heads,
        Head::DivideByKvHeads => (h / heads).min(heads - 1),
        Head::Zero => 0,
        Head::Next => (h / group + 1) % heads,
        Head::Shift => (h >> group.ilog2()).min(heads - 1),
    }
}

/// The factor on `q . k`.
fn factor(spec: &Spec, rule: Scaling) -> f64 {
    let scale = spec.scale();
    match rule {
        Scaling::Declared | Scaling::Score(_) => scale,
        Scaling::Missing => 1.0,
        Scaling::Squared => scale * scale,
        Scaling::Times(factor) => scale * factor,
        Scaling::PaddedDim => 1.0 / (spec.shape().d.next_power_of_two() as f64).sqrt(),
        Scaling::InvSqrtD => 1.0 / (spec.shape().d as f64).sqrt(),
    }
}

/// A softcap.
pub(super) fn capped(rule: Cap, c: f64, x: f64) -> f64 {
    let cap = |x: f64| c * libm::tanh(x / c);
    match rule {
        Cap::Declared | Cap::OtherOrder | Cap::BeforeScale => cap(x),
        Cap::Ignored => x,
        Cap::Clamp => x.clamp(-c, c),
        Cap::Twice => cap(cap(x)),
        Cap::XTanh => x * libm::tanh(x / c),
        Cap::TanhOverflow => {
            let t = libm::exp(2.0 * x / c);
            if t > f64::from(f32::MAX) { f64::NAN } else { c * ((t - 1.0) / (t + 1.0)) }
        }
    }
}
