//! Hypotheses with a parameter: enumerated, and screened by closed-form updates of the right answer, since a whole
//! prediction for each would be slow.

use ndarray::{Array1, s};

use super::{
    Hypothesis, Stage,
    eval::RowEval,
    judge::{Answers, Judge, Want},
    predicted::Noise,
    tweaks::{Edit, Tweaks, Unit, Where},
};
use crate::{reference::Answer, rule::kv_head, spec::LseBase};

/// Rows longer than this have no hypotheses about single keys.
const LONGEST: usize = 2048;
/// A fit beyond this is of no interest.
const CUT: f64 = 64.0;
/// How many of the best are kept.
const KEPT: usize = 12;
/// If no more than this share of the weights remains, the closed form is too inexact.
const LEAST_LEFT: f64 = 1e-6;

/// Every hypothesis with a parameter that touches a key which any query token sees.
pub(super) fn parametric(stage: &Stage<'_, '_>) -> Vec<Hypothesis> {
    let right = Tweaks::default();
    let mut list = Vec::new();
    for edit in edits(stage) {
        let touched: Vec<usize> =
            (0..stage.scene.rows.len()).filter(|&row| touches(stage, &right, row, edit)).collect();
        list.extend(scopes(&touched).into_iter().map(|scope| hypothesis(edit, scope)));
    }
    list
}

/// The hypotheses with a parameter that may fit best.
pub(super) fn finalists(stage: &Stage<'_, '_>, judge: &Judge<'_>, got: &Answers) -> Vec<Hypothesis> {
    let right = Tweaks::default();
    let answers = stage.answers(&right);
    let rows: Vec<ScreenRow> = answers
        .iter()
        .enumerate()
        .filter_map(|(row, answer)| Some(ScreenRow::new(stage, &right, &answer.as_ref()?.answer, row)))
        .collect();
    let unedited: Vec<f64> = rows.iter().map(|row| row.used(judge, got, None)).collect();
    let mut fits: Vec<(f64, Hypothesis)> = Vec::new();
    for edit in edits(stage) {
        let touched: Vec<usize> = (0..rows.len()).filter(|&row| touches(stage, &right, row, edit)).collect();
        let edited: Vec<f64> = (0..rows.len())
            .map(|row| {
                if !touched.contains(&row) {
                    return unedited[row];
                }
                let change = change(stage, &right, row, edit);
                rows[row].used(judge, got, Some(&change))
            })
            .collect();
        for scope in scopes(&touched) {
            let used = (0..rows.len())
                .map(|row| match scope {
                    Where::Row(only) if only != row => unedited[row],
                    _ => edited[row],
                })
                .fold(0.0, f64::max);
            if used < CUT {
                fits.push((used, hypothesis(edit, scope)));
            }
        }
    }
    fits.sort_by(|a, b| a.0.total_cmp(&b.0));
    fits.into_iter().take(KEPT).map(|(_, hypothesis)| hypothesis).collect()
}

/// All rows that are touched, and each alone where there are several.
fn scopes(touched: &[usize]) -> Vec<Where> {
    match touched {
        [] => Vec::new(),
        [_] => vec![Where::Everywhere],
        several => {
            std::iter::once(Where::Everywhere).chain(several.iter().map(|&row| Where::Row(row))).collect()
        }
    }
}

/// Every edit with a parameter.
fn edits(stage: &Stage<'_, '_>) -> Vec<Edit> {
    let scene = stage.scene;
    let longest = scene.rows.iter().map(|row| row.k.dim().0).max().unwrap_or(0);
    let mut list = Vec::new();
    if longest <= LONGEST {
        list.extend((0..longest).map(|j| Edit::Drop(Unit::Key(j))));
        list.extend((0..longest).map(Edit::Duplicate));
        list.extend((0..longest).map(Edit::NextV));
    }
    list.extend((0..longest.div_ceil(scene.block_size)).map(|block| Edit::Drop(Unit::Block(block))));
    let splits = longest.div_ceil(scene.split_tokens);
    let pieces = scene.rows.iter().map(|row| row.pieces.len()).max().unwrap_or(0);
    let tiles = scene.split_tokens.min(longest).div_ceil(scene.tile) + pieces.saturating_sub(1);
    for split in 0..splits {
        list.extend((0..tiles).map(|tile| Edit::Drop(Unit::Tile(split, tile))));
    }
    if splits > 1 {
        list.extend((0..splits).map(|split| Edit::Drop(Unit::Split(split))));
    }
    list
}

fn hypothesis(edit: Edit, scope: Where) -> Hypothesis {
    let (id, says) = match edit {
        Edit::Drop(Unit::Key(j)) => ("drop-key", format!("key {j} is left out")),
        Edit::Drop(Unit::Block(b)) => ("drop-block", format!("block {b} is left out")),
        Edit::Drop(Unit::Tile(s, t)) => ("drop-tile", format!("tile {t} of split {s} is left out")),
        Edit::Drop(Unit::Split(s)) => ("drop-split", format!("split {s} is left out")),
        Edit::Duplicate(j) => ("duplicate-key", format!("key {j} counts twice")),
        Edit::NextV(j) => ("v-of-next-key", format!("V of key {j} is that of key {}", j + 1)),
        _ => ("edit", "the keys are others".to_owned()),
    };
    let says = if let Where::Row(row) = scope { format!("{says} in row {row}") } else { says };
    let tweaks = Tweaks { edit, edit_where: scope, ..Tweaks::default() };
    Hypothesis { id: id.to_owned(), says, tweaks }
}

