//! A whole selection over several workers. Each worker has devices of its own and takes one layout after another, so
//! that every pipeline is compiled once in a run; the oracle is asked once per case, before.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::Model;
use attnproof_report::model::Row;

use super::prepare::{PrepareError, Prepared, prepare};
use super::{Options, crashed, not_run, run_case, unprepared};
use crate::kernel::Kernels;
use crate::select::Selection;

/// Devices lost in a row that end a worker's run.
const LOST_IN_A_ROW: u32 = 3;

/// The rows of a run.
#[derive(Debug)]
pub struct AllRun {
    /// By target, then case in catalogue order, then layout, then kernel.
    pub rows: Vec<Row>,
    /// Why the run ended early, if it did.
    pub ended: Option<String>,
}

type Answer<'s> = Result<Prepared<'s>, PrepareError>;

/// Runs `selection` on one target after another. A target is its workers, each a set of the same kernels. `progress` is
/// told the name of each case done, once a target and layout.
pub fn run_all(
    selection: &Selection,
    targets: Vec<Vec<Kernels>>,
    options: Options,
    progress: &(dyn Fn(&str) + Sync),
) -> AllRun {
    let mut models: Vec<Model> = Vec::new();
    for kernel in targets.iter().filter_map(|workers| workers.first()).flatten() {
        let model = kernel.model();
        if models.iter().all(|known| known.name != model.name) {
            models.push(model);
        }
    }
    let threads = targets.iter().map(Vec::len).max().unwrap_or(0);
    let prepared = prepare_all(selection, &models, options.seed, threads);
    let mut all = AllRun { rows: Vec::new(), ended: None };
    for workers in targets {
        let ran = run_target(selection, &prepared, workers, options, progress);
        all.rows.extend(ran.rows);
        all.ended = all.ended.or(ran.ended);
    }
    all
}

fn run_target(
    selection: &Selection,
    prepared: &[Answer<'_>],
    workers: Vec<Kernels>,
    options: Options,
    progress: &(dyn Fn(&str) + Sync),
) -> AllRun {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let ended = Mutex::new(None);
    thread::scope(|scope| {
        for mut kernels in workers {
            let (next, done, ended) = (&next, &done, &ended);
            scope.spawn(move || {
                while let Some(layout) = LayoutKind::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let reason =
                        run_layout(selection, prepared, *layout, &mut kernels, options, progress, done);
                    if reason.is_some() {
                        *lock(ended) = reason;
                    }
                }
            });
        }
    });
    let rows = lock(&done);
    AllRun { rows: rows.values().flatten().cloned().collect(), ended: lock(&ended).take() }
}

/// A lock whose holder panicked still guards whole values: every update is one insertion.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn prepare_all<'s>(selection: &'s Selection, models: &[Model], seed: u64, threads: usize) -> Vec<Answer<'s>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((case, _)) = selection.cases.get(index) else { break };
                    let answer = prepare(case, seed, models);
                    lock(&done).insert(index, answer);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}

/// All cases of one layout; the reason if it had to end early.
fn run_layout(
    selection: &Selection,
    prepared: &[Answer<'_>],
    layout: LayoutKind,
    kernels: &mut Kernels,
    options: Options,
    progress: &(dyn Fn(&str) + Sync),
    done: &Mutex<BTreeMap<(usize, LayoutKind), Vec<Row>>>,
) -> Option<String> {
    let mut lost = 0;
    for (index, ((case, layouts), answer)) in selection.cases.iter().zip(prepared).enumerate() {
        if !layouts.contains(&layout) {
            continue;
        }
        let each = |row: &dyn Fn(&dyn crate::kernel::Kernel) -> Row, kernels: &Kernels| -> Vec<Row> {
            kernels.iter().map(|k| row(k.as_ref())).collect()
        };
        let rows = match answer {
            _ if lost >= LOST_IN_A_ROW => each(
                &|k| not_run(case, layout, k, options.seed, "the device was lost again and again"),
                kernels,
            ),
            Err(error) => each(&|k| unprepared(case, layout, k, options.seed, &error.to_string()), kernels),
            Ok(prepared) => {
                match catch_unwind(AssertUnwindSafe(|| run_case(prepared, layout, kernels, options))) {
                    Ok(ran) => {
                        lost = if ran.device_lost { lost + 1 } else { 0 };
                        ran.rows
                    }
                    // one broken case is its own status, not the end of the run
                    Err(_) => each(&|k| crashed(case, layout, k, options.seed), kernels),
                }
            }
        };
        lock(done).insert((index, layout), rows);
        progress(&case.name);
    }
    (lost >= LOST_IN_A_ROW).then(|| format!("{}: device lost {LOST_IN_A_ROW} times in a row", layout.name()))
}
