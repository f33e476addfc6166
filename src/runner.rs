//! One case from start to verdict: the script through the KV manager into a layout, kernels at every check, rows out.

pub mod acceptance;
pub mod all;
pub mod drive;
pub mod judge;
pub mod lane;
pub mod prepare;
pub mod walk;

use attnproof_cases::case::Case;
use attnproof_cases::fill::SUITE;
use attnproof_layouts::kind::LayoutKind;
use attnproof_report::model::{Counts, Diagnosis, Row, Status};

use crate::diagnose::diagnose;
use crate::kernel::{Kernel, Kernels};
use drive::{Drive, DriveError};
use lane::Lane;
use prepare::Prepared;
use walk::{CheckError, walk};

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Seed of all inputs.
    pub seed: u64,
    /// Whether the manager and the content of every slot are checked after every operation.
    pub careful: bool,
}

/// Rows of one case in one layout, and whether a device was lost on the way.
#[derive(Debug)]
pub struct CaseRun {
    /// One row per kernel.
    pub rows: Vec<Row>,
    /// Whether a kernel's device was lost.
    pub device_lost: bool,
}

/// Runs `prepared` in `layout` on every kernel and judges each.
pub fn run_case(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    kernels: &mut Kernels,
    options: Options,
) -> CaseRun {
    let mut lanes: Vec<Lane<'_>> = kernels.iter_mut().map(|k| Lane::new(k.as_mut())).collect();
    let walked = Drive::new(prepared.case, layout, options.seed, options.careful)
        .map_err(CheckError::from)
        .and_then(|drive| {
            walk(prepared, drive, &mut |asked| {
                for lane in &mut lanes {
                    lane.check(prepared, asked);
                }
            })
        });
    let counts = walked.unwrap_or_else(|error| {
        let status = match &error {
            CheckError::Drive(DriveError::Broken { .. }) => Status::Invariant,
            CheckError::Drive(_) | CheckError::Lower { .. } => Status::Error,
        };
        for lane in &mut lanes {
            lane.verdict.fail(status, error.to_string());
        }
        Counts::default()
    });
    let device_lost = lanes.iter().any(|lane| lane.lost);
    let rows = lanes.into_iter().map(|lane| row(prepared, layout, lane, counts, options.seed)).collect();
    CaseRun { rows, device_lost }
}

/// The row of a case that cannot be judged.
pub fn unprepared(case: &Case, layout: LayoutKind, kernel: &dyn Kernel, seed: u64, reason: &str) -> Row {
    Row { status: Status::Error, detail: Some(reason.to_owned()), ..blank(case, layout, kernel, seed) }
}

/// The row of a case that made the harness itself panic.
pub fn crashed(case: &Case, layout: LayoutKind, kernel: &dyn Kernel, seed: u64) -> Row {
    let detail = Some("the harness panicked on this case; the reason is on standard error".to_owned());
    Row { status: Status::Crash, detail, ..blank(case, layout, kernel, seed) }
}

/// The row of a case that was left out.
pub fn not_run(case: &Case, layout: LayoutKind, kernel: &dyn Kernel, seed: u64, reason: &str) -> Row {
    Row { detail: Some(reason.to_owned()), ..blank(case, layout, kernel, seed) }
}

fn blank(case: &Case, layout: LayoutKind, kernel: &dyn Kernel, seed: u64) -> Row {
    Row {
        id: case.id_for(layout.name()),
        name: case.name.clone(),
        layout: layout.name().to_owned(),
        kernel: kernel.name().to_owned(),
        adapter: kernel.adapter().clone(),
        status: Status::NotRun,
        detail: None,
        budget_used: None,
        over: None,
        worst: None,
        diagnosis: None,
        acceptance: None,
        reads: None,
        counts: None,
        model: kernel.model().name.to_owned(),
        seed: format!("{seed:#x}"),
        suite: SUITE.to_owned(),
        inputs_sha256: String::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        limits: kernel.limits(),
        why: Some(case.why.clone()),
        time_ms: 0.0,
    }
}

fn row(prepared: &Prepared<'_>, layout: LayoutKind, lane: Lane<'_>, counts: Counts, seed: u64) -> Row {
    let diagnosis = lane.failed.filter(|_| !lane.lost).map(|failed| {
        diagnose(prepared, layout, seed, &failed, lane.kernel).unwrap_or_else(|e| Diagnosis {
            seen: vec![format!("no diagnosis: {e}")],
            ..Diagnosis::default()
        })
    });
    let mut verdict = lane.verdict;
    let asked = prepared.checks.len() as u64;
    if verdict.status.is_none() && (verdict.checks != asked || asked == 0) {
        verdict.fail(Status::Error, format!("{} of {asked} checks were judged", verdict.checks));
    }
    let judged = verdict.checks > 0 && verdict.budget_used.is_finite();
    Row {
        status: verdict.status.unwrap_or(Status::Pass),
        detail: verdict.detail,
        budget_used: judged.then_some(verdict.budget_used),
        over: verdict.over,
        worst: verdict.worst,
        diagnosis,
        acceptance: verdict.acceptance,
        reads: verdict.reads,
        counts: Some(Counts { checks: verdict.checks, ..counts }),
        inputs_sha256: prepared.inputs_sha256.clone(),
        time_ms: lane.time_ms,
        ..blank(prepared.case, layout, lane.kernel, seed)
    }
}
