//! Queries of the hostile and random families.

use attnproof_oracle::Granularity;
use ndarray::ArrayView2;

use super::{Place, steered};
use crate::fill::{DEEP_KEY, FillKind, LEVEL_KEY, RAMP, Tensor, loudest};
use crate::hash;

/// Every score of [`FillKind::Deep`], in nats.
pub(super) const DEEP: f64 = -20_000.0;
/// Factor on the scores of [`FillKind::Loud`].
const LOUD: f64 = 30.0;
/// Score in nats of the target of [`FillKind::Dominant`].
const DOMINANT: f64 = 40.0;
/// Scores of [`FillKind::Ascending`] and [`FillKind::Descending`] from the first to the last visible key, in nats.
const CLIMB: f64 = 24.0;
/// Half the distance of the two scores of [`FillKind::TwoLevel`], in nats.
const LEVEL: f64 = 5.0;
/// Factor on queries whose scores matter less than something else.
const QUIET: f64 = 1.0 / 16.0;

/// The query, rounded to f32, and its target if it has one.
pub(super) fn query(place: &Place<'_>, k: &ArrayView2<'_, f64>) -> (Vec<f32>, Option<usize>) {
    let case = place.case;
    let d = case.shape.d;
    let scale = f64::from(case.scale);
    let normal = |dim: usize| hash::normal(place.key, dim as u64);
    let climb = || {
        let steps = place.visible.len().saturating_sub(1).max(1) as f64;
        let sign = if case.fill == FillKind::Ascending { 1.0 } else { -1.0 };
        sign * CLIMB * RAMP as f64 / steps / scale
    };
    let target = if case.fill == FillKind::Dominant { place.any_key(0) } else { None };
    let q: Vec<f64> = match case.fill {
        FillKind::Dominant => {
            let keys: Vec<usize> = target.into_iter().collect();
            let scores = vec![DOMINANT; keys.len()];
            let aimed = steered(k, &keys, &scores, scale);
            aimed.iter().enumerate().map(|(dim, x)| x + QUIET * normal(dim)).collect()
        }
        FillKind::Loud => (0..d).map(|dim| LOUD * normal(dim)).collect(),
        FillKind::Cancel => (0..d).map(|dim| QUIET * normal(dim)).collect(),
        FillKind::Extreme => {
            let loudest = loudest(case.kv, Tensor::K, case.k_scale != Granularity::None);
            (0..d).map(|dim| normal(dim) / loudest).collect()
        }
        FillKind::Ascending | FillKind::Descending => (0..d)
            .map(|dim| match dim {
                0 => climb(),
                1 => climb() * RAMP as f64,
                _ => QUIET * normal(dim),
            })
            .collect(),
        FillKind::TwoLevel => {
            (0..d).map(|dim| if dim == 0 { LEVEL / LEVEL_KEY / scale } else { QUIET * normal(dim) }).collect()
        }
        FillKind::Deep => {
            let constant = DEEP / scale / (DEEP_KEY * (d / 2) as f64);
            (0..d).map(|dim| if dim < d / 2 { constant } else { normal(dim) }).collect()
        }
        _ => (0..d).map(normal).collect(),
    };
    (q.into_iter().map(|x| x as f32).collect(), target)
}
