//! The verdict on one check: outputs against the reference by the bound, runs against each other, reads against the
//! prediction.

use std::ops::Range;

use attnproof_cases::case::Case;
use attnproof_layouts::launch::{Attention, CausalKind, UNLIMITED};
use attnproof_layouts::traffic::{self, Touched};
use attnproof_oracle::{CompareError, Finding, OutType, Tensor, TensorVerdict, compare};
use attnproof_report::model as report;
use attnproof_report::model::{Num, Over, Status, Worst};
use attnproof_shaders::abi::{Problem, UNWRITTEN};
use attnproof_shaders::results::{Outputs, ProbeLog};

use super::prepare::{PreparedCheck, Tolerance};

/// The multiple of the bound that is allowed.
const POLICY: f64 = 1.0;

/// What is known of one case, layout and kernel so far.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The worst status so far; pass if none.
    pub status: Option<Status>,
    /// Why it is not a pass.
    pub detail: Option<String>,
    /// The largest share of a bound used.
    pub budget_used: f64,
    /// Elements over the bound in the worst tensor.
    pub over: Option<Over>,
    /// The element that uses most.
    pub worst: Option<Worst>,
    /// The tests of random data.
    pub acceptance: Option<report::Acceptance>,
    /// Reads, summed over checks.
    pub reads: Option<report::Reads>,
    /// Checks judged.
    pub checks: u64,
}

impl Verdict {
    /// Takes `status` if it is worse than what is known.
    pub fn fail(&mut self, status: Status, detail: String) {
        let worse = self.status.map_or(status, |known| Status::worse(known, status));
        if self.status != Some(worse) {
            self.status = Some(worse);
            self.detail = Some(detail);
        }
    }

    /// Judges the outputs of one run.
    ///
    /// # Errors
    /// [`CompareError`] if there is nothing to compare: an error of the harness, never a pass.
    pub fn outputs(
        &mut self,
        check: &PreparedCheck,
        index: usize,
        tolerance: &Tolerance,
        problem: &Problem,
        outputs: &Outputs,
    ) -> Result<(), CompareError> {
        let tokens = problem.launch.q_tokens as usize;
        let heads = problem.launch.q_heads as usize;
        let guards = outputs.guards();
        let o_shape = [tokens, heads, problem.launch.dv as usize];
        for (name, shape, got_bits, want, bound) in [
            ("o", &o_shape[..], outputs.o(), &check.o, &tolerance.o),
            ("lse", &o_shape[..2], outputs.lse(), &check.lse, &tolerance.lse),
        ] {
            let tensor = Tensor {
                name,
                shape,
                got_bits,
                out: OutType::F32,
                want,
                bound,
                guards: &guards,
                guard_pattern: UNWRITTEN,
            };
            self.tensor(check, index, name, compare(&tensor, POLICY)?);
        }
        Ok(())
    }

    fn tensor(&mut self, check: &PreparedCheck, index: usize, name: &str, verdict: TensorVerdict) {
        let status = match verdict.finding {
            Finding::Pass => None,
            Finding::Wrong => Some(Status::Wrong),
            Finding::Nonfinite => Some(Status::Nonfinite),
            Finding::Unwritten => Some(Status::Unwritten),
            Finding::OutOfBounds => Some(Status::OutOfBounds),
        };
        let leads = self.worst.is_none() || verdict.budget_used > self.budget_used;
        if leads {
            self.budget_used = verdict.budget_used;
            self.worst = verdict.worst.map(|worst| {
                let (row, token) = check.row_of(worst.index.first().copied().unwrap_or(0));
                let mut place = worst.index;
                if let Some(first) = place.first_mut() {
                    *first = token;
                }
                Worst {
                    tensor: name.to_owned(),
                    check: index,
                    row: row.to_owned(),
                    index: place,
                    got: Num(worst.got),
                    want: Num(worst.want),
                    bound: Num(worst.bound),
                }
            });
        }
        if let Some(status) = status {
            if leads {
                let (over, total) = (verdict.over as u64, verdict.total as u64);
                self.over = Some(Over { tensor: name.to_owned(), over, total });
            }
            self.fail(status, format!("check {index}: {name} is {}", status.name()));
        }
    }

    /// Judges the probe's log against the prediction from the tables.
    pub fn reads(&mut self, case: &Case, check: &PreparedCheck, problem: &Problem, log: &ProbeLog) {
        let distinct = log.distinct();
        let [k, v, tables, scales] = [0, 1, 2, 3].map(|i| report::Touched {
            loads: log.loads[i],
            words: distinct[i][0],
            sectors: distinct[i][1],
            lines: distinct[i][2],
        });
        let expected = traffic::predict(&problem.launch);
        let predicted = report::Predicted {
            k: touched(expected.k),
            v: touched(expected.v),
            tables: touched(expected.tables),
            scales: touched(expected.scales),
        };
        let predicted_equal = predicted == report::Predicted { k, v, tables, scales };
        let (needed_bytes, unique_bytes) = needed(case, check, &problem.launch.attention);
        let reads = report::Reads {
            k,
            v,
            tables,
            scales,
            needed_bytes,
            unique_bytes,
            predicted_equal,
            predicted: (!predicted_equal).then(|| Box::new(predicted)),
        };
        if !predicted_equal {
            let detail =
                format!("measured {:?}, predicted {predicted:?}", report::Predicted { k, v, tables, scales });
            self.fail(Status::TrafficMismatch, detail);
        }
        self.reads = Some(match self.reads.take() {
            None => reads,
            Some(known) => {
                let first_wrong = known.predicted.clone().or_else(|| reads.predicted.clone());
                report::Reads { predicted: first_wrong, ..known.plus(&reads) }
            }
        });
    }
}

fn touched(t: Touched) -> report::Touched {
    report::Touched { loads: t.loads, words: t.words, sectors: t.sectors, lines: t.lines }
}

/// Bytes of K and V that the rows need if nothing is shared, and that all of them together need: identities are chain
/// hash and position, so a duplicate of a shared prefix counts once.
fn needed(case: &Case, check: &PreparedCheck, attention: &Attention) -> (u64, u64) {
    let shape = case.shape;
    let token_bytes = (shape.kv_heads * (shape.d + shape.dv) * case.kv.bytes()) as u64;
    let mut all = 0;
    let mut identities = Vec::new();
    for row in &check.rows {
        let seen = seen_keys(attention, row.len, row.q_len);
        all += seen.len() as u64;
        identities.extend_from_slice(&row.identity[seen]);
    }
    identities.sort_unstable();
    identities.dedup();
    (all * token_bytes, identities.len() as u64 * token_bytes)
}

/// Keys that some query token of a row sees: from the first that the first token sees to the last that the last sees.
fn seen_keys(attention: &Attention, len: usize, q_len: usize) -> Range<usize> {
    let first = attention.first_position(len as u32, q_len as u32);
    let last = first + q_len as i64 - 1;
    let mut end = len as i64;
    if attention.causal != CausalKind::None {
        end = end.min(last + 1);
    }
    if attention.right != UNLIMITED {
        end = end.min(last + i64::from(attention.right) + 1);
    }
    let end = end.max(0) as usize;
    (attention.first_key(first) as usize).min(end)..end
}
