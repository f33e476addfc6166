//! Who sees whom and with what bias: head map, positions, masks, ALiBi. Used by the reference and by the bound;
//! the second reference has rules of its own.

use ndarray::ArrayView2;

use crate::spec::{AlibiOrigin, Causal, HeadMap, Spec};

/// The KV head that query head `h` reads.
pub(crate) fn kv_head(spec: &Spec, h: usize) -> usize {
    match spec.profile().head_map {
        HeadMap::Floor => h / spec.shape().group(),
        HeadMap::Modulo => h % spec.shape().kv_heads,
    }
}

/// The absolute position of query token `i` of `tq` before `tk` keys; negative where queries outnumber keys.
pub(crate) fn position(spec: &Spec, i: usize, tq: usize, tk: usize) -> i64 {
    match spec.profile().causal {
        Causal::TopLeft => i as i64,
        Causal::BottomRight | Causal::None => tk as i64 - tq as i64 + i as i64,
    }
}

/// The keys that query token `i` sees, in ascending order.
pub(crate) fn visible_keys(
    spec: &Spec,
    mask: Option<ArrayView2<'_, bool>>,
    i: usize,
    p: i64,
    tk: usize,
) -> Vec<usize> {
    let profile = spec.profile();
    let causal = |j: i64| profile.causal == Causal::None || j <= p;
    let left = |j: i64| profile.window.left.is_none_or(|left| p - i64::from(left) <= j);
    let right = |j: i64| profile.window.right.is_none_or(|right| j <= p + i64::from(right));
    let asked = |j: usize| mask.is_none_or(|mask| mask[[i, j]]);
    (0..tk).filter(|&j| causal(j as i64) && left(j as i64) && right(j as i64) && asked(j)).collect()
}

/// The ALiBi bias on the score of key `j` for query head `h` at position `p`; 0 without ALiBi.
pub(crate) fn alibi_bias(spec: &Spec, h: usize, p: i64, j: usize) -> f64 {
    spec.slopes().map_or(0.0, |slopes| f64::from(slopes[h]) * alibi_distance(spec, p, j) as f64)
}

/// What the ALiBi slope is multiplied with for key `j` and a query at position `p`.
pub(crate) fn alibi_distance(spec: &Spec, p: i64, j: usize) -> i64 {
    let j = j as i64;
    match (spec.profile().alibi_origin, spec.profile().causal) {
        (AlibiOrigin::Absolute, _) => j,
        (AlibiOrigin::Query, Causal::None) => -(p - j).abs(),
        (AlibiOrigin::Query, Causal::BottomRight | Causal::TopLeft) => j - p,
    }
}
