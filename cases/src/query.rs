//! What the queries aim at: the keys where faults live.
//!
//! K and V know nothing of the queries; dominance is the queries' work. The query of a head is the
//! smallest vector whose scores at its few target keys have a chosen value (about 10 nats above
//! the rest), plus a little noise, rounded to f32. Over heads, rows, query tokens and checks the targets rotate
//! through the first and last visible key, the keys just outside the window and the causal edge, and
//! both sides of every multiple of the block size inside the visible range, which include all edges of spans, tiles
//! and splits. A key just outside is a target too: whoever reads it gives it all the weight.
//!
//! That is for plain fills. The hostile and random families have queries of their own, drawn like K or fitted to the
//! dims of K that carry a level; so have the probes.

mod hostile;
mod probe;
mod solve;

use std::collections::BTreeSet;
use std::ops::Range;

use attnproof_oracle::{BiasOrder, Causal, alibi_slopes};
use ndarray::{Array3, ArrayView2, ArrayView3, Axis, s};

use crate::case::Case;
use crate::fill::FillKind;
use crate::hash;

/// Score in nats that a target gets above keys with unrelated content.
const SCORE: f64 = 10.0;
/// More than this many targets in one query would drown in one another's noise.
const MOST_TARGETS: usize = 4;
/// Share of the `ALiBi` distance added to the score of far targets, whose larger queries raise
/// the noise of near keys.
const BIAS_MARGIN: f64 = 0.4;
/// How far, in nats, another visible key may lead the weakest target of a query.
const RIVAL: f64 = 2.0;
/// Noise on each element of a query, relative to the root mean square of the query.
const NOISE: f64 = 1.0 / 64.0;

/// One key that one query head was aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Query token, from 0.
    pub token: usize,
    /// Query head.
    pub head: usize,
    /// Key position.
    pub key: usize,
}

/// The queries of one row of one check.
#[derive(Clone, Debug)]
pub(crate) struct Queries {
    /// `[query token, query head, d]`.
    pub(crate) q: Array3<f32>,
    /// What they were aimed at.
    pub(crate) targets: Vec<Target>,
}

/// The largest score in nats (after softcap and bias) that a dominated row is expected to have.
pub(crate) fn typical_maximum(case: &Case) -> f64 {
    match case.fill {
        FillKind::Deep => return hostile::DEEP,
        kind if kind.is_probe() => return 0.0,
        _ => {}
    }
    case.softcap.map_or(SCORE, |cap| 0.9 * f64::from(cap))
}

/// Positions query token `token` of `q_len` may see in a row of `len` keys.
pub(crate) fn visible_range(case: &Case, len: usize, q_len: usize, token: usize) -> Range<usize> {
    let position = position(case, len, q_len, token);
    let end = if case.causal == Causal::None { len } else { len.min(position + 1) };
    let start = case.window.map_or(0, |w| (position + 1).saturating_sub(w as usize));
    start.min(end)..end
}

/// Absolute position of a query token.
fn position(case: &Case, len: usize, q_len: usize, token: usize) -> usize {
    match case.causal {
        Causal::TopLeft => token,
        Causal::BottomRight | Causal::None => (len + token).saturating_sub(q_len),
    }
}

