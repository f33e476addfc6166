//! `attnproof selftest`.

use std::path::Path;

use anyhow::anyhow;
use attnproof_cases::tiers::Tier;
use attnproof_layouts::fault::{self as manager_faults, ManagerFault};
use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::Model;
use attnproof_report::kill::{KillMatrix, render_html, render_text};
use attnproof_shaders::device;
use attnproof_shaders::fault::{self as kernel_faults, KernelFault};
use wildmatch::WildMatch;

use crate::exit::{Exit, Failure, OrExit as _};
use crate::kernel::Wgsl;
use crate::selftest::adapter::on_adapter;
use crate::selftest::diagnosis::{accuracy, diagnoses};
use crate::selftest::{Plan, long, on_twin};

use crate::select::{Selection, Source, select as take};

use super::args::SelftestArgs;
use super::render::{check_outputs, stdout_style, write};
use super::run::{bar, jobs};
use super::select;

/// Plants faults and says which are caught.
pub(super) fn selftest(args: &SelftestArgs) -> Result<Exit, Failure> {
    let selection = if args.long { longest(args)? } else { select(&args.selection, Tier::Fast)? };
    let files: Vec<&Path> = [&args.json, &args.html].into_iter().flatten().map(AsRef::as_ref).collect();
    check_outputs(&files).or_exit(Exit::Usage)?;
    let library = kernel_faults::library();
    let kernels: Vec<&KernelFault> = library.iter().filter(|f| wanted(args, f.id)).collect();
    let managers: Vec<&ManagerFault> =
        manager_faults::library().iter().filter(|f| wanted(args, f.id)).collect();
    if selection.cases.is_empty() || kernels.is_empty() && managers.is_empty() {
        eprintln!("nothing was tested: no case or no fault matches");
        return Ok(Exit::Nothing);
    }
    let mut wgsl = (args.adapter != "cpu").then(|| open(&args.adapter)).transpose()?;
    let plan = Plan {
        selection: &selection,
        kernels: &kernels,
        managers: if wgsl.is_some() || args.long { &[] } else { &managers },
        seed: args.selection.seed,
        jobs: jobs(args.jobs),
        whole: is_whole(args),
    };
    let progress = bar(selection.pairs());
    let step = |name: &str| {
        progress.set_message(name.to_owned());
        progress.inc(1);
    };
    let mut matrix = on_twin(&plan, &step).or_exit(Exit::Infrastructure)?;
    if let Some(most) = args.diagnosis {
        progress.set_length(kernels.len() as u64);
        progress.set_position(0);
        matrix.diagnosis = Some(accuracy(&diagnoses(&plan, &matrix, most.get(), &step)));
    }
    if let Some(wgsl) = &mut wgsl {
        progress.set_length(kernels.iter().filter(|fault| !fault.wgsl.is_empty()).count() as u64);
        progress.set_position(0);
        matrix = on_adapter(&plan, &matrix, wgsl, args.pairs.get(), &step).or_exit(Exit::Infrastructure)?;
    }
    progress.finish_and_clear();
    publish(&matrix, args).or_exit(Exit::Usage)?;
    Ok(if matrix.passes() { Exit::Pass } else { Exit::Wrong })
}

fn wanted(args: &SelftestArgs, id: &str) -> bool {
    if args.fault.is_empty() && args.long {
        return long::FAULTS.contains(&id);
    }
    args.fault.is_empty() || args.fault.iter().any(|name| WildMatch::new(&format!("*{name}*")).matches(id))
}

/// The longest cases, in one layout unless others are named.
fn longest(args: &SelftestArgs) -> Result<Selection, Failure> {
    let mut layouts = args.selection.layout.clone();
    if layouts.is_empty() {
        layouts.push(LayoutKind::PackedBlockTable.name().to_owned());
    }
    let filters: Vec<_> = args.selection.only.iter().chain(&args.selection.filter).cloned().collect();
    take(&Source::Cases(long::cases()), &filters, &layouts).or_exit(Exit::Usage)
}

/// Whether nothing was left out that could reach a fault.
fn is_whole(args: &SelftestArgs) -> bool {
    let selection = &args.selection;
    selection.only.is_empty()
        && selection.filter.is_empty()
        && selection.cases.is_none()
        && selection.trace.is_none()
        && (args.long || selection.layout.is_empty() || selection.layout.len() == LayoutKind::ALL.len())
}

fn open(name: &str) -> Result<Wgsl, Failure> {
    let adapters = if name == "best" { device::candidates() } else { device::adapters() };
    let chosen = match name {
        "best" => device::best(&adapters),
        "noop" => None,
        name => device::matching(&adapters, name).or_exit(Exit::Infrastructure)?.into_iter().next(),
    };
    let Some(adapter) = chosen else {
        let error = anyhow!("--adapter {name}: no such adapter on this machine");
        return Err(Failure { exit: Exit::Infrastructure, error });
    };
    Wgsl::open(adapter, Model::wgsl_letter()).or_exit(Exit::Infrastructure)
}

fn publish(matrix: &KillMatrix, args: &SelftestArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.json {
        write(file, &(serde_json::to_string_pretty(matrix)? + "\n"))?;
    }
    if let Some(file) = &args.html {
        write(file, &render_html(matrix)?)?;
    }
    super::print(&render_text(matrix, stdout_style()))
}
