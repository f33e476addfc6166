//! The wrong shaders on an adapter: each fault in a few of the (case, layout) pairs in which its twin is caught.
//!
//! A fault is one more set of pipelines to compile, most of the time of a small case; the whole matrix would take an hour
//! on a software adapter. The twin's matrix says which pairs tell.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::Poison;
use attnproof_oracle::Model;
use attnproof_report::kill::{Cell, FaultRow, KillMatrix};
use attnproof_report::model::{Adapter as AdapterRow, Status};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::dispatch::{Run, RunError, RunResult};
use attnproof_shaders::fault::KernelFault;

use super::tally::{bit, note};
use super::{Plan, catches, kernel_row};
use crate::kernel::{Kernel, Wgsl};
use crate::runner::drive::Drive;
use crate::runner::lane::Lane;
use crate::runner::prepare::{PrepareError, Prepared, prepare};
use crate::runner::walk::walk;

/// The kernels of an adapter with a fault in them.
struct WrongWgsl<'k> {
    wgsl: &'k mut Wgsl,
    fault: &'k KernelFault,
}

impl Kernel for WrongWgsl<'_> {
    fn name(&self) -> &'static str {
        "wrong-wgsl"
    }

    fn adapter(&self) -> &AdapterRow {
        self.wgsl.adapter()
    }

    fn model(&self) -> Model {
        self.wgsl.model()
    }

    fn poisons(&self) -> &'static [Poison] {
        self.wgsl.poisons()
    }

    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        self.wgsl.run_faulty(problem, runs, self.fault)
    }
}

/// Runs the wrong shaders of `plan` on `wgsl`, each in at most `pairs` pairs in which `twin` says its twin is caught, no two
/// of one layout if that can be helped. Faults without a shader are left out. `progress` is told the name of each fault done.
///
/// # Errors
/// [`PrepareError`] of the first case that cannot be judged.
pub fn on_adapter(
    plan: &Plan<'_>,
    twin: &KillMatrix,
    wgsl: &mut Wgsl,
    pairs: usize,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<KillMatrix, PrepareError> {
    let started = Instant::now();
    let models = [wgsl.model()];
    let mut prepared: BTreeMap<usize, Prepared<'_>> = BTreeMap::new();
    let mut faults = Vec::new();
    for fault in plan.kernels.iter().filter(|fault| !fault.wgsl.is_empty()) {
        let mut row = kernel_row(fault);
        for (case, layout) in telling(plan, twin, fault, pairs) {
            let known = match prepared.entry(case) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(prepare(&plan.selection.cases[case].0, plan.seed, &models)?)
                }
            };
            let mut wrong = WrongWgsl { wgsl, fault };
            judge(known, layout, plan.seed, case, &mut wrong, &mut row);
        }
        progress(fault.id);
        faults.push(row);
    }
    Ok(KillMatrix {
        kernel: wgsl.name().to_owned(),
        adapter: wgsl.adapter().clone(),
        model: wgsl.model().name.to_owned(),
        faults,
        criteria: Vec::new(),
        diagnosis: None,
        false_alarms: Vec::new(),
        seconds: started.elapsed().as_secs_f64(),
        ..twin.clone()
    })
}

/// Pairs in which the twin of a fault is caught: of the cases that catch it in every layout they reach it in, those with the
/// fewest others first, each in another layout as long as there are some.
fn telling(
    plan: &Plan<'_>,
    twin: &KillMatrix,
    fault: &KernelFault,
    pairs: usize,
) -> Vec<(usize, LayoutKind)> {
    let Some(row) = twin.faults.iter().find(|row| row.id == fault.id) else { return Vec::new() };
    let mut cells: Vec<&Cell> = row.cells.iter().filter(|cell| cell.killed > 0).collect();
    // the twin's extra loads need not be the shader's: a case that shows wrong numbers tells more than one that counts loads
    let counts_loads = |cell: &Cell| cell.status == Some(Status::TrafficMismatch);
    cells.sort_by_key(|cell| (counts_loads(cell), cell.reached - cell.killed, cell.case));
    let mut chosen: Vec<(usize, LayoutKind)> = Vec::new();
    for cell in cells {
        let layouts =
            plan.selection.cases[cell.case].1.iter().filter(|&&layout| cell.killed_in & bit(layout) != 0);
        let uses = |layout: &LayoutKind| chosen.iter().filter(|(_, known)| known == layout).count();
        if let Some(&layout) = layouts.min_by_key(|layout| uses(layout)) {
            chosen.push((cell.case, layout));
        }
        if chosen.len() == pairs {
            break;
        }
    }
    chosen
}

fn judge(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    seed: u64,
    case: usize,
    wrong: &mut WrongWgsl<'_>,
    row: &mut FaultRow,
) {
    let reach = wrong.fault.reach;
    let mut lane = Lane::new(wrong);
    let mut reached = false;
    let walked = Drive::new(prepared.case, layout, seed, false).map_err(Into::into).and_then(|drive| {
        walk(prepared, drive, &mut |asked| {
            if lane.verdict.status.is_none() && reach(asked.problem) {
                reached = true;
                lane.check(prepared, asked);
            }
        })
    });
    if walked.is_err() || !reached {
        return;
    }
    let status = lane.verdict.status.filter(|&status| catches(status));
    let mut cells: BTreeMap<usize, Cell> = row.cells.iter().map(|&cell| (cell.case, cell)).collect();
    note(&mut cells, case, layout, status);
    row.cells = cells.into_values().collect();
}