/// The keys worth aiming at, most telling first: first and last visible key, the keys just outside on
/// either side, then in order every multiple of the block size inside the range and the key before it.
pub(crate) fn boundaries(visible: &Range<usize>, len: usize, block_size: usize) -> Vec<usize> {
    if visible.is_empty() {
        return Vec::new();
    }
    let mut keys = vec![visible.start];
    let edges =
        [Some(visible.end - 1), visible.start.checked_sub(1), (visible.end < len).then_some(visible.end)];
    for key in edges.into_iter().flatten() {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let first_multiple = visible.start.next_multiple_of(block_size);
    let inner: BTreeSet<usize> = (first_multiple..visible.end)
        .step_by(block_size)
        .flat_map(|edge| [edge.saturating_sub(1), edge])
        .filter(|key| visible.contains(key) && !keys.contains(key))
        .collect();
    keys.extend(inner);
    keys
}

/// Deals `keys` to `heads` heads, at most `most` each, starting `turn` further every time. If there are
/// more keys than places, the first four always have one and the rest take turns.
fn deal(keys: &[usize], heads: usize, most: usize, turn: usize) -> Vec<Vec<usize>> {
    let places = heads * keys.len().div_ceil(heads).min(most);
    let chosen: Vec<usize> = if keys.len() <= places {
        keys.to_vec()
    } else {
        let fixed = 4.min(places);
        let rest = &keys[fixed..];
        let spread = places - fixed;
        let taken = (0..spread).map(|i| rest[(i * rest.len() / spread + turn) % rest.len()]);
        keys[..fixed].iter().copied().chain(taken).collect()
    };
    let mut dealt = vec![Vec::new(); heads];
    for place in 0..chosen.len().max(heads) {
        let head = (place + turn) % heads;
        let key = chosen[place % chosen.len()];
        if !dealt[head].contains(&key) {
            dealt[head].push(key);
        }
    }
    dealt
}

/// The queries of one row. `k` is its dequantised K `[key, kv head, d]`, `turn` counts the rows
/// asked about so far in this case and moves the rotation on.
pub(crate) fn queries(case: &Case, seed: u64, k: &ArrayView3<'_, f64>, q_len: usize, turn: usize) -> Queries {
    let heads = case.shape.q_heads;
    let len = k.len_of(Axis(0));
    let noise_key = hash::fold(hash::fold(case.key(seed), 0x51), turn as u64);
    let slopes = if case.alibi { alibi_slopes(heads) } else { vec![0.0; heads] };
    let mut q = Array3::zeros((q_len, heads, case.shape.d));
    let mut targets = Vec::new();
    if !case.fill.is_aimed() {
        for (token, head) in (0..q_len).flat_map(|token| (0..heads).map(move |head| (token, head))) {
            let place = Place {
                case,
                key: hash::fold(noise_key, (token * heads + head) as u64),
                turn: (turn * q_len + token) * heads + head,
                visible: visible_range(case, len, q_len, token),
                position: position(case, len, q_len, token),
                slope: f64::from(slopes[head]),
            };
            let k_head = k.index_axis(Axis(1), head / (heads / case.shape.kv_heads));
            let (query, aim) = if case.fill.is_probe() {
                probe::query(&place, &k_head)
            } else {
                hostile::query(&place, &k_head)
            };
            q.slice_mut(s![token, head, ..]).assign(&ndarray::arr1(&query));
            targets.extend(aim.map(|key| Target { token, head, key }));
        }
        return Queries { q, targets };
    }
    for token in 0..q_len {
        let visible = visible_range(case, len, q_len, token);
        let keys = boundaries(&visible, len, case.block_size as usize);
        let most = (case.shape.d / 8).clamp(1, MOST_TARGETS);
        let dealt =
            if keys.is_empty() { vec![Vec::new(); heads] } else { deal(&keys, heads, most, turn + token) };
        for (head, mut aims) in dealt.into_iter().enumerate() {
            let k_head = k.index_axis(Axis(1), head / (heads / case.shape.kv_heads));
            let position = position(case, len, q_len, token);
            let style = Style { case, position, slope: f64::from(slopes[head]), kind: head + turn + token };
            if style.is_negative(visible.len()) {
                aims = visible.clone().collect();
            }
            let direction = aim(&k_head, &mut aims, &visible, &style);
            let key = hash::fold(noise_key, (token * heads + head) as u64);
            let rounded = with_noise(&direction, key);
            q.slice_mut(s![token, head, ..]).assign(&ndarray::arr1(&rounded));
            targets.extend(aims.into_iter().map(|key| Target { token, head, key }));
        }
    }
    Queries { q, targets }
}

/// One head of one query token, for the kinds that are not aimed by content.
struct Place<'c> {
    case: &'c Case,
    /// Key of everything drawn for it.
    key: u64,
    /// Counts heads, query tokens and rows: what rotates, rotates with it.
    turn: usize,
    /// The keys it may see.
    visible: Range<usize>,
    /// Absolute position of the query token.
    position: usize,
    /// `ALiBi` slope, 0 without.
    slope: f64,
}

impl Place<'_> {
    /// A visible key at random, `None` if there is none.
    fn any_key(&self, counter: u64) -> Option<usize> {
        let choice = hash::word(hash::fold(self.key, 0x7A46), counter) as usize;
        (!self.visible.is_empty()).then(|| self.visible.start + choice % self.visible.len())
    }
}

