//! How far outputs are from a prediction, in units of the right answer's bound.

use ndarray::{ArrayView1, s};

use super::predicted::{Noise, Predicted};
use crate::{bound::Bounds, compare::budget_used, elem::OutType, reference::Answer};

/// Sixteen roundings of f32, relative to the largest output of a query token and head. A fault may raise scores and
/// outputs above the right ones, and the bound of the right answer with them; hull and softmax keep the error of a
/// correct remainder of the kernel near a few roundings of its largest output.
const FLOOR: f64 = 1.0 / 1_048_576.0;

/// Elements, as a share of all, that may be off by a step of a coarse format: a rounding falls to the other side only
/// where f32 is next to the middle of two values.
const FEW: f64 = 1.0 / 16.0;

/// A prediction no further from the right answer is that of an accepted kernel: what is left of the bound is more than
/// kernels are seen to round away.
const ACCEPTED: f64 = 0.75;

/// One answer per row; `None` where it is not known.
pub(super) type Answers = [Option<Answer>];

/// The same with its noise.
pub(super) type Predictions = [Option<Predicted>];

/// The right answers, their bounds, and the format of outputs.
pub(super) struct Judge<'a> {
    right: &'a Predictions,
    bounds: &'a [Bounds],
    out: OutType,
}

/// One query token and head as predicted.
#[derive(Clone, Copy)]
pub(super) struct Want<'a> {
    pub(super) o: ArrayView1<'a, f64>,
    pub(super) lse: f64,
    pub(super) noise: Noise,
}

/// Whether two predictions differ at all, beyond the rounding of f64.
pub(super) fn changed(right: &Predictions, other: &Predictions) -> bool {
    let differs = |(a, b): (&f64, &f64)| {
        let finite = a.is_finite() && b.is_finite();
        let close = finite && (a - b).abs() <= 1e-11 * (a.abs() + b.abs()) + 1e-13;
        !(close || a == b || a.is_nan() && b.is_nan())
    };
    right.iter().zip(other).any(|(right, other)| match (right, other) {
        (Some(right), Some(other)) => {
            let (right, other) = (&right.answer, &other.answer);
            right.o.iter().zip(&other.o).any(differs) || right.lse.iter().zip(&other.lse).any(differs)
        }
        (right, other) => right.is_some() && other.is_some(),
    })
}

