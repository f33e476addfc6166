//! Queries of the probes. K and V are codes of `fill::exact`; scores are exact in f32 where weights must be.

use std::f64::consts::LN_2;

use ndarray::ArrayView2;

use super::Place;
use crate::fill::{BASE, CLASSES, CODES_PER_CENTRE, DIGITS, FIRST_CLASS, FillKind, centres};
use crate::hash;

/// Score in nats that is as good as none: exp of it is 0 in f32, with room for the errors of a score.
const NOTHING: f64 = 128.0;
/// The same for keys without weight in octave and thermometer.
const INACTIVE: f64 = 256.0;
/// Keys with weight in octave and thermometer.
const ACTIVE: [usize; 2] = [24, 65];
/// The scores of saturation in units of the cap: exponentials overflow at 44 or 88 times, squares of them earlier.
const CAPS: [f64; 3] = [50.0, 100.0, 10_000.0];

/// The query, rounded to f32, and its target if it has one.
pub(super) fn query(place: &Place<'_>, k: &ArrayView2<'_, f64>) -> (Vec<f32>, Option<usize>) {
    let d = place.case.shape.d;
    let scale = f64::from(place.case.scale);
    let (q, target) = match place.case.fill {
        FillKind::Ballot => (ballot(place, d, scale), None),
        FillKind::Needle => needle(place, k, scale),
        FillKind::Octave => (octave(place, k, scale), None),
        FillKind::Thermometer => (thermometer(place, k, scale), None),
        FillKind::Saturation => (saturation(place, d, scale), None),
        _ => ((0..d).map(|dim| hash::normal(place.key, dim as u64) / 4.0).collect(), None),
    };
    (q.into_iter().map(|x| x as f32).collect(), target)
}

/// Scores of exactly 0: K times 0, or with ALiBi the distance that the bias takes away, from the digits
/// of the position in K. Every product and every partial sum is a whole number times the slope.
fn ballot(place: &Place<'_>, d: usize, scale: f64) -> Vec<f64> {
    let mut q = vec![0.0; d];
    if place.slope != 0.0 {
        for (dim, x) in q.iter_mut().enumerate().take(DIGITS) {
            *x = -place.slope / scale * BASE.pow(dim as u32) as f64;
        }
        q[DIGITS] = place.slope / scale * place.position as f64;
    }
    q
}

/// A multiple of the target's K: score 0 there, and at any other key minus that multiple times twice the number of
/// signs in which its code differs.
fn needle(place: &Place<'_>, k: &ArrayView2<'_, f64>, scale: f64) -> (Vec<f64>, Option<usize>) {
    let d = k.ncols();
    let codes = CODES_PER_CENTRE * centres(d);
    // Twice the number of differing signs, the least over all other keys; 0 if another key has the same code.
    let nearest = |target: usize| {
        let code = k.row(target);
        let apart = |key: usize| (0..codes).map(|dim| 1.0 - code[dim] * k[[key, dim]]).sum::<f64>();
        (0..k.nrows()).filter(|key| *key != target).map(apart).fold(2.0 * codes as f64, f64::min)
    };
    let mut tries = (0..8).map_while(|attempt| {
        let target = if attempt == 0 { telling_key(place) } else { place.any_key(attempt) }?;
        Some((target, nearest(target)))
    });
    let Some((target, apart)) = tries.find(|(_, apart)| *apart > 0.0) else {
        return (vec![0.0; d], None);
    };
    let most_bias = place.slope * place.position.max(k.nrows()) as f64;
    let least = (NOTHING + most_bias) / (scale.abs() * apart);
    let factor = libm::exp2(libm::ceil(libm::log2(least))).copysign(scale);
    let aimed = (0..d).map(|dim| match dim {
        dim if dim < codes => factor * k[[target, dim]],
        dim if dim < codes + centres(d) => factor,
        _ => 0.0,
    });
    (aimed.collect(), Some(target))
}

/// The first and the last visible key, either side of an edge of a block, of a tile of 64, of a split of
/// 256 or 512, and keys at random, in turn.
fn telling_key(place: &Place<'_>) -> Option<usize> {
    let visible = &place.visible;
    let step = match place.turn % 8 {
        0 => return (!visible.is_empty()).then_some(visible.start),
        1 => return visible.end.checked_sub(1),
        2 => place.case.block_size as usize,
        3 => 64,
        4 => 256,
        5 => 512,
        _ => return place.any_key(0),
    };
    let first = visible.start / step + 1;
    let edges = (visible.end.saturating_sub(1) / step + 1).saturating_sub(first);
    let word = hash::word(place.key, 0x7E11);
    let below = (word & 1) as usize;
    if edges == 0 { place.any_key(0) } else { Some((first + (word >> 1) as usize % edges) * step - below) }
}

/// The class of a visible key, from its one-hot dims.
fn class(k: &ArrayView2<'_, f64>, key: usize) -> usize {
    (0..CLASSES).find(|class| k[[key, FIRST_CLASS + class]] != 0.0).unwrap_or(0)
}

/// Members of each class among the visible keys.
fn census(place: &Place<'_>, k: &ArrayView2<'_, f64>) -> [usize; CLASSES] {
    let mut members = [0; CLASSES];
    place.visible.clone().for_each(|key| members[class(k, key)] += 1);
    members
}

/// The highest class from which on at least `wanted` keys (or all there are) are members.
fn threshold(members: &[usize; CLASSES], wanted: usize) -> usize {
    let from = |class: usize| members[class..].iter().sum::<usize>();
    (0..CLASSES).rev().find(|class| from(*class) >= wanted.min(from(0))).unwrap_or(0)
}

/// A query that takes all weight from classes below the threshold.
fn only_from(threshold: usize, d: usize, scale: f64) -> Vec<f64> {
    let is_out = |dim: usize| (FIRST_CLASS..FIRST_CLASS + threshold).contains(&dim);
    (0..d).map(|dim| if is_out(dim) { -INACTIVE / scale } else { 0.0 }).collect()
}

/// Scores of -level ln 2. The level is in two dims of K, for ln 2 over the scale in two f32.
fn octave(place: &Place<'_>, k: &ArrayView2<'_, f64>, scale: f64) -> Vec<f64> {
    let mut q = only_from(threshold(&census(place, k), ACTIVE[0]), k.ncols(), scale);
    let step = -LN_2 / scale;
    q[0] = f64::from(step as f32);
    q[1] = step - q[0];
    q
}

/// Scores of 0, and for the highest class one that makes its weight about that of all others.
fn thermometer(place: &Place<'_>, k: &ArrayView2<'_, f64>, scale: f64) -> Vec<f64> {
    let members = census(place, k);
    let threshold = threshold(&members, ACTIVE[1]);
    let mut q = only_from(threshold, k.ncols(), scale);
    if let Some(hot) = (threshold + 1..CLASSES).rev().find(|class| members[*class] > 0) {
        let others = members[threshold..hot].iter().sum::<usize>();
        let dither = 0.7 * hash::signed_unit(hash::word(place.key, 0xD17));
        let even = libm::log(others.max(1) as f64 / members[hot] as f64);
        q[FIRST_CLASS + hot] = (even + dither) / scale;
    }
    q
}

/// Scores of plus and minus so many times the cap, by the sign of K's first dim.
fn saturation(place: &Place<'_>, d: usize, scale: f64) -> Vec<f64> {
    let cap = place.case.softcap.map_or(1.0, f64::from);
    let mut q = vec![0.0; d];
    q[0] = CAPS[place.turn % CAPS.len()] * cap / scale;
    q
}
