//! Every wrong kernel and every wrong KV manager of the fault libraries against every case and layout that can show it:
//! what the harness is worth.
//!
//! The judge is the one of a run. A fault counts as caught where it is `wrong`, `nonfinite`, `unwritten`,
//! `out-of-bounds`, `nondeterministic`, `traffic-mismatch` or breaks an invariant; never by an error, a crash or a
//! timeout of the harness.

pub mod adapter;
pub mod criteria;
pub mod diagnosis;
pub mod kernels;
pub mod long;
pub mod managers;
mod tally;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use attnproof_cases::case::{Case, Family};
use attnproof_cases::fill::SUITE;
use attnproof_layouts::fault::ManagerFault;
use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::Model;
use attnproof_report::kill::{FaultRow, KillMatrix};
use attnproof_report::model::Status;
use attnproof_shaders::fault::KernelFault;

use crate::kernel::{Kernel as _, Twin};
use crate::runner::prepare::{PrepareError, prepare};
use crate::select::Selection;
use tally::Tally;

/// What to test.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'p> {
    /// Cases and layouts.
    pub selection: &'p Selection,
    /// Wrong kernels.
    pub kernels: &'p [&'p KernelFault],
    /// Wrong managers.
    pub managers: &'p [&'p ManagerFault],
    /// Seed of all inputs.
    pub seed: u64,
    /// Threads.
    pub jobs: usize,
    /// Whether the selection is all there is, so that a fault no case reaches is a failure.
    pub whole: bool,
}

/// Whether a status means that a fault was caught.
pub fn catches(status: Status) -> bool {
    matches!(
        status,
        Status::Wrong
            | Status::Nonfinite
            | Status::Unwritten
            | Status::OutOfBounds
            | Status::Nondeterministic
            | Status::TrafficMismatch
            | Status::Invariant
    )
}

/// Runs `plan` on the CPU twin. `progress` is told the name of each case done, once a layout.
///
/// # Errors
/// [`PrepareError`] of the first case that cannot be judged: a self-test of less than was asked for is none.
pub fn on_twin(plan: &Plan<'_>, progress: &(dyn Fn(&str) + Sync)) -> Result<KillMatrix, PrepareError> {
    let started = Instant::now();
    let work: Vec<(usize, &Case, &[LayoutKind])> =
        plan.selection.cases.iter().enumerate().map(|(i, (case, layouts))| (i, case, &layouts[..])).collect();
    let next = AtomicUsize::new(0);
    let sum = Mutex::new(Ok(Tally::new(plan.kernels.len(), plan.managers.len())));
    thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                // the longest cases come last in the catalogue; taken first, no thread is left alone with one
                while let Some(&(index, case, layouts)) =
                    work.iter().rev().nth(next.fetch_add(1, Ordering::Relaxed))
                {
                    let judged = one_case(plan, index, case, layouts, progress);
                    let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match (&mut *sum, judged) {
                        (Ok(sum), Ok(tally)) => sum.add(tally),
                        (Ok(_), Err(error)) => *sum = Err(error),
                        (Err(_), _) => return,
                    }
                }
            });
        }
    });
    let tally = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
    let twin = Twin::new();
    Ok(KillMatrix {
        suite: SUITE.to_owned(),
        seed: format!("{:#x}", plan.seed),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: twin.name().to_owned(),
        adapter: twin.adapter().clone(),
        model: twin.model().name.to_owned(),
        whole: plan.whole,
        cases: work.iter().map(|(_, case, _)| title(case)).collect(),
        criteria: tally.criteria(plan.kernels),
        false_alarms: tally.false_alarms.clone(),
        faults: tally.rows(plan.kernels, plan.managers),
        diagnosis: None,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// `family:name`.
pub fn title(case: &Case) -> String {
    format!("{}:{}", case.family.name(), case.name)
}

fn one_case(
    plan: &Plan<'_>,
    index: usize,
    case: &Case,
    layouts: &[LayoutKind],
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Tally, PrepareError> {
    let prepared = prepare(case, plan.seed, &[Model::strict()])?;
    let mut tally = Tally::new(plan.kernels.len(), plan.managers.len());
    let plain = criteria::of_case(&prepared, plan.seed)?;
    for &layout in layouts {
        let right = kernels::judge(&prepared, layout, plan, index, &plain, &mut tally);
        // the script of a probe is a prompt or two: nothing there for a manager to get wrong that the other cases have not
        if case.family != Family::Probe {
            managers::judge(&prepared, layout, plan, index, &right, &mut tally);
        }
        progress(&case.name);
    }
    Ok(tally)
}

/// A row without cells.
fn kernel_row(fault: &KernelFault) -> FaultRow {
    FaultRow {
        id: fault.id.to_owned(),
        kind: fault.kind.name().to_owned(),
        says: fault.says.to_owned(),
        site: "kernel".to_owned(),
        equivalent: fault.equivalent.map(str::to_owned),
        cells: Vec::new(),
    }
}

/// A row without cells.
fn manager_row(fault: &ManagerFault) -> FaultRow {
    FaultRow {
        id: fault.id.to_owned(),
        kind: fault.kind.name().to_owned(),
        says: fault.says.to_owned(),
        site: "manager".to_owned(),
        equivalent: fault.equivalent.map(str::to_owned),
        cells: Vec::new(),
    }
}
