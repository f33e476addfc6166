//! One drawn case on all its kernels: shares of the bound, and what is over it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use attnproof_cases::case::Case;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::Poison;
use attnproof_oracle::{Model, OutType, budget_used};
use attnproof_report::model::{Adapter, Class, Row, Status};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::dispatch::{Run, RunError, RunResult};
use attnproof_shaders::results::Outputs;

use super::draw::Drawn;
use super::sim::{Judged, Sim, SimError, simulate};
use super::stat::{Table, largest};
use crate::kernel::{Kernel, Kernels};
use crate::runner::prepare::{PrepareError, Prepared, prepare};
use crate::runner::{Options, run_case};

/// The name in place of a kernel's where the harness itself panicked.
pub const HARNESS: &str = "harness";

/// A right kernel that was not found right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Index of the drawn case.
    pub index: u64,
    /// Name of the kernel, [`HARNESS`] if there is none.
    pub kernel: String,
    /// What was found, in one line.
    pub detail: String,
}

/// What one case gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By kernel.
    pub table: Table,
    /// At most one a kernel.
    pub violations: Vec<Violation>,
}

/// First outputs of each check, as a [`Watched`] kernel saw them.
type Seen = Arc<Mutex<Vec<Outputs>>>;

/// A kernel whose outputs are kept.
struct Watched {
    inner: Box<dyn Kernel>,
    seen: Seen,
}

impl Kernel for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn adapter(&self) -> &Adapter {
        self.inner.adapter()
    }

    fn model(&self) -> Model {
        self.inner.model()
    }

    fn poisons(&self) -> &'static [Poison] {
        self.inner.poisons()
    }

    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        let results = self.inner.run(problem, runs)?;
        lock(&self.seen).extend(results.first().map(|result| result.outputs.clone()));
        Ok(results)
    }
}

/// A lock whose holder panicked still guards a whole list.
fn lock(seen: &Seen) -> std::sync::MutexGuard<'_, Vec<Outputs>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernels of one worker that run on packed bytes; each runs in every layout of a case.
pub struct Lab {
    kernels: Kernels,
    seen: Vec<Seen>,
    models: Vec<Model>,
}

/// The name of a built-in kernel in one layout.
fn name_in(kernel: &str, layout: LayoutKind) -> String {
    format!("{kernel} {}", layout.name())
}

impl Lab {
    /// A lab with these kernels.
    pub fn new(kernels: Kernels) -> Self {
        let seen: Vec<Seen> = kernels.iter().map(|_| Seen::default()).collect();
        let watched = kernels.into_iter().zip(&seen);
        let kernels: Kernels = watched
            .map(|(inner, seen)| Box::new(Watched { inner, seen: Arc::clone(seen) }) as Box<dyn Kernel>)
            .collect();
        let mut models: Vec<Model> = kernels.iter().map(|kernel| kernel.model()).collect();
        models.dedup_by(|a, b| a.name == b.name);
        Self { kernels, seen, models }
    }

