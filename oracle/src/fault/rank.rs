//! Which hypotheses explain an output.

use super::{
    Hypothesis, Scene, Stage,
    judge::{Answers, Judge, Predictions},
    predicted::Predicted,
    screen,
    tweaks::{Coarse, Scaling, Tweaks},
};
use crate::{bound::Bounds, reference::Answer};

/// How well a hypothesis, or several that cannot be told apart here, explains an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The id, or several joined by `or`.
    pub id: String,
    /// What the kernel does, in words.
    pub says: String,
    /// The largest distance from the prediction: up to 1 it explains the output. The unit is the right answer's bound,
    /// a floor of 2^-20 of the largest output of the query token and head, and, to first order, what f32 may round
    /// away in the predicted computation: a fault may make scores or values larger than the right ones. Infinite
    /// where an element is of another class (finite, infinite, NaN).
    pub used: f64,
}

/// A hypothesis with its prediction and how well it fits.
struct Candidate {
    hypothesis: Hypothesis,
    answers: Vec<Option<Predicted>>,
    named: bool,
    used: f64,
}

/// The hypotheses in the order in which they explain what a kernel returned, best first. `got` are the values of its
/// outputs, `bounds` those of the right answer, one each per row.
///
/// Left out are hypotheses whose kernel would be accepted as right. Query tokens and heads without a guarantee
/// ([`Bounds::ok`]) are passed over.
///
/// # Panics
/// If a tensor does not fit the spec or the others, or a list does not have one entry per row.
pub fn rank(scene: &Scene<'_>, got: &[Answer], bounds: &[Bounds]) -> Vec<Fit> {
    assert_eq!((got.len(), bounds.len()), (scene.rows.len(), scene.rows.len()), "one entry per row");
    let stage = Stage::new(scene);
    let right = stage.answers(&Tweaks::default());
    let judge = Judge::new(&right, bounds, scene.spec.profile().out);
    let got: Vec<Option<Answer>> = got.iter().cloned().map(Some).collect();
    let named = stage.named().into_iter().map(|(hypothesis, answers)| (hypothesis, answers, true));
    let guessed = screen::finalists(&stage, &judge, &got)
        .into_iter()
        .chain(fitted_scale(&stage, &got, bounds))
        .map(|hypothesis| {
            let answers = stage.answers(&hypothesis.tweaks);
            (hypothesis, answers, false)
        });
    let mut candidates: Vec<Candidate> = named
        .chain(guessed)
        .filter(|(_, answers, _)| judge.rejects(answers))
        .filter_map(|(hypothesis, answers, named)| {
            let used = match hypothesis.tweaks.coarse {
                Coarse::AccumulatorF16 => judge.used_by_steps(&got, &answers)?,
                _ => judge.used(&got, &answers, f64::INFINITY)?,
            };
            Some(Candidate { hypothesis, answers, named, used })
        })
        .collect();
    candidates.sort_by(|a, b| a.used.total_cmp(&b.used));
    groups(&judge, candidates).iter().map(|group| fit(group)).collect()
}

/// Candidates that cannot be told apart, each id in the best group only.
fn groups(judge: &Judge<'_>, candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut groups: Vec<Vec<Candidate>> = Vec::new();
    for candidate in candidates {
        let known = |group: &Vec<Candidate>| {
            candidate.named && group.iter().any(|member| member.hypothesis.id == candidate.hypothesis.id)
        };
        if groups.iter().any(known) {
            continue;
        }
        match groups.iter_mut().find(|group| judge.same(&group[0].answers, &candidate.answers)) {
            Some(group) => group.push(candidate),
            None => groups.push(vec![candidate]),
        }
    }
    groups
}

/// One fit for a group. A name says more than a parameter: with any, the rest is left out.
fn fit(group: &[Candidate]) -> Fit {
    let any_named = group.iter().any(|candidate| candidate.named);
    let mut ids: Vec<&str> = Vec::new();
    let mut says: Vec<&str> = Vec::new();
    for candidate in group.iter().filter(|candidate| candidate.named || !any_named) {
        if !ids.contains(&candidate.hypothesis.id.as_str()) {
            ids.push(&candidate.hypothesis.id);
        }
        if !says.contains(&candidate.hypothesis.says.as_str()) {
            says.push(&candidate.hypothesis.says);
        }
    }
    Fit { id: ids.join(" or "), says: says.join(", or "), used: group[0].used }
}

/// The factor on the scale that fits best, by Gauss and Newton from 1.
fn fitted_scale(stage: &Stage<'_, '_>, got: &Answers, bounds: &[Bounds]) -> Option<Hypothesis> {
    const STEP: f64 = 1e-5;
    const ROUNDS: usize = 6;
    let with = |factor: f64| Tweaks { scale: Scaling::Times(factor), ..Tweaks::default() };
    let mut factor = 1.0;
    for _ in 0..ROUNDS {
        let (here, there) = (stage.answers(&with(factor)), stage.answers(&with(factor * (1.0 + STEP))));
        let moved = newton_step(got, (&here, &there), bounds) * STEP;
        if moved.is_nan() || moved.abs() > 10.0 {
            return None;
        }
        // A step beyond a factor of two would leave the range where the first order says anything.
        factor *= (1.0 + moved).clamp(0.5, 2.0);
        if moved.abs() < 1e-9 {
            break;
        }
    }
    let says = format!("the scale is times {factor:.7}");
    Some(Hypothesis { id: "scale-factor".to_owned(), says, tweaks: with(factor) })
}

/// The multiple of `there - here` that brings `here` nearest to `got`, by least squares in units of the bounds.
fn newton_step(got: &Answers, (here, there): (&Predictions, &Predictions), bounds: &[Bounds]) -> f64 {
    let (mut along, mut square) = (0.0, 0.0);
    let mut add = |got: f64, here: f64, there: f64, bound: f64| {
        let (step, distance) = ((there - here) / bound, (got - here) / bound);
        if step.is_finite() && distance.is_finite() {
            along += step * distance;
            square += step * step;
        }
    };
    for (((got, here), there), bounds) in got.iter().zip(here).zip(there).zip(bounds) {
        let (Some(got), Some(here), Some(there)) = (got, here, there) else { continue };
        let (here, there) = (&here.answer, &there.answer);
        for (((&got, &here), &there), &bound) in got.o.iter().zip(&here.o).zip(&there.o).zip(&bounds.o) {
            add(got, here, there, bound);
        }
        for (((&got, &here), &there), &bound) in
            got.lse.iter().zip(&here.lse).zip(&there.lse).zip(&bounds.lse)
        {
            add(got, here, there, bound);
        }
    }
    along / square
}
