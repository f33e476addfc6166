//! Hypotheses under the schedule of a real kernel: pieces of a row, parts that rows share, workgroups; and how much of the
//! rounding of a wrong kernel they forgive.

use attnproof_oracle::{
    Answer, Profile, Row, Scale, Window, attention,
    fault::{Piece, Scene, hypotheses, predict, rank},
};
use ndarray::{Array1, Array2, s};

use crate::scenes::{Batch, OwnedRow, Recipe};

/// Blocks of 4, tiles of 8, splits of 24.
const TILE: usize = 8;
const SPLIT: usize = 24;

/// The answer of the reference where token `i` of a row of `len` keys counts only the keys that `kept(i, j, len)` gives.
fn masked(batch: &Batch, kept: impl Fn(usize, usize, usize) -> bool) -> Vec<Answer> {
    let answer = |row: &OwnedRow| {
        let (tokens, len) = (row.q.dim().0, row.k.dim().0);
        let mask = Array2::from_shape_fn((tokens, len), |(i, j)| kept(i, j, len));
        let (q, k, v) = (row.q.view(), row.k.view(), row.v.view());
        attention(&batch.spec, &Row { q, k, v, mask: Some(mask.view()) }).expect("fits")
    };
    batch.rows.iter().map(answer).collect()
}

/// Whether one of the predictions of `id` is `want`.
fn predicts(scene: &Scene<'_>, id: &str, want: &[Answer]) -> bool {
    let near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs());
    let close = |got: &[Answer]| {
        got.iter()
            .zip(want)
            .all(|(a, b)| a.o.iter().zip(&b.o).all(near) && a.lse.iter().zip(&b.lse).all(near))
    };
    hypotheses(scene).iter().any(|hypothesis| hypothesis.id == id && close(&predict(scene, hypothesis)))
}

fn in_pieces<'a>(batch: &'a Batch, pieces: &[(usize, usize)]) -> Scene<'a> {
    let mut scene = batch.scene();
    for row in &mut scene.rows {
        row.pieces = pieces.iter().map(|&(start, part)| Piece { start, part }).collect();
    }
    scene
}

#[test]
fn tiles_end_where_a_piece_ends() {
    let batch = Recipe::default().batch(31);
    let scene = in_pieces(&batch, &[(0, 0), (9, 0), (13, 0)]);
    // tiles 0..8, 8, 9..13, 13..21, 21..24, then by eights in each split
    let tile = |j: usize| match j {
        0..8 => (0, 8),
        8 => (8, 9),
        9..13 => (9, 13),
        13..21 => (13, 21),
        21..24 => (21, 24),
        _ => (j / TILE * TILE, (j / TILE + 1) * TILE),
    };
    let single = |j: usize, len: usize| tile(j).1.min(len) - tile(j).0 == 1;
    let halves = masked(&batch, |_, j, _| j - tile(j).0 < TILE / 2);
    let singles = masked(&batch, |_, j, len| !single(j, len));
    assert!(predicts(&scene, "half-tile", &halves));
    assert!(predicts(&scene, "tile-tail-of-one", &singles));
    assert!(!predicts(&batch.scene(), "half-tile", &halves), "without pieces tiles lie elsewhere");
    assert!(!predicts(&batch.scene(), "tile-tail-of-one", &singles));
}

#[test]
fn shared_parts_are_merged_after_the_rows_own() {
    let recipe = Recipe { rows: vec![(2, 22), (1, 20)], ..Recipe::default() };
    let batch = recipe.batch(32);
    let scene = in_pieces(&batch, &[(0, 1), (8, 2), (12, 0)]);
    for (id, kept) in
        [("prefix-part-dropped", 12..99_usize), ("merge-first-two", 12..99), ("merge-drops-last", 0..99)]
    {
        let dropped = if id == "merge-drops-last" { 8..12 } else { 0..0_usize };
        let keep = |_: usize, j: usize, _: usize| kept.contains(&j) && !dropped.contains(&j);
        let keep_first_two = |i: usize, j: usize, len: usize| keep(i, j, len) || j < 8;
        let want =
            if id == "merge-first-two" { masked(&batch, keep_first_two) } else { masked(&batch, keep) };
        assert!(predicts(&scene, id, &want), "{id}");
        assert!(!predicts(&batch.scene(), id, &want), "{id} needs the parts");
    }
}

