//! Names for faults: attention that is wrong on purpose, in f64, and how well each kind of it explains an output.
//!
//! A hypothesis is one thing a kernel may do differently: another window, another head map, a key left out.
//! [`predict`] says what such a kernel returns, [`rank`] compares every prediction with what a kernel did return. The
//! evaluator follows the schedule of a split kernel where faults depend on it: tiles of some keys from the first key
//! of each split and of each piece of a row, an online softmax over tiles, and a merge of the parts by their LSE.
//!
//! What cannot be told from logical data is not here: physical slots, bytes past the end of a row, elements never
//! written.

mod eval;
mod judge;
mod known;
mod library;
mod parts;
mod predicted;
mod rank;
mod screen;
mod tweaks;
mod visits;

pub use rank::{Fit, rank};

use ndarray::{ArrayView2, ArrayView3, s};

use crate::{elem::Elem, reference::Answer, scale::Granularity, spec::Spec};
use known::Known;
use predicted::Predicted;
use tweaks::{NanPart, Tweaks};
use visits::RowRules;

/// What a kernel was given for one batch, in logical terms, with the constants of its schedule.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// Sizes and conventions.
    pub spec: &'a Spec,
    /// The rows in batch order.
    pub rows: Vec<SceneRow<'a>>,
    /// The format of K and V.
    pub elem: Elem,
    /// Tokens per block, at least 1.
    pub block_size: usize,
    /// Keys of one step of the online softmax, at least 1.
    pub tile: usize,
    /// Keys per split, at least 1.
    pub split_tokens: usize,
    /// Splits of every row, empty ones included, at least 1.
    pub splits: usize,
    /// (query token, query head) pairs of a row that one workgroup serves, at least 1: it reads what any of them sees.
    pub pairs_per_workgroup: usize,
    /// Query heads among these pairs, at least 1; the pairs go through them first.
    pub heads_per_workgroup: usize,
    /// Whether a workgroup reads whole blocks.
    pub whole_blocks: bool,
    /// What shares one scale of K.
    pub k_granularity: Granularity,
    /// What shares one scale of V.
    pub v_granularity: Granularity,
}

/// One row of a batch.
#[derive(Clone, Debug)]
pub struct SceneRow<'a> {
    /// Queries, `[query token, q head, d]`.
    pub q: ArrayView3<'a, f64>,
    /// Keys, `[key, kv head, d]`: code times scale.
    pub k: ArrayView3<'a, f64>,
    /// Values, `[key, kv head, dv]`: code times scale.
    pub v: ArrayView3<'a, f64>,
    /// Codes of the keys. Without them no hypothesis about number formats differs from the right answer.
    pub k_codes: Option<ArrayView3<'a, u32>>,
    /// Codes of the values.
    pub v_codes: Option<ArrayView3<'a, u32>>,
    /// The scale of each key, `[key, kv head]`; 1 where there is none.
    pub k_scales: Option<ArrayView2<'a, f64>>,
    /// The scale of each value, `[key, kv head]`; 1 where there is none.
    pub v_scales: Option<ArrayView2<'a, f64>>,
    /// The stretches that are read without a break, by their first keys. None at all are one from key 0 on.
    pub pieces: Vec<Piece>,
}

/// A stretch of keys of one row, up to the next one. No tile goes beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first key.
    pub start: usize,
    /// Which of the row's partial results its splits go to: 0 for the row's own, 1 and more for those that the row has
    /// in common with others.
    pub part: usize,
}

impl SceneRow<'_> {
    /// Which partial result a key goes to.
    fn part(&self, key: usize) -> usize {
        let after = self.pieces.partition_point(|piece| piece.start <= key);
        after.checked_sub(1).map_or(0, |at| self.pieces[at].part)
    }

    /// The partial results that the row has, its own included.
    fn parts(&self) -> usize {
        let mut shared: Vec<usize> =
            self.pieces.iter().map(|piece| piece.part).filter(|&part| part > 0).collect();
        shared.sort_unstable();
        shared.dedup();
        1 + shared.len()
    }

    fn k_scale(&self, key: usize, kv: usize) -> f64 {
        self.k_scales.map_or(1.0, |scales| scales[[key, kv]])
    }

    fn v_scale(&self, key: usize, kv: usize) -> f64 {
        self.v_scales.map_or(1.0, |scales| scales[[key, kv]])
    }
}

impl<'a> Scene<'a> {
    /// The row after row `row` of the batch; the first one after the last.
    fn next_row(&self, row: usize) -> &SceneRow<'a> {
        &self.rows[(row + 1) % self.rows.len()]
    }

    /// The keys in whole blocks that two rows have in common at their start.
    fn shared_prefix(&self, a: usize, b: usize) -> usize {
        let (a, b) = (&self.rows[a], &self.rows[b]);
        let same = |&j: &usize| {
            a.k.slice(s![j, .., ..]) == b.k.slice(s![j, .., ..])
                && a.v.slice(s![j, .., ..]) == b.v.slice(s![j, .., ..])
        };
        let keys = (0..a.k.dim().0.min(b.k.dim().0)).take_while(same).count();
        keys / self.block_size * self.block_size
    }
}

