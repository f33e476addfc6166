//! Wrong kernels on one case and layout.

use std::rc::Rc;

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::{Poison, Pools};
use attnproof_layouts::tables::Tables;
use attnproof_oracle::Model;
use attnproof_report::PLANTED;
use attnproof_report::model::{Adapter, Status};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::cpu;
use attnproof_shaders::dispatch::{Run, RunError, RunResult};
use attnproof_shaders::fault::KernelFault;
use attnproof_shaders::results::Outputs;

use super::criteria::{CRITERIA, Seen};
use super::tally::Tally;
use super::{Plan, catches, title};
use crate::kernel::{Kernel, Twin};
use crate::runner::drive::Drive;
use crate::runner::lane::Lane;
use crate::runner::prepare::{Prepared, PreparedCheck};
use crate::runner::walk::{Asked, walk};

/// The CPU twin with a fault planted.
pub struct WrongTwin {
    twin: Twin,
    fault: KernelFault,
    name: String,
}

impl WrongTwin {
    /// A twin with `fault`.
    pub fn new(fault: &KernelFault) -> Self {
        Self { twin: Twin::new(), fault: *fault, name: format!("{PLANTED}{}", fault.id) }
    }
}

impl Kernel for WrongTwin {
    fn name(&self) -> &str {
        &self.name
    }

    fn adapter(&self) -> &Adapter {
        self.twin.adapter()
    }

    fn model(&self) -> Model {
        self.twin.model()
    }

    fn poisons(&self) -> &'static [Poison] {
        self.twin.poisons()
    }

    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        cpu::run_faulty(problem, runs, &self.fault)
    }
}

/// What the right kernel did at one check, and what it was given.
pub struct Right {
    /// Outputs and the words it loaded.
    result: RunResult,
    /// Whether it loaded any word that depends on the poison.
    meets_poison: bool,
    /// Its tables.
    tables: Tables,
    /// Its pools.
    pools: Rc<Pools>,
}

impl Right {
    fn of(kernel: &mut dyn Kernel, asked: &Asked<'_>) -> Result<Self, RunError> {
        let result = first_run(kernel, asked)?;
        let pools = asked.images.get(Poison::A);
        let meets_poison = kernel.poisons().iter().any(|&poison| {
            let other = asked.images.get(poison);
            let (side, other_side) = (asked.problem.side(&pools), asked.problem.side(&other));
            let bindings = [(&pools.k, &other.k, 0), (&pools.v, &other.v, 1), (&side, &other_side, 3)];
            bindings.iter().any(|(words, others, binding)| {
                let touched = result.probe.as_ref().map(|log| &log.bitmaps[*binding]);
                let is_touched =
                    |word: usize| touched.is_none_or(|map| (map[word / 32] >> (word % 32)) & 1 != 0);
                words.iter().zip(others.iter()).enumerate().any(|(word, (a, b))| a != b && is_touched(word))
            })
        });
        Ok(Self { result, meets_poison, tables: asked.problem.launch.tables.clone(), pools })
    }

    /// Whether a kernel is given the very same bytes and tables here.
    pub fn was_given(&self, asked: &Asked<'_>) -> bool {
        asked.problem.launch.tables == self.tables && *asked.images.get(Poison::A) == *self.pools
    }

    /// Whether a kernel that did this would do as the right one under every poison: it loaded the same words, none of which
    /// depends on the poison, and its outputs are the same.
    fn is_matched_by(&self, result: &RunResult) -> bool {
        let same_words = match (&result.probe, &self.result.probe) {
            (Some(log), Some(right)) => log == right,
            _ => false,
        };
        same_words && !self.meets_poison && result.outputs == self.result.outputs
    }
}

