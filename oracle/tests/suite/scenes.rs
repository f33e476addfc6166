//! Batches for hypotheses of diagnosis: small, ragged, and each rich in things that can go wrong.

use attnproof_oracle::{
    Alibi, Answer, Bounds, Causal, Elem, Granularity, Model, Profile, Row, Saturate, Scale, Shape, Spec,
    Window, bounds,
    fault::{Scene, SceneRow},
};
use ndarray::{Array2, Array3, s};

use attnproof_oracle::simulate::Rng;

/// One row that owns its tensors.
pub(crate) struct OwnedRow {
    pub(crate) q: Array3<f64>,
    pub(crate) k: Array3<f64>,
    pub(crate) v: Array3<f64>,
    codes: [Array3<u32>; 2],
    pub(crate) scales: [Array2<f64>; 2],
}

impl OwnedRow {
    fn view(&self) -> SceneRow<'_> {
        SceneRow {
            q: self.q.view(),
            k: self.k.view(),
            v: self.v.view(),
            k_codes: Some(self.codes[0].view()),
            v_codes: Some(self.codes[1].view()),
            k_scales: Some(self.scales[0].view()),
            v_scales: Some(self.scales[1].view()),
            pieces: Vec::new(),
        }
    }
}

/// A batch that owns its tensors.
pub(crate) struct Batch {
    pub(crate) spec: Spec,
    pub(crate) rows: Vec<OwnedRow>,
    pub(crate) elem: Elem,
    pub(crate) scaled: Granularity,
}

/// Sizes and loudness of a batch.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) shape: Shape,
    pub(crate) profile: Profile,
    /// Query tokens and keys of each row.
    pub(crate) rows: Vec<(usize, usize)>,
    pub(crate) elem: Elem,
    pub(crate) scaled: Granularity,
    /// Standard deviations of Q, K and V.
    pub(crate) loud: [f64; 3],
    /// V of the first keys of each row is so many times as loud.
    pub(crate) old_v: (usize, f64),
    /// So many first keys are the same in rows 0 and 1.
    pub(crate) shared: usize,
}

impl Default for Recipe {
    fn default() -> Recipe {
        Recipe {
            shape: Shape { q_heads: 6, kv_heads: 2, d: 40, dv: 16 },
            profile: Profile::default(),
            rows: vec![(3, 60), (1, 47), (2, 17)],
            elem: Elem::F32,
            scaled: Granularity::None,
            loud: [1.0; 3],
            old_v: (0, 1.0),
            shared: 0,
        }
    }
}

impl Recipe {
    pub(crate) fn batch(&self, seed: u64) -> Batch {
        let mut rng = Rng(seed);
        let Shape { q_heads, kv_heads, d, dv } = self.shape;
        let mut rows: Vec<OwnedRow> = Vec::new();
        for &(tokens, keys) in &self.rows {
            let mut tensor = |shape, loud: f64| {
                Array3::from_shape_simple_fn(shape, || f64::from((loud * rng.normal()) as f32))
            };
            let q = tensor((tokens, q_heads, d), self.loud[0]);
            let mut k = tensor((keys, kv_heads, d), self.loud[1]);
            let mut v = tensor((keys, kv_heads, dv), self.loud[2]);
            v.slice_mut(s![..self.old_v.0.min(keys), .., ..])
                .mapv_inplace(|v| f64::from((v * self.old_v.1) as f32));
            if let Some(first) = rows.first()
                && rows.len() == 1
            {
                let shared = self.shared.min(keys);
                k.slice_mut(s![..shared, .., ..]).assign(&first.k.slice(s![..shared, .., ..]));
                v.slice_mut(s![..shared, .., ..]).assign(&first.v.slice(s![..shared, .., ..]));
            }
            let (k, k_codes, k_scales) = self.stored(&k);
            let (v, v_codes, v_scales) = self.stored(&v);
            rows.push(OwnedRow { q, k, v, codes: [k_codes, v_codes], scales: [k_scales, v_scales] });
        }
        let spec = Spec::new(self.shape, self.profile.clone()).expect("fits");
        Batch { spec, rows, elem: self.elem, scaled: self.scaled }
    }

