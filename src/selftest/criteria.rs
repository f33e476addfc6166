//! The pass rules that people use, applied to the same outputs that the bound judges: how many wrong kernels each of
//! them would let through, and how many right ones it would accuse.

use attnproof_cases::replay::{CheckRow, Walk};
use attnproof_oracle::simulate::{Algorithm, Errors, Machine, Question, Rng, Rounding};
use attnproof_oracle::{Row, Spec};

use crate::runner::prepare::{PrepareError, Prepared};

/// What a rule sees of one check: outputs `[query token, q head, dv]` flattened.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The kernel's outputs.
    pub got: &'a [f64],
    /// The reference's.
    pub want: &'a [f64],
    /// Those of a plain f32 evaluation, for rules that compare with one.
    pub plain: &'a [f32],
}

/// A pass rule over a whole output tensor.
#[derive(Debug, Clone, Copy)]
pub struct Criterion {
    /// A short name.
    pub name: &'static str,
    /// The rule in words.
    pub rule: &'static str,
    accepts: fn(&Seen<'_>) -> bool,
}

impl Criterion {
    /// Whether the rule rejects the outputs.
    pub fn rejects(&self, seen: &Seen<'_>) -> bool {
        !(self.accepts)(seen)
    }
}

/// The rules, with their sources.
///
/// * `torch`: `torch.testing.assert_close` for f32. * `nmse`: the limit of `test-backend-ops` in ggml for
///   `FLASH_ATTN_EXT`. * `flash-attn`: the rule of `FlashAttention`'s tests, with their floor of 1e-5.
pub const CRITERIA: [Criterion; 6] = [
    Criterion { name: "1e-3", rule: "|got - want| <= 1e-3 + 1e-3 |want|", accepts: |s| close(s, 1e-3, 1e-3) },
    Criterion { name: "1e-2", rule: "|got - want| <= 1e-2 + 1e-2 |want|", accepts: |s| close(s, 1e-2, 1e-2) },
    Criterion {
        name: "torch",
        rule: "|got - want| <= 1e-5 + 1.3e-6 |want| (assert_close, f32)",
        accepts: |s| close(s, 1e-5, 1.3e-6),
    },
    Criterion {
        name: "nmse",
        rule: "sum (got - want)^2 <= 5e-4 sum want^2 (ggml)",
        accepts: |s| nmse(s) <= 5e-4,
    },
    Criterion { name: "cosine", rule: "cos(got, want) >= 0.99", accepts: |s| cosine(s) >= 0.99 },
    Criterion {
        name: "flash-attn",
        rule: "max |got - want| <= 2 max |plain f32 - want| + 1e-5 (FlashAttention)",
        accepts: |s| twice_the_baseline(s),
    },
];

/// A NaN anywhere is far from everything.
fn close(seen: &Seen<'_>, atol: f64, rtol: f64) -> bool {
    seen.got.iter().zip(seen.want).all(|(got, want)| (got - want).abs() <= atol + rtol * want.abs())
}

fn nmse(seen: &Seen<'_>) -> f64 {
    let error: f64 = seen.got.iter().zip(seen.want).map(|(got, want)| (got - want) * (got - want)).sum();
    let size: f64 = seen.want.iter().map(|want| want * want).sum();
    if error == 0.0 { 0.0 } else { error / size }
}

fn cosine(seen: &Seen<'_>) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let size = (dot(seen.got, seen.got) * dot(seen.want, seen.want)).sqrt();
    // Two zero tensors point the same way; one zero tensor points nowhere.
    if dot(seen.got, seen.got) == 0.0 && dot(seen.want, seen.want) == 0.0 {
        1.0
    } else {
        dot(seen.got, seen.want) / size
    }
}

fn twice_the_baseline(seen: &Seen<'_>) -> bool {
    let largest = |differences: &mut dyn Iterator<Item = f64>| {
        differences.fold(0.0, |top: f64, x| if x.is_nan() || top.is_nan() { f64::NAN } else { top.max(x) })
    };
    let error = largest(&mut seen.got.iter().zip(seen.want).map(|(got, want)| (got - want).abs()));
    let plain = largest(&mut seen.plain.iter().zip(seen.want).map(|(&p, want)| (f64::from(p) - want).abs()));
    error <= 2.0 * plain + 1e-5
}

/// Outputs `[query token, q head, dv]` of the rows of one check in plain f32: scores, softmax over the whole row, sum. It
/// is what a test suite computes as its baseline.
fn plain(spec: &Spec, rows: &[CheckRow]) -> Vec<f32> {
    let mut machine = Machine {
        rounding: Rounding::Nearest,
        errors: Errors::None,
        flush: false,
        coarse_tanh: false,
        rng: Rng(0),
    };
    let mut out = Vec::new();
    for row in rows {
        let q = row.q.mapv(f64::from);
        let asked = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
        for token in 0..row.q_len {
            for head in 0..spec.shape().q_heads {
                let question = Question::new(spec, &asked, token, head, None);
                if question.k.is_empty() {
                    out.extend(std::iter::repeat_n(0.0, spec.shape().dv));
                } else {
                    out.extend(Algorithm::TwoPass.run(&mut machine, spec.profile(), &question).0);
                }
            }
        }
    }
    out
}

/// The same of every check of a case.
///
/// # Errors
/// [`PrepareError::Case`].
pub fn of_case(prepared: &Prepared<'_>, seed: u64) -> Result<Vec<Vec<f32>>, PrepareError> {
    Walk::new(prepared.case, seed)?.map(|check| Ok(plain(&prepared.spec, &check?.rows))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejecting(got: &[f64], want: &[f64]) -> Vec<&'static str> {
        let plain: Vec<f32> = want.iter().map(|&x| x as f32).collect();
        let seen = Seen { got, want, plain: &plain };
        CRITERIA.iter().filter(|c| c.rejects(&seen)).map(|c| c.name).collect()
    }

    #[test]
    fn every_rule_rejects_what_it_says() {
        let want = [0.5, -0.25, 0.125, 1.0];
        assert_eq!(rejecting(&want, &want), [""; 0]);
        let off = |by: f64| want.map(|x| x + by);
        assert_eq!(rejecting(&off(2e-5), &want), ["torch", "flash-attn"]);
        assert_eq!(rejecting(&off(3e-3), &want), ["1e-3", "torch", "flash-attn"]);
        assert_eq!(rejecting(&off(0.05), &want), ["1e-3", "1e-2", "torch", "nmse", "flash-attn"]);
        let all: Vec<_> = CRITERIA.iter().map(|c| c.name).collect();
        assert_eq!(rejecting(&want.map(|x| -x), &want), all);
        assert_eq!(rejecting(&[f64::NAN, -0.25, 0.125, 1.0], &want), all, "NaN is far from everything");
        assert_eq!(rejecting(&[0.0; 4], &want), all);
        assert_eq!(rejecting(&[0.0; 4], &[0.0; 4]), [""; 0]);
    }
}
