//! How far outputs are from a prediction, in units of the right answer's bound.

use ndarray::{ArrayView1, s};

use crate::{bound::Bounds, compare::budget_used, elem::OutType, reference::Answer};

/// Sixteen roundings of f32, relative to the largest output of a query token and head. A fault may raise scores and
/// outputs above the right ones, and the bound of the right answer with them; hull and softmax keep the error of a
/// correct remainder of the kernel near a few roundings of its largest output.
const FLOOR: f64 = 1.0 / 1_048_576.0;

/// One answer per row; `None` where it is not known.
pub(super) type Answers = [Option<Answer>];

/// The right answers, their bounds, and the format of outputs.
pub(super) struct Judge<'a> {
    right: &'a Answers,
    bounds: &'a [Bounds],
    out: OutType,
}

/// Whether two predictions differ at all, beyond the rounding of f64.
pub(super) fn changed(right: &Answers, other: &Answers) -> bool {
    let differs = |(a, b): (&f64, &f64)| {
        let close = (a - b).abs() <= 1e-11 * (a.abs() + b.abs()) + 1e-13;
        !(close || a == b || a.is_nan() && b.is_nan())
    };
    right.iter().zip(other).any(|(right, other)| match (right, other) {
        (Some(right), Some(other)) => {
            right.o.iter().zip(&other.o).any(differs) || right.lse.iter().zip(&other.lse).any(differs)
        }
        (right, other) => right.is_some() && other.is_some(),
    })
}

impl<'a> Judge<'a> {
    pub(super) fn new(right: &'a Answers, bounds: &'a [Bounds], out: OutType) -> Judge<'a> {
        Judge { right, bounds, out }
    }

    /// The largest share of the tolerance that `got` uses as an outcome of `want`, over all rows that both know;
    /// stops once that exceeds `enough`. `None` if no element says anything.
    pub(super) fn used(&self, got: &Answers, want: &Answers, enough: f64) -> Option<f64> {
        let mut worst: Option<f64> = None;
        for (row, (got, want)) in got.iter().zip(want).enumerate() {
            let (Some(got), Some(want)) = (got, want) else { continue };
            for ((i, h), &ok) in self.bounds[row].ok.indexed_iter() {
                if !ok {
                    continue;
                }
                let got = (got.o.slice(s![i, h, ..]), got.lse[[i, h]]);
                let want = (want.o.slice(s![i, h, ..]), want.lse[[i, h]]);
                let used = self.pair(row, (i, h), got, want, enough);
                worst = Some(worst.map_or(used, |worst| worst.max(used)));
                if used > enough {
                    return worst;
                }
            }
        }
        worst
    }

    /// The same for one query token and head: outputs and LSE.
    pub(super) fn pair(
        &self,
        row: usize,
        (i, h): (usize, usize),
        got: (ArrayView1<'_, f64>, f64),
        want: (ArrayView1<'_, f64>, f64),
        enough: f64,
    ) -> f64 {
        let bounds = &self.bounds[row];
        let mut worst = self.lse(row, (i, h), got.1, want.1);
        if worst > enough {
            return worst;
        }
        let floor = FLOOR * (largest(&want.0) + self.right_size(row, i, h));
        for ((&got, &want), &bound) in got.0.iter().zip(want.0).zip(bounds.o.slice(s![i, h, ..])) {
            worst = worst.max(misfit(self.out, got, want, bound + floor));
            if worst > enough {
                return worst;
            }
        }
        worst
    }

    /// The same for one LSE.
    fn lse(&self, row: usize, (i, h): (usize, usize), got: f64, want: f64) -> f64 {
        let floor = if want.is_finite() { FLOOR * want.abs() } else { 0.0 };
        misfit(OutType::F32, got, want, self.bounds[row].lse[[i, h]] + floor)
    }

    /// Whether the bounds guarantee anything for a query token and head.
    pub(super) fn guaranteed(&self, row: usize, at: (usize, usize)) -> bool {
        self.bounds[row].ok[at]
    }

    fn right_size(&self, row: usize, i: usize, h: usize) -> f64 {
        self.right[row].as_ref().map_or(0.0, |right| largest(&right.o.slice(s![i, h, ..])))
    }

    /// Whether a kernel with this outcome would be rejected.
    pub(super) fn rejects(&self, outcome: &Answers) -> bool {
        !self.same(self.right, outcome)
    }

    /// Whether two predictions cannot be told apart by what a kernel returns.
    pub(super) fn same(&self, a: &Answers, b: &Answers) -> bool {
        let rounded: Vec<Option<Answer>> = b.iter().map(|b| b.as_ref().map(|b| self.rounded(b))).collect();
        let known = |answers: &Answers| answers.iter().map(Option::is_some).collect::<Vec<bool>>();
        let all_right = |answers: &Answers| answers.iter().all(Option::is_some);
        (all_right(a) || known(a) == known(b)) && self.used(&rounded, a, 1.0).is_none_or(|used| used <= 1.0)
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