/// Puts every wrong kernel of `plan`, and the right one, to one case and layout; gives what the right one did at each check.
/// `plain` has a plain f32 evaluation of each check.
pub fn judge(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    plan: &Plan<'_>,
    case: usize,
    plain: &[Vec<f32>],
    tally: &mut Tally,
) -> Vec<Right> {
    let mut twin = Twin::new();
    let mut right = Lane::new(&mut twin);
    let mut known: Vec<Right> = Vec::new();
    let mut wrong: Vec<_> = plan.kernels.iter().map(|fault| WrongTwin::new(fault)).collect();
    let mut lanes: Vec<_> =
        wrong.iter_mut().map(|twin| Suspect { lane: Lane::new(twin), reached: false }).collect();
    let walked = Drive::new(prepared.case, layout, plan.seed, false).map_err(Into::into).and_then(|drive| {
        walk(prepared, drive, &mut |asked| {
            let baseline = &plain[asked.index];
            right.check(prepared, asked);
            let Ok(reference) = Right::of(right.kernel, asked) else { return };
            tally.right_rules(rejections(&reference.result.outputs, asked.check, baseline));
            for (index, (fault, suspect)) in plan.kernels.iter().zip(&mut lanes).enumerate() {
                if (fault.reach)(asked.problem) {
                    suspect.ask(prepared, asked, &reference, &mut |outputs| {
                        tally.rules(index, rejections(outputs, asked.check, baseline));
                    });
                }
            }
            known.push(reference);
        })
    });
    let place = || format!("{};layout={}", title(prepared.case), layout.name());
    if let Err(error) = walked {
        tally.false_alarms.push(format!("the right KV manager in {}: {error}", place()));
    }
    if let Some(status) = right.verdict.status {
        let detail = right.verdict.detail.unwrap_or_default();
        tally.false_alarms.push(format!("the right kernel in {}: {status}: {detail}", place()));
    }
    for (index, suspect) in lanes.iter().enumerate().filter(|(_, suspect)| suspect.reached) {
        tally.kernel(index, case, layout, suspect.lane.verdict.status.filter(|&status| catches(status)));
    }
    known
}

/// One wrong kernel in one case and layout.
struct Suspect<'k> {
    lane: Lane<'k>,
    reached: bool,
}

impl Suspect<'_> {
    /// Judges one run first; a kernel that passes it is run again, under every poison unless that can show nothing new. All
    /// outputs of first runs are shown to `see`.
    fn ask(
        &mut self,
        prepared: &Prepared<'_>,
        asked: &Asked<'_>,
        right: &Right,
        see: &mut dyn FnMut(&Outputs),
    ) {
        self.reached = true;
        let caught = self.lane.verdict.status.is_some();
        match first_run(self.lane.kernel, asked) {
            Ok(result) => {
                see(&result.outputs);
                if caught {
                    return;
                }
                if right.is_matched_by(&result) {
                    self.repeat(asked);
                    return;
                }
                self.judge(asked, &result.outputs);
                if self.lane.verdict.status.is_none() {
                    self.lane.check(prepared, asked);
                }
            }
            Err(_) if caught => {}
            Err(_) => self.lane.check(prepared, asked),
        }
    }

    fn judge(&mut self, asked: &Asked<'_>, outputs: &Outputs) {
        let Some(tolerance) = asked.check.tolerance(&self.lane.kernel.model()) else { return };
        let verdict = &mut self.lane.verdict;
        if let Err(error) = verdict.outputs(asked.check, asked.index, tolerance, asked.problem, outputs) {
            verdict.fail(Status::Error, error.to_string());
        }
        self.lane.keep(asked, outputs);
    }

    /// Two runs on the same bytes.
    fn repeat(&mut self, asked: &Asked<'_>) {
        let pools = asked.images.get(Poison::A);
        let run = Run { pools: &pools, probe: false };
        if let Ok(results) = self.lane.kernel.run(asked.problem, &[run, run])
            && results[0].outputs != results[1].outputs
        {
            let detail = format!("check {}: two runs on the same bytes differ", asked.index);
            self.lane.verdict.fail(Status::Nondeterministic, detail);
        }
    }
}

/// One run over the first poison, with the probe.
fn first_run(kernel: &mut dyn Kernel, asked: &Asked<'_>) -> Result<RunResult, RunError> {
    let pools = asked.images.get(Poison::A);
    let mut results = kernel.run(asked.problem, &[Run { pools: &pools, probe: true }])?;
    results.pop().ok_or_else(|| RunError::Validation("no result came back".to_owned()))
}

fn rejections(outputs: &Outputs, check: &PreparedCheck, plain: &[f32]) -> [bool; CRITERIA.len()] {
    let got: Vec<f64> = outputs.o().iter().map(|&bits| f64::from(f32::from_bits(bits))).collect();
    CRITERIA.map(|rule| rule.rejects(&Seen { got: &got, want: &check.o, plain }))
}
