//! A prediction, and how far f32 may be from it.

use ndarray::{Array1, Array2, s};

use super::tweaks::Empty;
use crate::{reference::Answer, spec::Spec};

/// The roundoff of f32.
pub(super) const F32: f64 = 1.0 / 16_777_216.0;

/// The part of its departure from the right answer by which a prediction may be missed.
const DEPARTURE: f64 = 1.0 / 64.0;

/// How far roundings may move one query token and head, to first order. A fault may make scores or values larger than
/// the right ones; the bound of the right answer is then no measure of what a kernel with that fault rounds away.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Noise {
    /// Every output element.
    pub(super) o: f64,
    /// The LSE.
    pub(super) lse: f64,
    /// Some output elements, once more: a rounding of a coarse format that falls to the other side.
    pub(super) step: f64,
}

/// The same of a part, in the units of its sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PartNoise {
    /// What errors of the scores do to the output.
    pub(super) o: f64,
    /// What they do to the sum of the weights.
    pub(super) lse: f64,
    /// The sum of all magnitudes that the output adds up.
    pub(super) sum: f64,
    /// The largest output so far, where it is kept in a coarse format.
    pub(super) largest: f64,
}

impl Noise {
    /// No more than a part of how far a prediction is from the right answer: what explains an output must reproduce
    /// the departure itself.
    pub(super) fn within(self, departure: (f64, f64)) -> Noise {
        Noise { o: self.o.min(DEPARTURE * departure.0), lse: self.lse.min(DEPARTURE * departure.1), ..self }
    }

    /// What f32 cannot hold is judged by its class, without any tolerance.
    fn finite(self) -> Noise {
        let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
        Noise { o: finite(self.o), lse: finite(self.lse), step: finite(self.step) }
    }
}

/// What a kernel returns for one row.
#[derive(Clone, Debug)]
pub(super) struct Predicted {
    pub(super) answer: Answer,
    /// `[query token, q head]`.
    pub(super) noise: Array2<Noise>,
}

impl Predicted {
    /// Zeros and empty rows.
    pub(super) fn empty(spec: &Spec, tokens: usize) -> Predicted {
        let noise = Array2::default((tokens, spec.shape().q_heads));
        Predicted { answer: Answer::empty(spec, tokens), noise }
    }

    /// Takes the result of one query token and head.
    pub(super) fn set(&mut self, (i, h): (usize, usize), (o, lse, noise): (Array1<f64>, f64, Noise)) {
        self.answer.o.slice_mut(s![i, h, ..]).assign(&o);
        self.answer.lse[[i, h]] = lse;
        self.noise[[i, h]] = noise.finite();
    }

    /// Takes what a kernel writes for a query token and head without keys.
    pub(super) fn set_empty(&mut self, (i, h): (usize, usize), empty: Empty) {
        match empty {
            Empty::Declared => {}
            Empty::Nan => self.answer.o.slice_mut(s![i, h, ..]).fill(f64::NAN),
            Empty::PlusInf => self.answer.lse[[i, h]] = f64::INFINITY,
            Empty::ZeroLse => self.answer.lse[[i, h]] = 0.0,
        }
    }
}
