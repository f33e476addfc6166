//! Octave and thermometer: few keys have weight, and the outputs tell by how much all scores are off.

use super::Asked;
use super::softmax::Scores;
use crate::fill::FillKind;

/// What is left of the deviation once a fault is taken into account, at most: a fit with one parameter that explains this
/// much of dozens of outputs is no accident.
const LEFT: f64 = 0.05;
/// Factors from which the fit starts.
const STARTS: [f64; 5] = [1.0, 0.5, 2.0, 0.125, 8.0];
/// Steps of the fit.
const STEPS: usize = 12;

/// The fault that the outputs show, where it is certain.
pub(super) fn says(asked: &Asked<'_>) -> Option<String> {
    let cap = asked.case.softcap;
    let scores = Scores::new(asked, asked.kv).of_weight();
    let (right, _) = scores.output(asked, asked.kv, 1.0, cap);
    let off = distance(asked, &right);
    if off <= 1e-6 * norm(&right) {
        return None;
    }
    if cap.is_some() && distance(asked, &scores.output(asked, asked.kv, 1.0, None).0) <= LEFT * off {
        return Some("softcap missing".to_owned());
    }
    // Rounded weights shift the few loud keys of a thermometer against the others as a scale would.
    let least = if asked.case.fill == FillKind::Octave { 2e-5 } else { 0.01 };
    let fits = STARTS.map(|start| fit(asked, &scores, start, cap));
    let (factor, _) = fits.into_iter().find(|(_, left)| *left <= LEFT * off)?;
    ((factor - 1.0).abs() >= least).then(|| format!("scale x {factor:.5}"))
}

/// The factor on the scores that fits the outputs best, from a start, and the distance that is left (Gauss-Newton).
fn fit(asked: &Asked<'_>, scores: &Scores, start: f64, cap: Option<f32>) -> (f64, f64) {
    let mut factor = start;
    for _ in 0..STEPS {
        // With a cap the derivative is too large by its slope, which only shortens the steps.
        let (o, moved) = scores.output(asked, asked.kv, factor, cap);
        let square: f64 = moved.iter().map(|x| x * x).sum();
        let product: f64 =
            asked.o.iter().zip(&o).zip(&moved).map(|((got, o), moved)| (got - o) * moved).sum();
        let step = if square > 0.0 { product / square } else { 0.0 };
        factor = (factor + step).clamp(0.5 * factor, 2.0 * factor);
    }
    (factor, distance(asked, &scores.output(asked, asked.kv, factor, cap).0))
}

/// Euclidean distance of the outputs from `o`.
fn distance(asked: &Asked<'_>, o: &[f64]) -> f64 {
    let square: f64 = asked.o.iter().zip(o).map(|(got, o)| (got - o) * (got - o)).sum();
    square.sqrt()
}

fn norm(o: &[f64]) -> f64 {
    o.iter().map(|o| o * o).sum::<f64>().sqrt()
}
