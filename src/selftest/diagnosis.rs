//! Whether the diagnosis names the fault that was planted.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::Model;
use attnproof_report::kill::{Accuracy, KillMatrix};
use attnproof_report::model::{Diagnosis, Status};
use attnproof_shaders::fault::KernelFault;

use super::kernels::WrongTwin;
use super::{Plan, title};
use crate::diagnose::{diagnose, names};
use crate::runner::drive::Drive;
use crate::runner::lane::Lane;
use crate::runner::prepare::{Prepared, prepare};
use crate::runner::walk::walk;

/// One failure and what was said of it.
#[derive(Debug, Clone)]
pub struct Named {
    /// The fault that was planted.
    pub fault: String,
    /// `case;layout`.
    pub place: String,
    /// Whether the library has a hypothesis of that name.
    pub known: bool,
    /// What was said.
    pub diagnosis: Diagnosis,
}

/// Diagnoses up to `most` failures of every kernel fault of `plan` that `matrix` says are wrong numbers, each in another case
/// where there are so many. Order and choice do not depend on the number of threads.
pub fn diagnoses(
    plan: &Plan<'_>,
    matrix: &KillMatrix,
    most: usize,
    progress: &(dyn Fn(&str) + Sync),
) -> Vec<Named> {
    let work: Vec<(usize, &KernelFault)> = plan
        .kernels
        .iter()
        .enumerate()
        .filter(|(_, fault)| fault.equivalent.is_none())
        .map(|(i, f)| (i, *f))
        .collect();
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, Vec<Named>>> = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                while let Some(&(index, fault)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let named = of_fault(plan, matrix, fault, most);
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(index, named);
                    progress(fault.id);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().flatten().collect()
}

fn of_fault(plan: &Plan<'_>, matrix: &KillMatrix, fault: &KernelFault, most: usize) -> Vec<Named> {
    let Some(row) = matrix.faults.iter().find(|row| row.id == fault.id && row.site == "kernel") else {
        return Vec::new();
    };
    let numbers = |status| matches!(status, Some(Status::Wrong | Status::Nonfinite));
    let cells: Vec<_> = row.cells.iter().filter(|cell| numbers(cell.status)).collect();
    // spread over the catalogue: neighbours in it are alike
    let step = cells.len().div_ceil(most.max(1)).max(1);
    let mut named = Vec::new();
    for cell in cells.iter().step_by(step) {
        let (case, layouts) = &plan.selection.cases[cell.case];
        let Ok(prepared) = prepare(case, plan.seed, &[Model::strict()]) else { continue };
        let said = layouts.iter().find_map(|&layout| {
            failure(&prepared, layout, plan.seed, fault).map(|(known, diagnosis)| {
                (format!("{};layout={}", title(case), layout.name()), known, diagnosis)
            })
        });
        if let Some((place, known, diagnosis)) = said {
            named.push(Named { fault: fault.id.to_owned(), place, known, diagnosis });
        }
    }
    named
}

/// Whether the library knows a fault, and what is said of it in one case and layout, if its numbers are wrong there.
fn failure(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    seed: u64,
    fault: &KernelFault,
) -> Option<(bool, Diagnosis)> {
    let mut wrong = WrongTwin::new(fault);
    let mut lane = Lane::new(&mut wrong);
    let drive = Drive::new(prepared.case, layout, seed, false).ok()?;
    walk(prepared, drive, &mut |asked| {
        if lane.failed.is_none() && (fault.reach)(asked.problem) {
            lane.check(prepared, asked);
        }
    })
    .ok()?;
    let failed = lane.failed?;
    let known = names(prepared, seed, &failed).ok()?.iter().any(|name| name == fault.id);
    Some((known, diagnose(prepared, layout, seed, &failed, lane.kernel).ok()?))
}

/// How often the fault was named.
pub fn accuracy(named: &[Named]) -> Accuracy {
    let mut accuracy = Accuracy {
        asked: 0,
        named: 0,
        together: 0,
        missed: Vec::new(),
        strangers: 0,
        unwritten: 0,
        mistaken: Vec::new(),
    };
    for Named { fault, place, known, diagnosis } in named {
        let first: Vec<&str> = diagnosis.best.iter().flat_map(|best| best.id.split(" or ")).collect();
        let is_named = diagnosis.explained && first.contains(&fault.as_str());
        let said = || format!("{fault} in {place}: {}", diagnosis.lines().join("; "));
        if !known || diagnosis.unwritten {
            *(if *known { &mut accuracy.unwritten } else { &mut accuracy.strangers }) += 1;
            if diagnosis.explained && !is_named {
                accuracy.mistaken.push(said());
            }
            continue;
        }
        accuracy.asked += 1;
        match (is_named, first.len()) {
            (true, 1) => accuracy.named += 1,
            (true, _) => accuracy.together += 1,
            (false, _) => accuracy.missed.push(said()),
        }
    }
    accuracy
}
