//! Hypotheses of diagnosis: the evaluator is right where nothing is wrong, every fault of the vocabulary is named from
//! its outputs, and what is not in the library is not explained.

use attnproof_oracle::{
    Alibi, AlibiOrigin, Answer, BiasOrder, Bounds, Causal, Elem, Granularity, HeadMap, LseBase, OutType,
    Profile, Row, Scale, Shape, Spec, Window, attention,
    fault::{Fit, Hypothesis, Scene, SceneRow, hypotheses, predict, rank},
    simulate::Rng,
};
use ndarray::{Array2, Array3, Axis};
use proptest::prelude::*;

use crate::{
    inputs::{Sequence, fixed, sequences},
    scenes::{Batch, OwnedRow, Recipe, batches},
};

/// The faults that change numbers.
const VOCABULARY: &str = "window-plus-one window-minus-one window-ignored window-block-floor window-tile-floor \
    window-of-previous-token window-first-token-ignored causal-top-left causal-bottom-right causal-plus-one \
    causal-minus-one causal-ignored causal-imposed causal-offset-twice position-block-floor \
    position-from-longest-row length-from-longest-row head-mod head-k-mod head-v-mod head-div-kv head-zero \
    head-next head-shift alibi-ignored alibi-ignored-in-decode alibi-next-head alibi-power-of-two \
    alibi-exponent-shift alibi-sign alibi-origin alibi-by-kv-head alibi-times-scale alibi-physical scale-missing \
    scale-squared scale-doubled scale-one-percent scale-per-mille scale-padded-dim scale-default scale-log2e \
    softcap-ignored softcap-after-mask softcap-clamp softcap-twice softcap-x-tanh softcap-before-scale \
    softcap-other-order softcap-tanh-overflow sink-ignored sink-scaled sink-twice sink-per-split sink-next-head \
    sink-not-in-lse sink-capped fn-as-fnuz fnuz-as-fn e5m2-as-e4m3 e4m3-as-e5m2 e5m2fnuz-as-e5m2 \
    fp8-subnormals-flushed f16-subnormals-flushed saturation-as-nan int8-unsigned f16-as-bf16 kscale-for-v \
    vscale-for-k kscale-ignored vscale-ignored kvscale-divided kvscale-head-zero kvscale-by-query-head \
    kvscale-logical kvscale-of-first-token kvscale-missing-in-prefix drop-last-token drop-first-token \
    drop-middle-token drop-last-block drop-first-block duplicate-middle-token v-of-next-token v-shifted \
    one-past-end blocks-swapped neighbours-table head-dim-32 head-dim-128 half-tile tile-tail-of-one \
    v-page-not-advanced masked-weight-small sentinel-1e4 empty-split-weight-one merge-no-weights merge-base2 \
    merge-drops-last merge-first-two merge-without-max lse-base2 lse-without-max lse-of-last-part split-gap \
    split-overlap prefix-part-dropped no-rescale-acc no-rescale-sum no-rescale f16-accumulator f16-dot \
    f16-dot-unscaled-overflow p-bf16 max-frozen not-normalised one-head-of-one-row \
    empty-row-nan empty-row-plus-inf empty-row-zero-lse";

/// Those that logical data cannot tell, with the reason.
const UNTOLD: [(&str, &str); 4] = [
    ("length-from-longest-row", "reads slots past the end of a row"),
    ("one-past-end", "reads a slot past the end of a row"),
    ("alibi-physical", "depends on physical slots"),
    ("kvscale-logical", "depends on physical slots"),
];

/// What a kernel with this exact answer returns: f32, and off by up to a tenth of the bound.
fn returned(answers: &[Answer], bounds: &[Bounds], seed: u64) -> Vec<Answer> {
    let mut rng = Rng(seed);
    let mut noisy = |x: f64, bound: f64| f64::from((x + 0.2 * bound * (rng.unit() - 0.5)) as f32);
    let mut answers = answers.to_vec();
    for (answer, bounds) in answers.iter_mut().zip(bounds) {
        answer.o.zip_mut_with(&bounds.o, |o, &bound| *o = noisy(*o, bound));
        answer.lse.zip_mut_with(&bounds.lse, |lse, &bound| *lse = noisy(*lse, bound));
    }
    answers
}

