//! One case from start to verdict: the script through the KV manager into a layout, kernels at every check, rows out.

pub mod all;
pub mod drive;
pub mod judge;
pub mod prepare;

use std::collections::BTreeMap;
use std::time::Instant;

use attnproof_cases::case::Case;
use attnproof_cases::fill::SUITE;
use attnproof_cases::script::Op;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::{Attention, CausalKind, Launch, Split, UNLIMITED};
use attnproof_layouts::pack::{Poison, Pools};
use attnproof_layouts::tables::{LowerError, RowQuery};
use attnproof_oracle::{BiasOrder, Causal, Spec};
use attnproof_report::model::{Counts, Row, Status};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::dispatch::{Run, RunError};

use crate::kernel::{Kernel, Kernels};
use drive::{Drive, DriveError};
use judge::Verdict;
use prepare::{Prepared, PreparedCheck};

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Seed of all inputs.
    pub seed: u64,
    /// Whether the manager and the content of every slot are checked after every operation.
    pub careful: bool,
}

/// A kernel's place in a run over one case and layout.
struct Lane<'k> {
    kernel: &'k mut dyn Kernel,
    verdict: Verdict,
    time_ms: f64,
    lost: bool,
}

/// Why a check could not be put to the kernels.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("script line {line}: {source}")]
    Lower { line: usize, source: LowerError },
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
    let lanes = kernels.iter_mut().map(|k| Lane {
        kernel: k.as_mut(),
        verdict: Verdict::default(),
        time_ms: 0.0,
        lost: false,
    });
    let mut lanes: Vec<Lane<'_>> = lanes.collect();
    let mut counts = Counts::default();
    if let Err(error) = walk(prepared, layout, &mut lanes, &mut counts, options) {
        let status = match &error {
            CheckError::Drive(DriveError::Broken { .. }) => Status::Invariant,
            CheckError::Drive(_) | CheckError::Lower { .. } => Status::Error,
        };
        for lane in &mut lanes {
            lane.verdict.fail(status, error.to_string());
        }
    }
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
        reads: verdict.reads,
        counts: Some(Counts { checks: verdict.checks, ..counts }),
        inputs_sha256: prepared.inputs_sha256.clone(),
        time_ms: lane.time_ms,
        ..blank(prepared.case, layout, lane.kernel, seed)
    }
}

fn walk(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    lanes: &mut [Lane<'_>],
    counts: &mut Counts,
    options: Options,
) -> Result<(), CheckError> {
    let case = prepared.case;
    let mut drive = Drive::new(case, layout, options.seed, options.careful)?;
    let mut checks = prepared.checks.iter().enumerate();
    for (op, &line) in case.script.ops.iter().zip(&case.script.lines) {
        drive.step(op, line)?;
        if let Op::Check { .. } = op
            && let Some((index, check)) = checks.next()
        {
            let images = Images::new(&drive);
            let problem = problem(prepared, check, &drive, &images.get(Poison::A))
                .map_err(|source| CheckError::Lower { line, source })?;
            for lane in &mut *lanes {
                lane.check(case, index, check, &problem, &images);
            }
        }
    }
    let stats = drive.manager.stats();
    *counts = Counts {
        prompt_tokens: stats.prompt_tokens,
        hit_tokens: stats.hit_tokens,
        hit_blocks: stats.hit_blocks,
        mid_block_tokens: stats.mid_block_tokens,
        copies: stats.copies,
        evictions: stats.evictions,
        reused_blocks: stats.reused_blocks,
        released_blocks: stats.released_blocks,
        checks: 0,
    };
    Ok(())
}

/// The pools of a check under each poison, made when first asked for.
struct Images<'d, 'c> {
    drive: &'d Drive<'c>,
    made: std::cell::RefCell<BTreeMap<Poison, std::rc::Rc<Pools>>>,
}

impl<'d, 'c> Images<'d, 'c> {
    fn new(drive: &'d Drive<'c>) -> Self {
        Self { drive, made: std::cell::RefCell::default() }
    }

    fn get(&self, poison: Poison) -> std::rc::Rc<Pools> {
        let mut made = self.made.borrow_mut();
        std::rc::Rc::clone(
            made.entry(poison).or_insert_with(|| std::rc::Rc::new(self.drive.store.pools(poison))),
        )
    }
}

fn problem(
    prepared: &Prepared<'_>,
    check: &PreparedCheck,
    drive: &Drive<'_>,
    pools: &Pools,
) -> Result<Problem, LowerError> {
    let case = prepared.case;
    let profile = prepared.spec.profile();
    let rows: Vec<_> = check.rows.iter().map(|r| RowQuery { name: &r.name, q_len: r.q_len as u32 }).collect();
    let attention = attention(case, &prepared.spec);
    let split = match (case.splits, case.split_tokens) {
        (Some(count), _) => Split::Count(count),
        (None, Some(tokens)) => Split::Tokens(tokens),
        (None, None) => Split::Own,
    };
    let q_heads = case.shape.q_heads as u32;
    let launch = Launch::build(&drive.manager, &drive.store, q_heads, &rows, attention, split)?;
    let slopes = prepared.spec.slopes().unwrap_or_default();
    let sinks = profile.sinks.as_deref().unwrap_or_default();
    Ok(Problem::new(launch, &check.q, pools, slopes, sinks))
}

fn attention(case: &Case, spec: &Spec) -> Attention {
    let profile = spec.profile();
    let side = |keys: Option<u32>| keys.unwrap_or(UNLIMITED);
    Attention {
        scale: case.scale,
        causal: match profile.causal {
            Causal::BottomRight => CausalKind::BottomRight,
            Causal::TopLeft => CausalKind::TopLeft,
            Causal::None => CausalKind::None,
        },
        left: side(profile.window.left),
        right: side(profile.window.right),
        softcap: profile.softcap.unwrap_or(0.0),
        alibi_then_cap: profile.bias_order == BiasOrder::AlibiThenCap,
        alibi: spec.slopes().is_some(),
        sinks: profile.sinks.is_some(),
    }
}

impl Lane<'_> {
    /// Runs one check: twice on the same bytes, once per further poison, once with the probe.
    fn check(
        &mut self,
        case: &Case,
        index: usize,
        check: &PreparedCheck,
        problem: &Problem,
        images: &Images<'_, '_>,
    ) {
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
        match judged {
            Ok(()) => self.verdict.checks += 1,
            Err(error) => self.verdict.fail(Status::Error, format!("check {index}: {error}")),
        }
        if let Some(log) = results.last().and_then(|r| r.probe.as_ref()) {
            self.verdict.reads(case, check, problem, log);
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
}
