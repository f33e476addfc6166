//! Tensors as a kernel reads them, and what all predictions of a row share.

use ndarray::{Array2, Array3, ArrayView3, Axis, CowArray, Ix3, s};

use super::{Scene, SceneRow, tweaks::Decode};
use crate::{
    elem::{Elem, Saturate},
    rule::kv_head,
};

/// What all predictions of one row share.
pub(super) struct Known {
    /// `q . k`, `[query token, q head, key]`, with the right head map and codes.
    pub(super) dots: Array3<f64>,
    /// The length of each query, `[query token, q head]`.
    pub(super) q: Array2<f64>,
    pub(super) sizes: Sizes,
}

/// How large keys and values are, `[key, kv head]`.
#[derive(Clone)]
pub(super) struct Sizes {
    /// Euclidean lengths of the keys.
    pub(super) k: Array2<f64>,
    /// Largest elements of the values.
    pub(super) v: Array2<f64>,
}

impl Sizes {
    pub(super) fn of(k: &ArrayView3<'_, f64>, v: &ArrayView3<'_, f64>) -> Sizes {
        let most = |most: f64, v: &f64| if v.abs() > most { v.abs() } else { most };
        Sizes { k: lengths(k), v: v.map_axis(Axis(2), |v| v.iter().fold(0.0, most)) }
    }
}

fn lengths(x: &ArrayView3<'_, f64>) -> Array2<f64> {
    x.map_axis(Axis(2), |x| x.dot(&x).sqrt())
}

/// What predictions of each row share.
pub(super) fn known(scene: &Scene<'_>) -> Vec<Known> {
    let known = |row: &SceneRow<'_>| {
        let (tokens, heads, _) = row.q.dim();
        let dots = Array3::from_shape_fn((tokens, heads, row.k.dim().0), |(i, h, j)| {
            row.q.slice(s![i, h, ..]).dot(&row.k.slice(s![j, kv_head(scene.spec, h), ..]))
        });
        Known { dots, q: lengths(&row.q), sizes: Sizes::of(&row.k, &row.v) }
    };
    scene.rows.iter().map(known).collect()
}

/// A tensor as its codes are read.
pub(super) fn decoded<'a>(
    decode: Decode,
    elem: Elem,
    right: &ArrayView3<'a, f64>,
    codes: Option<ArrayView3<'a, u32>>,
    scale: impl Fn(usize, usize) -> f64,
) -> CowArray<'a, f64, Ix3> {
    let Some(codes) = codes.filter(|_| decode != Decode::Declared) else { return (*right).into() };
    let largest = elem.encode(elem.max_finite(), Saturate::Finite);
    let smallest_normal = match elem {
        Elem::F16 | Elem::E5m2 => 1.0 / 16_384.0,
        Elem::E5m2fnuz => 1.0 / 32_768.0,
        Elem::E4m3fn => 1.0 / 64.0,
        Elem::E4m3fnuz => 1.0 / 128.0,
        Elem::F32 | Elem::Bf16 | Elem::Int8 => 0.0,
    };
    let value = |code: u32| {
        let value = elem.decode(code);
        match decode {
            Decode::As(other) => other.decode(code),
            Decode::SubnormalsFlushed if value.abs() < smallest_normal => 0.0,
            Decode::LargestIsNan if value.abs() == elem.decode(largest) => f64::NAN,
            Decode::Declared | Decode::SubnormalsFlushed | Decode::LargestIsNan => value,
            Decode::Unsigned => f64::from(code & 0xFF),
        }
    };
    let dim = codes.dim();
    Array3::from_shape_fn(dim, |(j, kv, c)| value(codes[[j, kv, c]]) * scale(j, kv)).into()
}