/// One thing that a kernel may do wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// A short name, such as `window-plus-one`. Several hypotheses share one where it leaves details open.
    pub id: String,
    /// What the kernel does, in words, with the parameter if there is one.
    pub says: String,
    tweaks: Tweaks,
}

/// The hypotheses that change anything in this scene: those of the library, and single keys, blocks, tiles and
/// splits left out, keys counted twice, values taken from the next key. Keys are enumerated in rows of up to 2048.
///
/// # Panics
/// If a tensor does not fit the spec or the others.
pub fn hypotheses(scene: &Scene<'_>) -> Vec<Hypothesis> {
    let stage = Stage::new(scene);
    let right = stage.answers(&Tweaks::default());
    let mut list: Vec<Hypothesis> = stage
        .named()
        .into_iter()
        .filter(|(_, answers)| judge::changed(&right, answers))
        .map(|(hypothesis, _)| hypothesis)
        .collect();
    list.extend(screen::parametric(&stage));
    list
}

/// Names of the library's hypotheses that make sense for the scene's profile, formats and schedule, whether or not they
/// change anything in it; sorted.
pub fn ids(scene: &Scene<'_>) -> Vec<String> {
    let mut ids: Vec<String> = library::named(scene).into_iter().map(|hypothesis| hypothesis.id).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// What a kernel with that fault returns, one answer per row, in f64. NaN in rows where it would read slots that the
/// scene does not hold.
///
/// # Panics
/// If a tensor does not fit the spec or the others.
pub fn predict(scene: &Scene<'_>, hypothesis: &Hypothesis) -> Vec<Answer> {
    let answers = Stage::new(scene).answers(&hypothesis.tweaks);
    let unknown = |row: &SceneRow<'_>| {
        let mut answer = Answer::empty(scene.spec, row.q.dim().0);
        answer.o.fill(f64::NAN);
        answer.lse.fill(f64::NAN);
        answer
    };
    let known =
        |(predicted, row): (Option<Predicted>, _)| predicted.map_or_else(|| unknown(row), |p| p.answer);
    answers.into_iter().zip(&scene.rows).map(known).collect()
}

/// A scene with what all hypotheses share.
struct Stage<'a, 's> {
    scene: &'a Scene<'s>,
    known: Vec<Known>,
    prefixes: Vec<(usize, usize)>,
}

impl<'a, 's> Stage<'a, 's> {
    fn new(scene: &'a Scene<'s>) -> Stage<'a, 's> {
        let rows = 0..scene.rows.len();
        let prefix = |row: usize| {
            let others = rows.clone().filter(|&other| other != row);
            let shared: Vec<usize> =
                others.map(|other| scene.shared_prefix(row, other)).filter(|&keys| keys > 0).collect();
            (shared.iter().copied().max().unwrap_or(0), shared.iter().copied().min().unwrap_or(0))
        };
        Stage { scene, known: known::known(scene), prefixes: rows.clone().map(prefix).collect() }
    }

    fn rules<'b>(&'b self, tweaks: &'b Tweaks, row: usize) -> RowRules<'b, 's> {
        let (len, tokens) = (self.scene.rows[row].k.dim().0, self.scene.rows[row].q.dim().0);
        RowRules { scene: self.scene, tweaks, row, len, tokens, prefix: self.prefixes[row] }
    }

    /// One answer per row, `None` where it depends on what the scene does not hold.
    fn answers(&self, tweaks: &Tweaks) -> Vec<Option<Predicted>> {
        (0..self.scene.rows.len())
            .map(|row| eval::row_answer(&self.rules(tweaks, row), &self.known))
            .collect()
    }

    /// The library's hypotheses with their predictions. Where one predicts NaN, a second entry takes a part with a
    /// NaN denominator as empty.
    fn named(&self) -> Vec<(Hypothesis, Vec<Option<Predicted>>)> {
        let mut list = Vec::new();
        for hypothesis in library::named(self.scene) {
            let answers = self.answers(&hypothesis.tweaks);
            let nan =
                answers.iter().flatten().any(|predicted| predicted.answer.lse.iter().any(|lse| lse.is_nan()));
            let mut vanishing = hypothesis.clone();
            list.push((hypothesis, answers));
            if nan {
                vanishing.tweaks.nan_part = NanPart::Vanishes;
                let answers = self.answers(&vanishing.tweaks);
                list.push((vanishing, answers));
            }
        }
        list
    }
}