#[test]
fn tiles_begin_where_the_workgroup_begins_to_read() {
    let profile = Profile { window: Window { left: Some(20), right: Some(0) }, ..Profile::default() };
    let batch = Recipe { profile, ..Recipe::default() }.batch(33);
    let start = |i: usize, len: usize, tokens: usize, grain: usize| {
        ((len - tokens + i).saturating_sub(20)) / grain * grain
    };
    let tokens = |len: usize| {
        if len == 60 {
            3
        } else if len == 47 {
            1
        } else {
            2
        }
    };
    let halves = |with: &dyn Fn(usize) -> usize, grain: usize| {
        masked(&batch, |i, j, len| {
            let first = start(with(i), len, tokens(len), grain).max(j / SPLIT * SPLIT);
            j < first || (j - first) % TILE < TILE / 2
        })
    };
    let scene = |pairs: usize, whole_blocks: bool| Scene {
        pairs_per_workgroup: pairs,
        whole_blocks,
        ..batch.scene()
    };
    let (alone, together) = (halves(&|i| i, 1), halves(&|_| 0, 1));
    assert!(predicts(&scene(3, false), "half-tile", &alone), "three heads: a workgroup a query token");
    assert!(predicts(&scene(16, false), "half-tile", &together), "all query tokens in one workgroup");
    assert!(!predicts(&scene(16, false), "half-tile", &alone));
    assert!(predicts(&scene(3, true), "half-tile", &halves(&|i| i, 4)), "from the start of a block");
}

/// `exp(scale q . k)` and the rest in f32, all keys at once; o and LSE of one query and head.
fn in_f32(row: &OwnedRow, (i, h, kv): (usize, usize, usize), scale: f32) -> (Vec<f32>, f32) {
    let to = |x: &f64| *x as f32;
    let q: Vec<f32> = row.q.slice(s![i, h, ..]).iter().map(to).collect();
    let end = row.k.dim().0 - row.q.dim().0 + i + 1;
    let dot = |j: usize| row.k.slice(s![j, kv, ..]).iter().zip(&q).fold(0.0, |sum, (k, q)| sum + to(k) * q);
    let scores: Vec<f32> = (0..end).map(|j| dot(j) * scale).collect();
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = scores.iter().map(|score| libm::expf(score - top)).collect();
    let sum: f32 = weights.iter().sum();
    let o = (0..row.v.dim().2)
        .map(|c| weights.iter().enumerate().fold(0.0, |o, (j, w)| o + w * to(&row.v[[j, kv, c]])) / sum);
    (o.collect(), top + libm::logf(sum))
}

/// Scores of hundreds where tens are right: a kernel that forgets the scale rounds far more away than a right one.
#[test]
fn the_rounding_of_a_wrong_kernel_is_its_own() {
    let profile = Profile { scale: Scale::Explicit(1e-3), ..Profile::default() };
    let batch = Recipe { profile, loud: [3.0, 60.0, 1.0], ..Recipe::default() }.batch(34);
    let (right, bounds) = batch.right();
    let mut got = right.clone();
    for (answer, row) in got.iter_mut().zip(&batch.rows) {
        for ((i, h), lse) in answer.lse.indexed_iter_mut() {
            let (o, wrong) = in_f32(row, (i, h, h / 3), 1.0);
            *lse = f64::from(wrong);
            answer.o.slice_mut(s![i, h, ..]).assign(&Array1::from_iter(o.into_iter().map(f64::from)));
        }
    }
    let scene = batch.scene();
    let fit = rank(&scene, &got, &bounds).remove(0);
    assert!(fit.id == "scale-missing" && fit.used <= 1.0, "{fit:?}");
    let apart = |a: &Answer, b: &Answer, bound: &Array2<f64>| {
        a.lse.iter().zip(&b.lse).zip(bound).map(|((a, b), bound)| (a - b).abs() / bound).fold(0.0, f64::max)
    };
    let list = hypotheses(&scene);
    let exact =
        predict(&scene, list.iter().find(|hypothesis| hypothesis.id == "scale-missing").expect("listed"));
    let most = (0..3).map(|row| apart(&got[row], &exact[row], &bounds[row].lse)).fold(0.0, f64::max);
    assert!(most > 2.0, "the right answer's bound would do: {most}");
    // a thirtieth of the way back is no rounding
    let back = |got: &Answer, right: &Answer| Answer {
        o: &got.o + &((&right.o - &got.o) / 30.0),
        lse: &got.lse + &((&right.lse - &got.lse) / 30.0),
    };
    let moved: Vec<Answer> = got.iter().zip(&right).map(|(got, right)| back(got, right)).collect();
    let fit = rank(&scene, &moved, &bounds).remove(0);
    assert!(fit.used > 1.0, "{fit:?}");
}

#[test]
fn a_few_outputs_may_be_a_step_of_f16_off() {
    let batch = Recipe::default().batch(35);
    let (scene, bounds) = (batch.scene(), batch.right().1);
    let list = hypotheses(&scene);
    let coarse = list.iter().find(|hypothesis| hypothesis.id == "f16-accumulator").expect("listed");
    let off = |every: usize| {
        let mut got = predict(&scene, coarse);
        for (n, o) in
            got.iter_mut().flat_map(|answer| &mut answer.o).enumerate().filter(|(n, _)| n % every == 0)
        {
            *o += if n % 2 == 0 { o.abs() } else { -o.abs() } / 2048.0;
        }
        rank(&scene, &got, &bounds).into_iter().find(|fit| fit.id == "f16-accumulator").expect("ranked")
    };
    assert!(off(20).used <= 1.0, "{:?}", off(20));
    assert!(off(4).used > 2.0, "{:?}", off(4));
}
