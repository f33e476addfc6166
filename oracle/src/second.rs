//! The same answer, computed another way, to check [`crate::reference`]: one key at a time with a running maximum,
//! compensated sums over scalars, and rules for masks, heads and biases written anew.

use ndarray::{Array2, Array3};

use crate::{
    error::OracleError,
    reference::{Answer, Row},
    spec::{AlibiOrigin, BiasOrder, Causal, EmptyRow, HeadMap, LseBase, LseEmpty, Spec},
};

/// Attention of every query token of `row`, as [`crate::reference::attention`] defines it.
///
/// # Errors
/// [`OracleError::Shape`] where a tensor does not fit the spec or the others.
pub fn attention(spec: &Spec, row: &Row<'_>) -> Result<Answer, OracleError> {
    let (tq, tk) = row.check(spec)?;
    let (shape, profile) = (spec.shape(), spec.profile());
    let mut o = Array3::zeros((tq, shape.q_heads, shape.dv));
    let mut lse = Array2::zeros((tq, shape.q_heads));
    for h in 0..shape.q_heads {
        let kv = match profile.head_map {
            HeadMap::Floor => h * shape.kv_heads / shape.q_heads,
            HeadMap::Modulo => h - h / shape.kv_heads * shape.kv_heads,
        };
        for i in 0..tq {
            let mut running = Running::new(shape.dv);
            for j in 0..tk {
                let ahead = keys_ahead(spec, (i, tq), (j, tk));
                if !allowed(spec, ahead) || row.mask.is_some_and(|mask| !mask[[i, j]]) {
                    continue;
                }
                let mut dot = Sum::default();
                for d in 0..shape.d {
                    dot.add(row.q[[i, h, d]] * row.k[[j, kv, d]]);
                }
                running.rise_to(final_score(spec, h, j, ahead, dot.value() * spec.scale()));
                for c in 0..shape.dv {
                    running.numerators[c].add(running.weight * row.v[[j, kv, c]]);
                }
            }
            if let Some(sinks) = &profile.sinks {
                running.rise_to(f64::from(sinks[h]));
            }
            for c in 0..shape.dv {
                o[[i, h, c]] = match (running.any, profile.empty_row) {
                    (true, _) => running.numerators[c].value() / running.denominator.value(),
                    (false, EmptyRow::Zero) => 0.0,
                    (false, EmptyRow::Nan) => f64::NAN,
                };
            }
            lse[[i, h]] = match (running.any, profile.lse_empty, profile.lse_base) {
                (false, LseEmpty::NegInf, _) => f64::NEG_INFINITY,
                (false, LseEmpty::PosInf, _) => f64::INFINITY,
                (true, _, LseBase::E) => running.max + libm::log(running.denominator.value()),
                (true, _, LseBase::Two) => {
                    running.max / std::f64::consts::LN_2 + libm::log2(running.denominator.value())
                }
            };
        }
    }
    Ok(Answer { o, lse })
}

/// How many keys `j` lies ahead of the query's own position: 0 is the query's own key, negative is the past.
fn keys_ahead(spec: &Spec, (i, tq): (usize, usize), (j, tk): (usize, usize)) -> i64 {
    if spec.profile().causal == Causal::TopLeft {
        j as i64 - i as i64
    } else {
        // Both counted from the end, where queries and keys meet.
        (tq - i) as i64 - (tk - j) as i64
    }
}

/// Whether causal limit and window admit a key this far ahead.
fn allowed(spec: &Spec, ahead: i64) -> bool {
    let profile = spec.profile();
    let mut most = profile.window.right.map_or(i64::MAX, i64::from);
    if profile.causal != Causal::None {
        most = most.min(0);
    }
    let least = profile.window.left.map_or(i64::MIN, |left| -i64::from(left));
    (least..=most).contains(&ahead)
}

/// The score after softcap and bias.
fn final_score(spec: &Spec, h: usize, j: usize, ahead: i64, mut x: f64) -> f64 {
    let profile = spec.profile();
    let bias = spec.slopes().map_or(0.0, |slopes| {
        let steps = if profile.alibi_origin == AlibiOrigin::Absolute {
            j as f64
        } else if profile.causal == Causal::None && ahead > 0 {
            -ahead as f64
        } else {
            ahead as f64
        };
        f64::from(slopes[h]) * steps
    });
    let bias_first = profile.bias_order == BiasOrder::AlibiThenCap;
    if bias_first {
        x += bias;
    }
    if let Some(cap) = profile.softcap {
        // tanh t = (1 - e^(-2t)) / (1 + e^(-2t)) for t >= 0, odd in t.
        let cap = f64::from(cap);
        let e = libm::expm1(-2.0 * (x / cap).abs());
        x = (-e / (2.0 + e)).copysign(x) * cap;
    }
    if bias_first { x } else { x + bias }
}

/// The state of a softmax over the keys seen so far.
struct Running {
    any: bool,
    max: f64,
    /// `exp(score - max)` of the latest key.
    weight: f64,
    denominator: Sum,
    numerators: Vec<Sum>,
}

impl Running {
    fn new(dv: usize) -> Running {
        Running {
            any: false,
            max: 0.0,
            weight: 0.0,
            denominator: Sum::default(),
            numerators: vec![Sum::default(); dv],
        }
    }

    /// Takes in one score: rescales what is there if it is the new maximum, sets `weight`, adds it to the
    /// denominator.
    fn rise_to(&mut self, score: f64) {
        if !self.any {
            self.any = true;
            self.max = score;
        } else if score > self.max {
            let factor = libm::exp(self.max - score);
            self.denominator.scale(factor);
            self.numerators.iter_mut().for_each(|sum| sum.scale(factor));
            self.max = score;
        }
        self.weight = libm::exp(score - self.max);
        self.denominator.add(self.weight);
    }
}

/// A compensated sum (Neumaier, 1974).
#[derive(Clone, Copy, Default)]
struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let total = self.total + x;
        self.lost +=
            if self.total.abs() >= x.abs() { (self.total - total) + x } else { (x - total) + self.total };
        self.total = total;
    }

    fn scale(&mut self, factor: f64) {
        self.total *= factor;
        self.lost *= factor;
    }

    fn value(self) -> f64 {
        self.total + self.lost
    }
}
