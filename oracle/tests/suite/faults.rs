//! Hypotheses of diagnosis: the evaluator is right where nothing is wrong, every fault of the vocabulary is named from
//! its outputs, and what is not in the library is not explained.

use attnproof_oracle::{
    Answer, Bounds, HeadMap, OutType, Profile, Row, Scale, Shape, Spec, Window, attention,
    fault::{Scene, SceneRow, hypotheses, predict, rank},
};
use ndarray::Array3;
use proptest::prelude::*;

use crate::{
    inputs::{Rng, fixed, sequences},
    scenes::{Batch, Recipe, batches},
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
    f16-dot-unscaled-overflow p-bf16 max-frozen not-normalised one-head-of-one-row";

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

/// Whether the fault is named from its own prediction: `None` where it shows in nothing.
fn named(batch: &Batch, id: &str) -> Option<Result<(), String>> {
    let scene = batch.scene();
    let bounds = batch.right().1;
    let mut shown = None;
    for hypothesis in hypotheses(&scene).iter().filter(|hypothesis| hypothesis.id == id) {
        let predicted = predict(&scene, hypothesis);
        let fits = rank(&scene, &returned(&predicted, &bounds, 5), &bounds);
        let best = fits.first().filter(|fit| fit.id.split(" or ").any(|name| name == id) && fit.used <= 1.0);
        if best.is_some() {
            return Some(Ok(()));
        }
        if fits.iter().any(|fit| fit.id.split(" or ").any(|name| name == id)) {
            let top: Vec<String> =
                fits.iter().take(3).map(|fit| format!("{} {:.3}", fit.id, fit.used)).collect();
            let own = fits.iter().find(|fit| fit.id.contains(id)).map_or(f64::NAN, |fit| fit.used);
            shown = Some(Err(format!("{id} uses {own}; best: {top:?}")));
        }
    }
    shown
}

#[test]
fn every_fault_of_the_vocabulary_is_named_from_its_outputs() {
    let batches = batches();
    let mut wrong = Vec::new();
    for id in VOCABULARY.split_whitespace() {
        if UNTOLD.iter().any(|(untold, _)| *untold == id) {
            continue;
        }
        let found = batches.iter().find_map(|(name, batch)| Some((name, named(batch, id)?)));
        match found {
            None => wrong.push(format!("{id} shows nowhere")),
            Some((name, Err(error))) => wrong.push(format!("{name}: {error}")),
            Some((_, Ok(()))) => {}
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