/// A batch with what all its faults share.
struct Stage<'a> {
    name: &'static str,
    scene: Scene<'a>,
    bounds: Vec<Bounds>,
    hypotheses: Vec<Hypothesis>,
}

impl<'a> Stage<'a> {
    fn new(name: &'static str, batch: &'a Batch) -> Stage<'a> {
        let scene = batch.scene();
        let hypotheses = hypotheses(&scene);
        Stage { name, scene, bounds: batch.right().1, hypotheses }
    }

    fn fits(&self, hypothesis: &Hypothesis) -> Vec<Fit> {
        let predicted = predict(&self.scene, hypothesis);
        rank(&self.scene, &returned(&predicted, &self.bounds, 5), &self.bounds)
    }

    /// Whether a fault is named from its own prediction: `None` where it shows in nothing.
    fn named(&self, id: &str) -> Option<Result<(), String>> {
        let mut shown = None;
        for hypothesis in self.hypotheses.iter().filter(|hypothesis| hypothesis.id == id) {
            let fits = self.fits(hypothesis);
            let own = fits.iter().position(|fit| fit.id.split(" or ").any(|name| name == id));
            match own {
                Some(0) if fits[0].used <= 1.0 => return Some(Ok(())),
                None => {}
                Some(place) => {
                    let of = |fit: &Fit| format!("{} {:.3}", fit.id, fit.used);
                    let error = format!("{}: {}; best {}", self.name, of(&fits[place]), of(&fits[0]));
                    shown = Some(Err(error));
                }
            }
        }
        shown
    }
}

