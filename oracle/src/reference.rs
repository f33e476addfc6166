//! The answer: attention in f64, two passes, written to be believed after one reading.

use ndarray::{Array2, Array3, ArrayView1, ArrayView2, ArrayView3, s};

use crate::{
    error::OracleError,
    rule::{alibi_bias, kv_head, position, visible_keys},
    spec::{BiasOrder, EmptyRow, LseBase, LseEmpty, Spec},
};

/// One sequence of a call: dense logical tensors, each value exactly what the stored bytes stand for.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Queries, `[query token, q head, d]`.
    pub q: ArrayView3<'a, f64>,
    /// Keys, `[key, kv head, d]`.
    pub k: ArrayView3<'a, f64>,
    /// Values, `[key, kv head, dv]`.
    pub v: ArrayView3<'a, f64>,
    /// An explicit mask, `[query token, key]`, true where the key may be seen. Causal limit and window apply too.
    pub mask: Option<ArrayView2<'a, bool>>,
}

impl Row<'_> {
    /// Checks the shapes against the spec and each other; returns the numbers of query tokens and of keys.
    pub(crate) fn check(&self, spec: &Spec) -> Result<(usize, usize), OracleError> {
        let (tq, tk, shape) = (self.q.dim().0, self.k.dim().0, spec.shape());
        let wrong = |tensor, axes, found: &[usize], expected: &[usize]| {
            if found == expected {
                Ok(())
            } else {
                Err(OracleError::Shape { tensor, axes, expected: expected.to_vec(), found: found.to_vec() })
            }
        };
        wrong("q", "[query token, q head, d]", self.q.shape(), &[tq, shape.q_heads, shape.d])?;
        wrong("k", "[key, kv head, d]", self.k.shape(), &[tk, shape.kv_heads, shape.d])?;
        wrong("v", "[key, kv head, dv]", self.v.shape(), &[tk, shape.kv_heads, shape.dv])?;
        if let Some(mask) = self.mask {
            wrong("mask", "[query token, key]", mask.shape(), &[tq, tk])?;
        }
        Ok((tq, tk))
    }
}

/// The output and the log-sum-exp of one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// `[query token, q head, dv]`.
    pub o: Array3<f64>,
    /// `[query token, q head]`, in the base and with the value for empty rows that the profile declares.
    pub lse: Array2<f64>,
}

impl Answer {
    /// An answer for `tq` query tokens in which every row is empty.
    pub fn empty(spec: &Spec, tq: usize) -> Answer {
        let o = match spec.profile().empty_row {
            EmptyRow::Zero => 0.0,
            EmptyRow::Nan => f64::NAN,
        };
        let lse = match spec.profile().lse_empty {
            LseEmpty::NegInf => f64::NEG_INFINITY,
            LseEmpty::PosInf => f64::INFINITY,
        };
        let shape = spec.shape();
        Answer {
            o: Array3::from_elem((tq, shape.q_heads, shape.dv), o),
            lse: Array2::from_elem((tq, shape.q_heads), lse),
        }
    }
}

/// Attention of every query token of `row` over the keys it sees.
///
/// No query token and no key are legal. NaN and infinity in a visible key or value propagate as IEEE arithmetic
/// has it; in a masked one they leave no trace.
///
/// # Errors
/// [`OracleError::Shape`] where a tensor does not fit the spec or the others.
pub fn attention(spec: &Spec, row: &Row<'_>) -> Result<Answer, OracleError> {
    let (tq, tk) = row.check(spec)?;
    let mut answer = Answer::empty(spec, tq);
    for i in 0..tq {
        let p = position(spec, i, tq, tk);
        let keys = visible_keys(spec, row.mask, i, p, tk);
        for h in 0..spec.shape().q_heads {
            let sink = spec.sink(h);
            if keys.is_empty() && sink.is_none() {
                continue;
            }
            let kv = kv_head(spec, h);
            let q = row.q.slice(s![i, h, ..]);
            let scores: Vec<f64> = keys
                .iter()
                .map(|&j| score(spec, &q, &row.k.slice(s![j, kv, ..]), alibi_bias(spec, h, p, j)))
                .collect();

            let m = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| libm::exp(s - m)).collect();
            let l = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| libm::exp(sink - m));

            let mut o = answer.o.slice_mut(s![i, h, ..]);
            o.fill(0.0);
            for (&j, w) in keys.iter().zip(&weights) {
                o.scaled_add(w / l, &row.v.slice(s![j, kv, ..]));
            }
            answer.lse[[i, h]] = in_base(spec, m + libm::log(l));
        }
    }
    Ok(answer)
}

/// The score of one key: scaled dot product, softcap and bias in the declared order.
fn score(spec: &Spec, q: &ArrayView1<'_, f64>, k: &ArrayView1<'_, f64>, bias: f64) -> f64 {
    let x = spec.scale() * q.dot(k);
    let cap = |x: f64| match spec.profile().softcap.map(f64::from) {
        Some(c) => c * libm::tanh(x / c),
        None => x,
    };
    match spec.profile().bias_order {
        BiasOrder::CapThenAlibi => cap(x) + bias,
        BiasOrder::AlibiThenCap => cap(x + bias),
    }
}

/// A natural logarithm in the declared base.
fn in_base(spec: &Spec, ln: f64) -> f64 {
    match spec.profile().lse_base {
        LseBase::E => ln,
        LseBase::Two => ln * std::f64::consts::LOG2_E,
    }
}
