//! `attnproof run`.

use std::path::Path;
use std::thread;

use anyhow::{Context as _, anyhow};
use attnproof_cases::tiers::Tier;
use attnproof_oracle::Model;
use attnproof_report::model::{Row, write_line};
use attnproof_report::text;
use attnproof_shaders::calibrate::calibrate;
use attnproof_shaders::device::{self, Adapter, DeviceError};
use attnproof_shaders::fault::{KernelFault, library};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::{Exit, Failure, OrExit as _};
use crate::kernel::{Kernels, Twin, Wgsl};
use crate::runner::Options;
use crate::runner::all::run_all;
use crate::selftest::kernels::WrongTwin;

use super::args::RunArgs;
use super::list::filters;
use super::render::{check_outputs, stderr_style, stdout_style, write, write_all};
use super::select;

/// Runs the selected cases.
pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let selection = select(&args.selection, Tier::Smoke)?;
    check_outputs(&outputs(args)).or_exit(Exit::Usage)?;
    let mut targets = choose(args)?;
    if selection.cases.is_empty() {
        eprintln!("nothing ran: no case matches {}", filters(&args.selection));
        return Ok(Exit::Nothing);
    }
    if let Some(trace) = &selection.trace {
        eprintln!(
            "trace: {} requests, lengths scaled by {}: {} tokens, {} clipped, {} forks, {} checks, a pool of {} blocks",
            trace.requests,
            trace.scale,
            trace.tokens,
            trace.clipped,
            trace.forks,
            trace.checks,
            trace.pool_blocks
        );
    }
    if args.calibrate {
        for target in &mut targets {
            target.calibrate().or_exit(Exit::Infrastructure)?;
        }
    }
    let jobs = jobs(args.jobs);
    let options = Options { seed: args.selection.seed, careful: args.invariants };
    let bar = bar(selection.pairs() * targets.len());
    let workers = jobs.min(selection.layouts());
    let open = |target: &Target| (0..workers).map(|_| target.open()).collect::<Result<Vec<_>, _>>();
    let opened = targets.iter().map(open).collect::<Result<Vec<_>, _>>().or_exit(Exit::Infrastructure)?;
    let ran = run_all(&selection, opened, options, &|name| {
        bar.set_message(name.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    publish(&ran.rows, args).or_exit(Exit::Usage)?;
    if let Some(reason) = ran.ended {
        return Err(Failure { exit: Exit::Infrastructure, error: anyhow!(reason) });
    }
    Ok(Exit::of_rows(&ran.rows, args.strict))
}

/// Threads to use: as many as asked for, or one a core.
pub(super) fn jobs(asked: Option<std::num::NonZero<usize>>) -> usize {
    asked.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// The files that will be written; `-` is none.
fn outputs(args: &RunArgs) -> Vec<&Path> {
    let json = args.json.as_deref().filter(|file| *file != Path::new("-"));
    json.into_iter().chain(args.render.files()).collect()
}

/// The kernels of one pass over the cases.
struct Target {
    adapter: Option<Adapter>,
    model: Model,
    twin: bool,
    planted: Option<KernelFault>,
}

impl Target {
    fn new(adapter: Option<Adapter>, twin: bool) -> Self {
        Self { adapter, model: Model::wgsl_letter(), twin, planted: None }
    }

    /// Measures the adapter's arithmetic and takes the model that covers it.
    fn calibrate(&mut self) -> anyhow::Result<()> {
        if let Some(adapter) = &self.adapter {
            let found = calibrate(&adapter.open()?).with_context(|| adapter.info.to_string())?;
            for fault in found.outside_wgsl() {
                eprintln!("calibration: {}: outside WGSL's accuracy table: {fault}", adapter.info);
            }
            self.model = found.model();
        }
        Ok(())
    }

    fn open(&self) -> Result<Kernels, DeviceError> {
        let mut kernels: Kernels = Vec::new();
        if let Some(adapter) = &self.adapter {
            kernels.push(Box::new(Wgsl::open(adapter, self.model)?));
        }
        if self.twin {
            kernels.push(Box::new(Twin::new()));
        }
        if let Some(fault) = &self.planted {
            kernels.push(Box::new(WrongTwin::new(fault)));
        }
        Ok(kernels)
    }
}

/// What each pass runs on.
fn choose(args: &RunArgs) -> Result<Vec<Target>, Failure> {
    if let Some(name) = &args.plant {
        let fault = library().into_iter().find(|fault| fault.id == name);
        let Some(fault) = fault else {
            let error = anyhow!("--plant {name}: no such fault; `attnproof selftest` lists them");
            return Err(Failure { exit: Exit::Usage, error });
        };
        return Ok(vec![Target { planted: Some(fault), ..Target::new(None, false) }]);
    }
    let only = |adapter: &Adapter| Target::new(Some(adapter.clone()), false);
    let named = args.adapter.as_deref();
    if named == Some("cpu") && args.require_adapter.is_none() {
        return Ok(vec![Target::new(None, true)]);
    }
    if named == Some("noop") && args.require_adapter.is_none() {
        return Ok(vec![only(&device::noop().or_exit(Exit::Infrastructure)?)]);
    }
    let by_rank = matches!(named, None | Some("best")) && args.require_adapter.is_none();
    let adapters = if by_rank { device::candidates() } else { device::adapters() };
    let required = args.require_adapter.as_deref();
    let required =
        required.map(|r| device::matching(&adapters, r)).transpose().or_exit(Exit::Infrastructure)?;
    let chosen: Vec<&Adapter> = match named {
        None => required
            .as_ref()
            .and_then(|r| r.first().copied())
            .or(device::best(&adapters))
            .into_iter()
            .collect(),
        Some("best") => device::best(&adapters).into_iter().collect(),
        Some("all") => adapters.iter().collect(),
        Some("cpu" | "noop") => Vec::new(),
        Some(name) => {
            device::matching(&adapters, name).or_exit(Exit::Infrastructure)?.into_iter().take(1).collect()
        }
    };
    let wanted = named.unwrap_or_default();
    if named.is_some() && chosen.is_empty() {
        let error = if matches!(wanted, "cpu" | "noop") {
            anyhow!("--require-adapter: a run with --adapter {wanted} uses no adapter")
        } else {
            anyhow!("--adapter {wanted}: this machine has no adapter")
        };
        return Err(Failure { exit: Exit::Infrastructure, error });
    }
    if let Some(required) = required
        && !chosen.iter().any(|c| required.iter().any(|r| r.info == c.info))
    {
        let used: Vec<_> = chosen.iter().map(|a| a.info.to_string()).collect();
        let wanted = args.require_adapter.as_deref().unwrap_or_default();
        let error = anyhow!("--require-adapter {wanted}: the run would use {}", used.join("; "));
        return Err(Failure { exit: Exit::Infrastructure, error });
    }
    Ok(match named {
        None => vec![Target::new(chosen.first().map(|&a| a.clone()), true)],
        Some(_) => chosen.into_iter().map(only).collect(),
    })
}

/// A progress bar on a terminal; nothing elsewhere.
pub(super) fn bar(steps: usize) -> ProgressBar {
    let target =
        if stderr_style().color { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Prints the table and writes the files. With `--json -` standard output is the rows, and the table goes to standard
/// error.
fn publish(rows: &[Row], args: &RunArgs) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for row in rows {
        write_line(row, &mut lines)?;
    }
    let lines = String::from_utf8(lines)?;
    match args.json.as_deref() {
        Some(file) if file == Path::new("-") => {
            super::print(&lines)?;
            eprint!("{}", text::render(rows, stderr_style()));
        }
        file => {
            if let Some(file) = file {
                write(file, &lines)?;
            }
            super::print(&text::render(rows, stdout_style()))?;
        }
    }
    write_all(rows, &args.render)
}