/// How strongly one head of one query token aims.
struct Style<'c> {
    case: &'c Case,
    /// Absolute position of the query token.
    position: usize,
    /// `ALiBi` slope of the head, 0 without.
    slope: f64,
    /// Chooses among the softcap styles.
    kind: usize,
}

impl Style<'_> {
    /// With a softcap one head in four gets scores far below `-c` at every visible key, if those are few
    /// enough to be steered one by one: only then does a masked score capped to `-c` compete.
    fn is_negative(&self, visible: usize) -> bool {
        self.case.softcap.is_some() && self.kind % 4 == 3 && visible <= self.case.shape.d / 2
    }

    /// What `ALiBi` takes from the score of a key, in nats.
    fn bias(&self, key: usize) -> f64 {
        self.slope * self.position.abs_diff(key) as f64
    }

    /// Scores `scale * q.k` in nats wanted at the keys, before softcap and bias.
    fn scores(&self, keys: &[usize], visible: usize) -> Vec<f64> {
        let Some(cap) = self.case.softcap.map(f64::from) else {
            let farthest = keys.iter().map(|key| self.bias(*key)).fold(0.0, f64::max);
            return keys.iter().map(|key| SCORE + BIAS_MARGIN * farthest + self.bias(*key)).collect();
        };
        // From 44 or 88 times the cap on, a tanh made of exponentials is infinity over infinity (seen in Metal, Triton);
        // only small caps leave room for that.
        let multiples = if cap <= 1.0 { [60.0, 100.0, 400.0, -100.0] } else { [1.5, 2.0, 3.0, -3.0] };
        let multiple = if self.is_negative(visible) { multiples[3] } else { multiples[self.kind % 3] };
        let inside = self.case.bias_order == BiasOrder::AlibiThenCap;
        keys.iter().map(|key| multiple * cap + if inside { self.bias(*key) } else { 0.0 }).collect()
    }
}

/// The smallest vector with `scale * q.k = score` at each target. The last targets are given up until no other
/// visible key leads by more than [`RIVAL`]: with many keys in few dims some come near by chance.
fn aim(
    k: &ArrayView2<'_, f64>,
    aims: &mut Vec<usize>,
    visible: &Range<usize>,
    style: &Style<'_>,
) -> Vec<f64> {
    let scale = f64::from(style.case.scale);
    loop {
        let scores = style.scores(aims, visible.len());
        let q = steered(k, aims, &scores, scale);
        let score = |key: usize| scale * k.row(key).iter().zip(&q).map(|(x, y)| x * y).sum::<f64>();
        let weakest =
            aims.iter().zip(&scores).map(|(key, x)| x - style.bias(*key)).fold(f64::INFINITY, f64::min);
        let mut others = visible.clone().filter(|key| !aims.contains(key));
        if aims.len() < 2 || others.all(|key| score(key) - style.bias(key) <= weakest + RIVAL) {
            return q;
        }
        aims.pop();
    }
}

/// The smallest vector with `scale * q.k = score` at each key; keys that are (nearly) combinations of earlier
/// ones are left out.
fn steered(k: &ArrayView2<'_, f64>, keys: &[usize], scores: &[f64], scale: f64) -> Vec<f64> {
    let rows: Vec<Vec<f64>> = keys.iter().map(|key| k.row(*key).to_vec()).collect();
    let products: Vec<f64> = scores.iter().map(|score| score / scale).collect();
    solve::smallest_with_products(&rows, &products, k.len_of(Axis(1)))
}

/// Adds noise, or is noise alone where nothing is aimed at, and rounds to f32.
fn with_noise(direction: &[f64], key: u64) -> Vec<f32> {
    let mean_square = direction.iter().map(|x| x * x).sum::<f64>() / direction.len().max(1) as f64;
    let level = if mean_square > 0.0 { NOISE * mean_square.sqrt() } else { 1.0 };
    let noise = |dim| level * hash::signed_unit(hash::word(key, dim as u64));
    direction.iter().enumerate().map(|(dim, x)| (x + noise(dim)) as f32).collect()
}

#[cfg(test)]
mod tests;
