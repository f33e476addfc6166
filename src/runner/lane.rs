//! One kernel under judgement over one case and layout.

use std::time::Instant;

use attnproof_layouts::pack::Poison;
use attnproof_layouts::tables::pieces;
use attnproof_report::model::Status;
use attnproof_shaders::dispatch::{Run, RunError};
use attnproof_shaders::results::Outputs;

use super::judge::Verdict;
use super::prepare::Prepared;
use super::walk::Asked;
use crate::diagnose::Failed;
use crate::kernel::Kernel;

/// A kernel's place in a run over one case and layout.
pub struct Lane<'k> {
    /// The kernel.
    pub kernel: &'k mut dyn Kernel,
    /// What is known of it so far.
    pub verdict: Verdict,
    /// Time spent in it.
    pub time_ms: f64,
    /// Whether its device was lost, so that nothing more can be asked.
    pub lost: bool,
    /// The first outputs that were not accepted.
    pub failed: Option<Failed>,
}

impl<'k> Lane<'k> {
    /// A lane that was asked nothing yet.
    pub fn new(kernel: &'k mut dyn Kernel) -> Self {
        Self { kernel, verdict: Verdict::default(), time_ms: 0.0, lost: false, failed: None }
    }

    /// Runs one check: twice on the same bytes, once per further poison, once with the probe.
    pub fn check(&mut self, prepared: &Prepared<'_>, asked: &Asked<'_>) {
        let &Asked { index, check, problem, images } = asked;
        if self.lost {
            return;
        }
        let started = Instant::now();
        let base = images.get(Poison::A);
        let others: Vec<_> =
            self.kernel.poisons().iter().map(|&poison| (poison, images.get(poison))).collect();
        let mut runs = vec![Run { pools: &base, probe: false }, Run { pools: &base, probe: false }];
        runs.extend(others.iter().map(|(_, pools)| Run { pools, probe: false }));
        runs.push(Run { pools: &base, probe: true });
        let ran = self.kernel.run(problem, &runs);
        self.time_ms += started.elapsed().as_secs_f64() * 1e3;
        let results = match ran {
            Ok(results) => results,
            Err(error) => {
                self.lost = matches!(error, RunError::Lost(_) | RunError::Timeout);
                let status = match error {
                    RunError::Limit { .. } => Status::Unsupported,
                    RunError::Timeout => Status::Timeout,
                    RunError::OutOfBounds { .. } => Status::OutOfBounds,
                    _ => Status::Error,
                };
                self.verdict.fail(status, format!("check {index}: {error}"));
                return;
            }
        };
        let model = self.kernel.model();
        let Some(tolerance) = check.tolerance(&model) else {
            self.verdict.fail(Status::Error, format!("no bound was computed for model {}", model.name));
            return;
        };
        let first = &results[0].outputs;
        let probed = results.last().map(|r| &r.outputs);
        let judged = self.verdict.outputs(check, index, tolerance, problem, first).and_then(|()| {
            // the probe's own output is a result of the same kernel, and must be within the bound too
            probed.map_or(Ok(()), |outputs| self.verdict.outputs(check, index, tolerance, problem, outputs))
        });
        self.keep(asked, first);
        if self.verdict.status.is_none() {
            self.further(prepared, asked, first);
        }
        match judged {
            Ok(()) => self.verdict.checks += 1,
            Err(error) => self.verdict.fail(Status::Error, format!("check {index}: {error}")),
        }
        if let Some(log) = results.last().and_then(|r| r.probe.as_ref()) {
            self.verdict.reads(prepared.case, check, problem, log);
        }
        if results[1].outputs != *first {
            let detail = format!("check {index}: two runs on the same bytes differ");
            self.verdict.fail(Status::Nondeterministic, detail);
            // what differs by itself says nothing about poison
            return;
        }
        for ((poison, _), result) in others.iter().zip(&results[2..]) {
            if result.outputs != *first {
                let detail =
                    format!("check {index}: the output depends on slots never written (poison {poison:?})");
                self.verdict.fail(Status::Wrong, detail);
            }
        }
    }

    /// The tests beyond the bound.
    fn further(&mut self, prepared: &Prepared<'_>, asked: &Asked<'_>, outputs: &Outputs) {
        let Asked { index, check, .. } = *asked;
        let model = self.kernel.model();
        let said =
            check.further.judge(prepared.case, &prepared.spec, prepared.seed, &model, &check.o, outputs);
        match said {
            Ok(said) => {
                let known = self.verdict.acceptance;
                self.verdict.acceptance = match (known, said.acceptance) {
                    (Some(known), Some(new)) => Some(known.worse(new)),
                    (known, new) => known.or(new),
                };
                if let Some(objection) = said.objection {
                    self.verdict.fail(Status::Wrong, format!("check {index}: {objection}"));
                }
            }
            Err(error) => self.verdict.fail(Status::Error, format!("check {index}: {error}")),
        }
    }

    /// Keeps outputs whose numbers were not accepted, if they are the first such.
    pub fn keep(&mut self, asked: &Asked<'_>, outputs: &Outputs) {
        let status = self.verdict.status;
        let place = self.verdict.worst.as_ref().filter(|worst| worst.check == asked.index);
        if let (None, Some(Status::Wrong | Status::Nonfinite), Some(worst)) = (&self.failed, status, place) {
            let launch = &asked.problem.launch;
            let first = asked.check.first_token(&worst.row);
            let token = first + worst.index.first().copied().unwrap_or(0);
            self.failed = Some(Failed {
                check: asked.index,
                outputs: outputs.clone(),
                schedule: launch.schedule,
                pieces: (0..launch.rows.len()).map(|row| pieces(launch.kind, &launch.tables, row)).collect(),
                worst: (token, worst.index.get(1).copied().unwrap_or(0)),
            });
        }
    }
}