#[test]
fn every_fault_of_the_vocabulary_is_named_from_its_outputs() {
    let batches = batches();
    let stages: Vec<Stage> = batches.iter().map(|(name, batch)| Stage::new(name, batch)).collect();
    let mut wrong = Vec::new();
    for id in VOCABULARY.split_whitespace() {
        if UNTOLD.iter().any(|(untold, _)| *untold == id) {
            continue;
        }
        match stages.iter().find_map(|stage| stage.named(id)) {
            None => wrong.push(format!("{id} shows nowhere")),
            Some(Err(error)) => wrong.push(format!("{id} in {error}")),
            Some(Ok(())) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_cannot_be_told_has_no_hypothesis() {
    for (name, batch) in batches() {
        for hypothesis in hypotheses(&batch.scene()) {
            let untold = UNTOLD.iter().any(|(id, _)| *id == hypothesis.id);
            assert!(!untold, "{name}: {}", hypothesis.id);
        }
    }
}

/// The answers of the reference, for a spec of its own and with rows changed at will.
fn reference(batch: &Batch, spec: &Spec, change: impl Fn(&mut Sequence)) -> Vec<Answer> {
    let answer = |row: &OwnedRow| {
        let (q, k, v) = (row.q.clone(), row.k.clone(), row.v.clone());
        let mut sequence = Sequence { spec: spec.clone(), q, k, v, mask: None };
        change(&mut sequence);
        attention(spec, &sequence.row()).expect("fits")
    };
    batch.rows.iter().map(answer).collect()
}

fn close(a: &[Answer], b: &[Answer]) -> bool {
    let near = |(a, b): (&f64, &f64)| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
    };
    a.iter().zip(b).all(|(a, b)| a.o.iter().zip(&b.o).all(near) && a.lse.iter().zip(&b.lse).all(near))
}

proptest! {
    #![proptest_config(fixed(60))]

    /// A kernel that differs only in what cannot matter here returns the right answer.
    #[test]
    fn the_evaluator_is_right_where_nothing_is_wrong(sequence in sequences(), split in 1..20_usize, tile in 1..9_usize) {
        let spec = &sequence.spec;
        let row = SceneRow {
            q: sequence.q.view(), k: sequence.k.view(), v: sequence.v.view(),
            k_codes: None, v_codes: None, k_scales: None, v_scales: None, pieces: Vec::new(),
        };
        let scene = Scene {
            spec, rows: vec![row.clone(), row], elem: Elem::F32, block_size: 4, tile, split_tokens: split,
            splits: 41_usize.div_ceil(split),
            pairs_per_workgroup: 3, heads_per_workgroup: 1, whole_blocks: false, k_granularity: Granularity::None, v_granularity: Granularity::None,
        };
        let right = attention(spec, &Row { mask: None, ..sequence.row() }).expect("fits");
        // Two equal rows: to read the keys of the next one is no fault.
        let harmless = hypotheses(&scene).into_iter().all(|hypothesis| hypothesis.id != "neighbours-table");
        prop_assert!(harmless);
        let one_row = Scene { rows: scene.rows[..1].to_vec(), ..scene.clone() };
        for hypothesis in hypotheses(&one_row).iter().filter(|hypothesis| hypothesis.id == "drop-key") {
            let j: usize = hypothesis.says.split(' ').nth(1).expect("a key").parse().expect("a number");
            let mut mask = Array2::from_elem((sequence.q.dim().0, sequence.k.dim().0), true);
            mask.column_mut(j).fill(false);
            let wrong = attention(spec, &Row { mask: Some(mask.view()), ..sequence.row() }).expect("fits");
            prop_assert!(close(&predict(&one_row, hypothesis), &[wrong]), "{}", hypothesis.says);
        }
        let unchanged = rank(&scene, &[right.clone(), right], &[free(&sequence), free(&sequence)]);
        prop_assert!(unchanged.iter().all(|fit| fit.used > 0.0));
    }
}

/// Bounds of next to nothing.
fn free(sequence: &Sequence) -> Bounds {
    let (tokens, heads) = (sequence.q.dim().0, sequence.spec.shape().q_heads);
    Bounds {
        o: Array3::from_elem((tokens, heads, sequence.spec.shape().dv), 1e-9),
        lse: Array2::from_elem((tokens, heads), 1e-9),
        ok: Array2::from_elem((tokens, heads), true),
    }
}

#[test]
fn predictions_are_those_of_the_reference_with_another_profile_or_other_keys() {
    let recipe = |profile| Recipe { profile, ..Recipe::default() };
    let rich = batches().remove(0).1.spec.profile().clone();
    let batch = recipe(rich.clone()).batch(3);
    let scene = batch.scene();
    let mut wider = rich.clone();
    wider.window.left = wider.window.left.map(|left| left + 1);
    let twice = match rich.scale {
        Scale::Explicit(scale) => Scale::Explicit(2.0 * scale),
        Scale::InvSqrtD => Scale::InvSqrtD,
    };
    let mut next_sinks = rich.sinks.clone().expect("sinks");
    next_sinks.rotate_left(1);
    let profiles = [
        ("window-plus-one", wider),
        ("window-ignored", Profile { window: Window::default(), ..rich.clone() }),
        ("softcap-ignored", Profile { softcap: None, ..rich.clone() }),
        ("alibi-ignored", Profile { alibi: Alibi::None, ..rich.clone() }),
        ("alibi-origin", Profile { alibi_origin: AlibiOrigin::Absolute, ..rich.clone() }),
        ("softcap-other-order", Profile { bias_order: BiasOrder::AlibiThenCap, ..rich.clone() }),
        ("causal-top-left", Profile { causal: Causal::TopLeft, ..rich.clone() }),
        ("lse-base2", Profile { lse_base: LseBase::Two, ..rich.clone() }),
        ("sink-ignored", Profile { sinks: None, ..rich.clone() }),
        ("sink-next-head", Profile { sinks: Some(next_sinks), ..rich.clone() }),
        ("head-mod", Profile { head_map: HeadMap::Modulo, ..rich.clone() }),
        ("scale-doubled", Profile { scale: twice, ..rich.clone() }),
    ];
    let list = hypotheses(&scene);
    let prediction = |id: &str| {
        let hypothesis = list.iter().find(|hypothesis| hypothesis.id == id);
        predict(&scene, hypothesis.unwrap_or_else(|| panic!("{id} is not listed")))
    };
    for (id, profile) in profiles {
        let spec = Spec::new(*batch.spec.shape(), profile).expect("fits");
        assert!(close(&prediction(id), &reference(&batch, &spec, |_| ())), "{id}");
    }
    let shifted = reference(&batch, &batch.spec, |row| {
        let keys: Vec<usize> = (0..row.v.dim().0).map(|j: usize| j.saturating_sub(1)).collect();
        row.v = row.v.select(Axis(0), &keys);
    });
    assert!(close(&prediction("v-shifted"), &shifted));
    let swapped = reference(&batch, &batch.spec, |row| {
        let keys: Vec<usize> = (0..row.k.dim().0).map(|j| if j < 8 { (j + 4) % 8 } else { j }).collect();
        (row.k, row.v) = (row.k.select(Axis(0), &keys), row.v.select(Axis(0), &keys));
    });
    assert!(close(&prediction("blocks-swapped"), &swapped));
}

#[test]
fn predictions_are_those_of_the_reference_with_other_heads_scales_or_masks() {
    let batch = Recipe { elem: Elem::Int8, scaled: Granularity::Token, ..Recipe::default() }.batch(4);
    let scene = batch.scene();
    let list = hypotheses(&scene);
    let check = |id: &str, change: &dyn Fn(&mut Sequence, &OwnedRow)| {
        let hypothesis = list.iter().find(|hypothesis| hypothesis.id == id).expect("listed");
        for (row, predicted) in batch.rows.iter().zip(predict(&scene, hypothesis)) {
            let (q, k, v) = (row.q.clone(), row.k.clone(), row.v.clone());
            let mut sequence = Sequence { spec: batch.spec.clone(), q, k, v, mask: None };
            change(&mut sequence, row);
            let wrong = attention(&batch.spec, &sequence.row()).expect("fits");
            assert!(close(&[predicted], &[wrong]), "{id}");
        }
    };
    let heads = |row: &mut Sequence, heads: [usize; 2]| {
        (row.k, row.v) = (row.k.select(Axis(1), &heads), row.v.select(Axis(1), &heads));
    };
    check("head-zero", &|row, _| heads(row, [0, 0]));
    check("head-next", &|row, _| heads(row, [1, 0]));
    let scale = |tensor: &mut Array3<f64>, factors: &Array2<f64>| {
        *tensor *= &factors.view().insert_axis(Axis(2));
    };
    check("kscale-ignored", &|row, owned| scale(&mut row.k, &owned.scales[0].mapv(f64::recip)));
    check("vscale-ignored", &|row, owned| scale(&mut row.v, &owned.scales[1].mapv(f64::recip)));
    check("kscale-for-v", &|row, owned| scale(&mut row.v, &(&owned.scales[0] / &owned.scales[1])));
    let keep = |row: &mut Sequence, kept: &dyn Fn(usize, usize) -> bool| {
        let (tokens, len) = (row.q.dim().0, row.k.dim().0);
        row.mask = Some(Array2::from_shape_fn((tokens, len), |(_, j)| kept(j, len)));
    };
    check("drop-last-block", &|row, _| keep(row, &|j, len| j < (len - 1) / 4 * 4));
    check("half-tile", &|row, _| keep(row, &|j, _| j % 24 % 8 < 4));
    check("tile-tail-of-one", &|row, _| keep(row, &|j, len| j + 1 < len || j % 24 % 8 > 0));
    check("merge-drops-last", &|row, _| keep(row, &|j, len| j < (len - 1) / 24 * 24));
    check("merge-first-two", &|row, _| keep(row, &|j, _| j < 48));
}

#[test]
fn a_right_kernel_is_nearer_to_the_right_answer_than_to_any_fault() {
    for (name, batch) in batches() {
        let (answers, bounds) = batch.right();
        let fits = rank(&batch.scene(), &returned(&answers, &bounds, 9), &bounds);
        assert!(!fits.is_empty());
        for fit in fits {
            assert!(fit.used > 0.4, "{name}: {} uses {}", fit.id, fit.used);
        }
    }
}

#[test]
fn what_is_not_in_the_library_is_not_explained() {
    let batch = batches().remove(0).1;
    let (answers, bounds) = batch.right();
    let mut noise = answers.clone();
    let mut rng = Rng(11);
    for answer in &mut noise {
        answer.o.mapv_inplace(|o| o + 0.01 * rng.normal());
    }
    let mut both = batch.spec.profile().clone();
    both.window.left = both.window.left.map(|left| left - 1);
    both.sinks = None;
    let both = reference(&batch, &Spec::new(*batch.spec.shape(), both).expect("fits"), |_| ());
    for unknown in [noise, both] {
        let fits = rank(&batch.scene(), &unknown, &bounds);
        assert!(fits[0].used > 30.0, "{} uses {}", fits[0].id, fits[0].used);
    }
}

#[test]
fn parameters_are_found() {
    let batch = Recipe { rows: vec![(2, 90), (1, 70)], ..Recipe::default() }.batch(21);
    let stage = Stage::new("plain", &batch);
    let first = |id: &str, says: &str| {
        let hypothesis =
            stage.hypotheses.iter().find(|hypothesis| hypothesis.id == id && hypothesis.says == says);
        stage.fits(hypothesis.expect("listed")).remove(0)
    };
    for (id, says) in [
        ("drop-key", "key 37 is left out"),
        ("drop-key", "key 37 is left out in row 1"),
        ("duplicate-key", "key 11 counts twice in row 0"),
        ("v-of-next-key", "V of key 50 is that of key 51"),
        ("drop-block", "block 9 is left out"),
        ("drop-tile", "tile 1 of split 2 is left out in row 0"),
        ("drop-split", "split 1 is left out"),
    ] {
        let fit = first(id, says);
        assert!(fit.used < 1.0 && fit.id == id && fit.says == says, "{says}: {fit:?}");
    }
    let scale = batch.spec.scale() * 0.983;
    let profile = Profile { scale: Scale::Explicit(scale as f32), ..Profile::default() };
    let scaled = reference(&batch, &Spec::new(*batch.spec.shape(), profile).expect("fits"), |_| ());
    let fit = rank(&stage.scene, &returned(&scaled, &stage.bounds, 2), &stage.bounds).remove(0);
    assert!(fit.id == "scale-factor" && fit.used < 1.0 && fit.says.contains("times 0.98"), "{fit:?}");
}

#[test]
fn sixteen_bit_outputs_are_explained_too() {
    for out in [OutType::F16, OutType::Bf16] {
        let profile = Profile { out, ..batches().remove(0).1.spec.profile().clone() };
        let batch = Recipe { profile, ..Recipe::default() }.batch(13);
        let stage = Stage::new("16 bits", &batch);
        for id in ["window-plus-one", "sink-twice", "softcap-twice", "drop-middle-token"] {
            let hypothesis = stage.hypotheses.iter().find(|hypothesis| hypothesis.id == id).expect("listed");
            let mut got = predict(&stage.scene, hypothesis);
            for answer in &mut got {
                answer.o.mapv_inplace(|o| out.round(o));
            }
            let fit = rank(&stage.scene, &got, &stage.bounds).remove(0);
            assert!(fit.id.contains(id) && fit.used <= 1.0, "{id}: {fit:?}");
        }
    }
}

#[test]
fn a_batch_is_explained_in_a_moment() {
    let shape = Shape { q_heads: 8, kv_heads: 2, d: 64, dv: 64 };
    let profile = batches().remove(0).1.spec.profile().clone();
    let profile = Profile { sinks: Some(vec![0.5; 8]), ..profile };
    let recipe = Recipe { shape, profile, rows: vec![(1, 60); 4], ..Recipe::default() };
    let batch = Recipe { elem: Elem::E4m3fn, scaled: Granularity::Token, ..recipe }.batch(1);
    let (answers, bounds) = batch.right();
    let start = std::time::Instant::now();
    let fits = rank(&batch.scene(), &answers, &bounds);
    let took = start.elapsed();
    println!("{} fits in {took:?}", fits.len());
    assert!(fits.len() > 60 && took.as_secs() < 5, "{} fits in {took:?}", fits.len());
}