/// What an edit does to the sums over the keys.
struct Change {
    keys: std::ops::Range<usize>,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    Drop,
    Duplicate,
    NextV,
}

fn change(stage: &Stage<'_, '_>, right: &Tweaks, row: usize, edit: Edit) -> Change {
    match edit {
        Edit::Drop(unit) => Change { keys: stage.rules(right, row).unit(unit), kind: Kind::Drop },
        Edit::NextV(j) => Change { keys: j..j + 1, kind: Kind::NextV },
        Edit::Duplicate(j) => Change { keys: j..j + 1, kind: Kind::Duplicate },
        _ => Change { keys: 0..0, kind: Kind::Drop },
    }
}

fn touches(stage: &Stage<'_, '_>, right: &Tweaks, row: usize, edit: Edit) -> bool {
    let rules = stage.rules(right, row);
    let change = change(stage, right, row, edit);
    let inside = !matches!(change.kind, Kind::NextV) || change.keys.end < rules.len;
    inside
        && (0..rules.tokens)
            .map(|i| rules.seen(i))
            .any(|seen| seen.start.max(change.keys.start) < seen.end.min(change.keys.end))
}

/// The right answer of one row, with its weights.
struct ScreenRow<'a, 's> {
    stage: &'a Stage<'a, 's>,
    row: usize,
    pairs: Vec<ScreenPair>,
}

/// One query token and head.
struct ScreenPair {
    at: (usize, usize),
    kv: usize,
    first: usize,
    weights: Vec<f64>,
    o: Array1<f64>,
    lse: f64,
}

impl<'a, 's> ScreenRow<'a, 's> {
    fn new(stage: &'a Stage<'a, 's>, right: &Tweaks, answer: &Answer, row: usize) -> ScreenRow<'a, 's> {
        let rules = stage.rules(right, row);
        let eval = RowEval::new(&rules, &stage.known);
        let pairs = answer.lse.indexed_iter().map(|((i, h), &lse)| {
            let natural = match stage.scene.spec.profile().lse_base {
                LseBase::E => lse,
                LseBase::Two => lse * std::f64::consts::LN_2,
            };
            let scores = eval.scores(i, h);
            ScreenPair {
                at: (i, h),
                kv: kv_head(stage.scene.spec, h),
                first: rules.seen(i).start,
                weights: scores.iter().map(|score| libm::exp(score - natural)).collect(),
                o: answer.o.slice(s![i, h, ..]).to_owned(),
                lse,
            }
        });
        ScreenRow { stage, row, pairs: pairs.collect() }
    }

    /// How well the right answer, or a changed one, fits; [`CUT`] or more as soon as it does not.
    fn used(&self, judge: &Judge<'_>, got: &Answers, change: Option<&Change>) -> f64 {
        let Some(got) = &got[self.row] else { return 0.0 };
        let mut worst = 0.0;
        for pair in &self.pairs {
            let (i, h) = pair.at;
            if !judge.guaranteed(self.row, pair.at) {
                continue;
            }
            let got = (got.o.slice(s![i, h, ..]), got.lse[[i, h]]);
            let noise = Noise::default();
            let used = match change.map(|change| self.changed(pair, change)) {
                None => {
                    judge.pair(self.row, pair.at, got, Want { o: pair.o.view(), lse: pair.lse, noise }, CUT)
                }
                Some(None) => continue,
                Some(Some((o, lse))) => {
                    judge.pair(self.row, pair.at, got, Want { o: o.view(), lse, noise }, CUT)
                }
            };
            worst = f64::max(worst, used);
            if worst >= CUT {
                break;
            }
        }
        worst
    }

    /// The changed output and LSE; `None` where hardly any weight is left.
    fn changed(&self, pair: &ScreenPair, change: &Change) -> Option<(Array1<f64>, f64)> {
        let seen = pair.first..pair.first + pair.weights.len();
        let keys = change.keys.start.max(seen.start)..change.keys.end.min(seen.end);
        let v = &self.stage.scene.rows[self.row].v;
        let (mut o, mut total) = (pair.o.clone(), 0.0);
        for key in keys {
            let weight = pair.weights[key - pair.first];
            let v = |key: usize| v.slice(s![key, pair.kv, ..]);
            match change.kind {
                Kind::Drop => {
                    o.scaled_add(-weight, &v(key));
                    total -= weight;
                }
                Kind::Duplicate => {
                    o.scaled_add(weight, &v(key));
                    total += weight;
                }
                Kind::NextV => {
                    o.scaled_add(weight, &v(key + 1));
                    o.scaled_add(-weight, &v(key));
                }
            }
        }
        let base = match self.stage.scene.spec.profile().lse_base {
            LseBase::E => 1.0,
            LseBase::Two => std::f64::consts::LOG2_E,
        };
        (1.0 + total > LEAST_LEFT).then(|| (o / (1.0 + total), pair.lse + base * libm::log1p(total)))
    }
}