impl<'a> Judge<'a> {
    pub(super) fn new(right: &'a Predictions, bounds: &'a [Bounds], out: OutType) -> Judge<'a> {
        Judge { right, bounds, out }
    }

    /// The largest share of the tolerance that `got` uses as an outcome of `want`, over all rows that both know;
    /// stops once that exceeds `enough`. `None` if no element says anything.
    pub(super) fn used(&self, got: &Answers, want: &Predictions, enough: f64) -> Option<f64> {
        let mut worst: Option<f64> = None;
        for (row, at, got, want) in self.pairs(got, want) {
            let used = self.pair(row, at, got, want, enough);
            worst = Some(worst.map_or(used, |worst| worst.max(used)));
            if used > enough {
                return worst;
            }
        }
        worst
    }

    /// The same where a few outputs may be off by a step of a coarse format.
    pub(super) fn used_by_steps(&self, got: &Answers, want: &Predictions) -> Option<f64> {
        let (mut worst, mut off, mut all) = (None, 0_usize, 0_usize);
        for (row, at, got, want) in self.pairs(got, want) {
            let stepped = Noise { o: want.noise.o + want.noise.step, ..want.noise };
            let used = self.pair(row, at, got, Want { noise: stepped, ..want }, f64::INFINITY);
            worst = Some(f64::max(worst.unwrap_or(0.0), used));
            let floor = self.floor(row, at, want);
            let bounds = self.bounds[row].o.slice(s![at.0, at.1, ..]);
            let elements = got.0.iter().zip(want.o).zip(bounds);
            let misfits = elements.map(|((&got, &want), &bound)| misfit(self.out, got, want, bound + floor));
            off += misfits.filter(|used| used.is_nan() || *used > 1.0).count();
            all += want.o.len();
        }
        if off as f64 <= FEW * all as f64 { worst } else { self.used(got, want, f64::INFINITY) }
    }

    /// What two outcomes have in common and the bounds guarantee: row, query token and head, got, wanted.
    fn pairs<'b>(
        &'b self,
        got: &'b Answers,
        want: &'b Predictions,
    ) -> impl Iterator<Item = (usize, (usize, usize), (ArrayView1<'b, f64>, f64), Want<'b>)> {
        let rows = got.iter().zip(want).enumerate();
        let rows = rows.filter_map(|(row, (got, want))| Some((row, got.as_ref()?, want.as_ref()?)));
        rows.flat_map(move |(row, got, want)| {
            let guaranteed = self.bounds[row].ok.indexed_iter().filter(|(_, ok)| **ok);
            guaranteed.map(move |((i, h), _)| {
                let got = (got.o.slice(s![i, h, ..]), got.lse[[i, h]]);
                let (o, lse) = (want.answer.o.slice(s![i, h, ..]), want.answer.lse[[i, h]]);
                let noise = want.noise[[i, h]].within(self.departure(row, (i, h), &o, lse));
                (row, (i, h), got, Want { o, lse, noise })
            })
        })
    }

    /// How far a prediction is from the right answer: the outputs at most, and the LSE.
    fn departure(&self, row: usize, (i, h): (usize, usize), o: &ArrayView1<'_, f64>, lse: f64) -> (f64, f64) {
        let Some(right) = &self.right[row] else { return (0.0, 0.0) };
        let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
        let apart = o.iter().zip(right.answer.o.slice(s![i, h, ..])).map(|(a, b)| finite(a - b));
        (apart.fold(0.0, f64::max), finite(lse - right.answer.lse[[i, h]]))
    }

    /// The same for one query token and head: outputs and LSE.
    pub(super) fn pair(
        &self,
        row: usize,
        at: (usize, usize),
        got: (ArrayView1<'_, f64>, f64),
        want: Want<'_>,
        enough: f64,
    ) -> f64 {
        let mut worst = self.lse(row, at, got.1, want);
        if worst > enough {
            return worst;
        }
        let floor = self.floor(row, at, want);
        let bounds = self.bounds[row].o.slice(s![at.0, at.1, ..]);
        for ((&got, &want), &bound) in got.0.iter().zip(want.o).zip(bounds) {
            worst = worst.max(misfit(self.out, got, want, bound + floor));
            if worst > enough {
                return worst;
            }
        }
        worst
    }

    /// What each output of one query token and head may be off by, beside the right answer's bound.
    fn floor(&self, row: usize, (i, h): (usize, usize), want: Want<'_>) -> f64 {
        FLOOR * (largest(&want.o) + self.right_size(row, i, h)) + want.noise.o
    }

    /// The same for one LSE.
    fn lse(&self, row: usize, at: (usize, usize), got: f64, want: Want<'_>) -> f64 {
        let floor = if want.lse.is_finite() { FLOOR * want.lse.abs() + want.noise.lse } else { 0.0 };
        misfit(OutType::F32, got, want.lse, self.bounds[row].lse[at] + floor)
    }

    /// Whether the bounds guarantee anything for a query token and head.
    pub(super) fn guaranteed(&self, row: usize, at: (usize, usize)) -> bool {
        self.bounds[row].ok[at]
    }

    fn right_size(&self, row: usize, i: usize, h: usize) -> f64 {
        self.right[row].as_ref().map_or(0.0, |right| largest(&right.answer.o.slice(s![i, h, ..])))
    }

    /// Whether a kernel with this outcome would be rejected, or could be once it rounds. The right answer has no noise,
    /// since it does not depart from itself: its bound says what is accepted.
    pub(super) fn rejects(&self, outcome: &Predictions) -> bool {
        !self.within(self.right, outcome, ACCEPTED)
    }

    /// Whether two predictions cannot be told apart by what a kernel returns.
    pub(super) fn same(&self, a: &Predictions, b: &Predictions) -> bool {
        self.within(a, b, 1.0)
    }

    fn within(&self, a: &Predictions, b: &Predictions, most: f64) -> bool {
        let rounded: Vec<Option<Answer>> =
            b.iter().map(|b| b.as_ref().map(|b| self.rounded(&b.answer))).collect();
        let known = |answers: &Predictions| answers.iter().map(Option::is_some).collect::<Vec<bool>>();
        let all_right = |answers: &Predictions| answers.iter().all(Option::is_some);
        (all_right(a) || known(a) == known(b)) && self.used(&rounded, a, most).is_none_or(|used| used <= most)
    }

    fn rounded(&self, answer: &Answer) -> Answer {
        Answer {
            o: answer.o.mapv(|o| self.out.round(o)),
            lse: answer.lse.mapv(|lse| OutType::F32.round(lse)),
        }
    }
}

/// The largest finite magnitude.
fn largest(values: &ArrayView1<'_, f64>) -> f64 {
    values.iter().filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most))
}

/// The share of `tolerance` that `got` uses; infinite if it is of another class.
fn misfit(out: OutType, got: f64, want: f64, tolerance: f64) -> f64 {
    let distance = (got - want).abs();
    let rounding = want.abs()
        * match out {
            OutType::F32 => 1.0 / 16_777_216.0,
            OutType::F16 => 1.0 / 2048.0,
            OutType::Bf16 => 1.0 / 256.0,
        };
    // The exact share costs much more. It differs only where rounding to the output format matters.
    if distance <= tolerance || 16.0 * rounding <= tolerance || distance > 64.0 * (tolerance + rounding) {
        let used = distance / tolerance;
        if used.is_finite() {
            return used;
        }
    }
    budget_used(got, want, tolerance, out)
}