    /// A tensor as the format holds it: values, codes, scales per token and KV head.
    fn stored(&self, tensor: &Array3<f64>) -> (Array3<f64>, Array3<u32>, Array2<f64>) {
        let (keys, heads, _) = tensor.dim();
        let scales = Array2::from_shape_fn((keys, heads), |(j, kv)| {
            let most = tensor.slice(s![j, kv, ..]).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            if self.scaled == Granularity::None {
                1.0
            } else {
                f64::from((most / self.elem.max_finite()) as f32)
            }
        });
        let codes = Array3::from_shape_fn(tensor.dim(), |(j, kv, c)| {
            self.elem.encode(tensor[[j, kv, c]] / scales[[j, kv]], Saturate::Finite)
        });
        let values = Array3::from_shape_fn(tensor.dim(), |(j, kv, c)| {
            self.elem.decode(codes[[j, kv, c]]) * scales[[j, kv]]
        });
        (values, codes, scales)
    }
}

impl Batch {
    /// Blocks of 4, tiles of 8, splits of 24.
    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene {
            spec: &self.spec,
            rows: self.rows.iter().map(OwnedRow::view).collect(),
            elem: self.elem,
            block_size: 4,
            tile: 8,
            split_tokens: 24,
            splits: 4,
            pairs_per_workgroup: 16,
            heads_per_workgroup: self.spec.shape().group(),
            whole_blocks: false,
            k_granularity: self.scaled,
            v_granularity: self.scaled,
        }
    }

    /// The right answer and its bounds for each row.
    pub(crate) fn right(&self) -> (Vec<Answer>, Vec<Bounds>) {
        let row = |row: &OwnedRow| {
            let row = Row { q: row.q.view(), k: row.k.view(), v: row.v.view(), mask: None };
            bounds(&self.spec, &row, &Model::strict()).expect("fits")
        };
        self.rows.iter().map(row).unzip()
    }
}

/// The batches in which faults are looked for, the richest first.
pub(crate) fn batches() -> Vec<(&'static str, Batch)> {
    let window = |keys: u32| Window { left: Some(keys - 1), right: Some(0) };
    let rich = Recipe {
        profile: Profile {
            scale: Scale::Explicit(0.3),
            window: window(21),
            alibi: Alibi::Formula,
            softcap: Some(1.5),
            sinks: Some(vec![0.5, 1.0, -0.5, 0.3, 0.8, 0.1]),
            ..Profile::default()
        },
        elem: Elem::E4m3fn,
        scaled: Granularity::Token,
        ..Recipe::default()
    };
    let causal = |causal| Recipe {
        profile: Profile { causal, alibi: Alibi::Formula, ..Profile::default() },
        shared: 20,
        elem: Elem::Int8,
        scaled: Granularity::Token,
        ..Recipe::default()
    };
    let format = |elem, scaled| Recipe { elem, scaled, ..Recipe::default() };
    let loud = |scale, loud| Recipe {
        profile: Profile { scale: Scale::Explicit(scale), ..Profile::default() },
        loud,
        ..Recipe::default()
    };
    let recipes = [
        ("rich", rich),
        ("top left", causal(Causal::TopLeft)),
        ("not causal", causal(Causal::None)),
        ("bottom right", causal(Causal::BottomRight)),
        ("e5m2", format(Elem::E5m2, Granularity::None)),
        ("e4m3fnuz", format(Elem::E4m3fnuz, Granularity::None)),
        ("e5m2fnuz", format(Elem::E5m2fnuz, Granularity::None)),
        ("small f16", Recipe { loud: [1.0, 1.0, 1e-4], ..format(Elem::F16, Granularity::None) }),
        (
            "wide heads",
            Recipe { shape: Shape { q_heads: 2, kv_heads: 2, d: 160, dv: 4 }, ..Recipe::default() },
        ),
        ("loud scores", loud(8.0, [1.0, 2.0, 1.0])),
        ("louder dots", loud(1e-5, [200.0, 100.0, 1.0])),
        (
            "low cap",
            Recipe { profile: Profile { softcap: Some(0.02), ..Profile::default() }, ..Recipe::default() },
        ),
        (
            "loud past",
            Recipe {
                profile: Profile { window: window(4), ..Profile::default() },
                rows: vec![(3, 9), (1, 12)],
                old_v: (4, 1e5),
                ..Recipe::default()
            },
        ),
        ("more queries than keys", Recipe { rows: vec![(5, 3), (1, 9)], ..Recipe::default() }),
    ];
    recipes.into_iter().map(|(name, recipe)| (name, recipe.batch(name.len() as u64))).collect()
}