    /// Kernels of the lab.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Puts `drawn` to its kernels. A panic is a violation of the [`HARNESS`].
    pub fn judge(&mut self, drawn: &Drawn, seed: u64) -> Outcome {
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let mut outcome = Outcome::default();
            let simulated =
                judge_sims(&drawn.case, seed, drawn.chance, &drawn.sims, drawn.index, &mut outcome);
            if let Err(error) = simulated {
                outcome.fault(drawn.index, HARNESS, error.to_string());
            }
            self.built_in(drawn, seed, &mut outcome);
            outcome
        }));
        judged.unwrap_or_else(|_| {
            let detail = "the harness panicked on this case; the reason is on standard error".to_owned();
            let violation = Violation { index: drawn.index, kernel: HARNESS.to_owned(), detail };
            let mut outcome = Outcome { violations: vec![violation], ..Outcome::default() };
            outcome.table.of(HARNESS).violations += 1;
            outcome
        })
    }

    fn built_in(&mut self, drawn: &Drawn, seed: u64, outcome: &mut Outcome) {
        if self.kernels.is_empty() {
            return;
        }
        let prepared = match prepare(&drawn.case, seed, &self.models) {
            Ok(prepared) => prepared,
            Err(PrepareError::NoGuarantee { .. } | PrepareError::Poison { .. }) => {
                for (kernel, &layout) in
                    self.kernels.iter().flat_map(|k| drawn.layouts.iter().map(move |l| (k, l)))
                {
                    outcome.table.of(&name_in(kernel.name(), layout)).no_guarantee += drawn.rows_per_kernel();
                }
                return;
            }
            Err(error) => return outcome.fault(drawn.index, HARNESS, error.to_string()),
        };
        for &layout in &drawn.layouts {
            self.seen.iter().for_each(|seen| lock(seen).clear());
            let ran = run_case(&prepared, layout, &mut self.kernels, Options { seed, careful: false });
            for ((kernel, seen), row) in self.kernels.iter().zip(&self.seen).zip(&ran.rows) {
                let name = name_in(kernel.name(), layout);
                if row.status == Status::Unsupported {
                    outcome.table.of(&name).no_guarantee += drawn.rows_per_kernel();
                    continue;
                }
                let mut over = 0;
                for shares in shares(&prepared, &kernel.model(), &lock(seen)) {
                    over += u64::from(outcome.table.of(&name).add(shares, drawn.index));
                }
                outcome.row(drawn.index, &name, row, over);
            }
        }
    }
}

impl Outcome {
    /// A violation that no row over its bound stands for.
    fn fault(&mut self, index: u64, kernel: &str, detail: String) {
        self.table.of(kernel).violations += 1;
        self.violations.push(Violation { index, kernel: kernel.to_owned(), detail });
    }

    /// What the runner says of a kernel of which `over` rows are over their bound.
    fn row(&mut self, index: u64, kernel: &str, row: &Row, over: u64) {
        if row.status.class() == Class::Pass && over == 0 {
            return;
        }
        let detail = format!("{}: {}", row.status.name(), row.detail.as_deref().unwrap_or("over the bound"));
        if over == 0 {
            self.fault(index, kernel, detail);
        } else {
            self.violations.push(Violation { index, kernel: kernel.to_owned(), detail });
        }
    }
}

/// Puts a case to simulated kernels.
///
/// # Errors
/// [`SimError`]: the case cannot be judged.
pub fn judge_sims(
    case: &Case,
    seed: u64,
    chance: u64,
    sims: &[Sim],
    index: u64,
    outcome: &mut Outcome,
) -> Result<(), SimError> {
    let mut worst: Vec<(String, [f64; 2])> = Vec::new();
    simulate(case, seed, chance, sims, &mut |sim, judged| {
        let name = sim.name();
        let stat = outcome.table.of(&name);
        match judged {
            Judged::NoGuarantee => stat.no_guarantee += 1,
            Judged::Shares(shares) => {
                if stat.add(shares, index) {
                    match worst.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, worst)) => {
                            *worst = [0, 1].map(|i| largest([worst[i], shares[i]].into_iter()));
                        }
                        None => worst.push((name, shares)),
                    }
                }
            }
        }
    })?;
    outcome.violations.extend(worst.into_iter().map(|(kernel, [o, lse])| Violation {
        index,
        kernel,
        detail: format!("o at {o:.3} of its bound, lse at {lse:.3}"),
    }));
    Ok(())
}

/// Shares of the bounds of o and lse of every output row, from the outputs of each check.
fn shares(prepared: &Prepared<'_>, model: &Model, outputs: &[Outputs]) -> Vec<[f64; 2]> {
    let dv = prepared.case.shape.dv;
    let mut shares = Vec::new();
    for (check, outputs) in prepared.checks.iter().zip(outputs) {
        let Some(tolerance) = check.tolerance(model) else { continue };
        for (row, &lse) in outputs.lse().iter().enumerate() {
            let used = |bits: u32, want: f64, bound: f64| {
                budget_used(f64::from(f32::from_bits(bits)), want, bound, OutType::F32)
            };
            let elements = row * dv..(row + 1) * dv;
            let o = elements.map(|at| used(outputs.o()[at], check.o[at], tolerance.o[at]));
            shares.push([largest(o), used(lse, check.lse[row], tolerance.lse[row])]);
        }
    }
    shares
}
