//! `attnproof sweep`.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, anyhow};
use attnproof_cases::Family;
use attnproof_cases::catalogue;
use attnproof_oracle::Model;
use attnproof_shaders::device::{self, Adapter};

use crate::exit::{Exit, Failure, OrExit as _};
use crate::kernel::{Kernels, Twin, Wgsl};
use crate::sweep::draw::Drawn;
use crate::sweep::judge::{HARNESS, Lab, Outcome, Violation, judge_sims};
use crate::sweep::shrink::shrink;
use crate::sweep::sim::Sim;
use crate::sweep::write::{self, Header};
use crate::sweep::{Request, Sweep, state, text};

use super::args::SweepArgs;
use super::render::{check_outputs, write as write_file};
use super::run::bar;

/// Violations written as case files, each of another kernel.
const WRITTEN: usize = 8;

/// Sweeps, or asks a written case again.
pub(super) fn sweep(args: &SweepArgs) -> Result<Exit, Failure> {
    match &args.replay {
        Some(file) => replay(file),
        None => run(args),
    }
}

fn run(args: &SweepArgs) -> Result<Exit, Failure> {
    let json = args.json.as_deref().filter(|file| *file != Path::new("-"));
    let files: Vec<&Path> = json.into_iter().chain(args.state.as_deref()).collect();
    check_outputs(&files).or_exit(Exit::Usage)?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string()).or_exit(Exit::Usage)?;
    }
    let adapter = choose(args.adapter.as_deref())?;
    let request = Request {
        seed: args.seed,
        rows: args.rows,
        max_keys: args.max_keys as usize,
        adapter: adapter.as_ref().map(|adapter| adapter.info.to_string()),
        control: args.control,
    };
    let mut sweep = resumed(args.state.as_deref(), request).or_exit(Exit::Usage)?;
    if !sweep.is_done() {
        let jobs =
            args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
        let labs = (0..jobs).map(|_| lab(adapter.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let bar = bar(args.rows as usize);
        let progress = |asked: u64| bar.set_position(asked);
        let mut save = |sweep: &Sweep| match &args.state {
            Some(file) => write_file(file, &state::write(sweep)),
            None => Ok(()),
        };
        let ran = sweep.run(labs, &progress, &mut save);
        bar.finish_and_clear();
        ran.or_exit(Exit::Usage)?;
    }
    publish(&sweep, args, adapter.as_ref())
}

/// The adapter of the WGSL kernels.
fn choose(named: Option<&str>) -> Result<Option<Adapter>, Failure> {
    let adapter = match named {
        None | Some("none") => return Ok(None),
        Some("noop") => device::noop(),
        Some("best") => {
            let best = device::best(&device::candidates()).cloned();
            return best.map(Some).ok_or_else(|| Failure {
                exit: Exit::Infrastructure,
                error: anyhow!("--adapter best: this machine has no adapter"),
            });
        }
        Some(name) => device::matching(&device::adapters(), name).map(|found| found[0].clone()),
    };
    adapter.map(Some).or_exit(Exit::Infrastructure)
}

/// One worker's kernels.
fn lab(adapter: Option<&Adapter>) -> Result<Lab, Failure> {
    let mut kernels: Kernels = vec![Box::new(Twin::new())];
    if let Some(adapter) = adapter {
        kernels.push(Box::new(Wgsl::open(adapter, Model::wgsl_letter()).or_exit(Exit::Infrastructure)?));
    }
    Ok(Lab::new(kernels))
}

/// The sweep as `file` has it, a new one where there is no such file.
fn resumed(file: Option<&Path>, request: Request) -> anyhow::Result<Sweep> {
    let Some(file) = file.filter(|file| file.exists()) else { return Ok(Sweep::new(request)) };
    let name = || file.display().to_string();
    let content = std::fs::read_to_string(file).with_context(name)?;
    state::read(&content, &request).with_context(name)
}

/// Prints the table, writes the files and gives the verdict. With `--json -` standard output is the JSON, and the table
/// goes to standard error.
fn publish(sweep: &Sweep, args: &SweepArgs, adapter: Option<&Adapter>) -> Result<Exit, Failure> {
    let mut table = text::render(sweep);
    if let Some(folder) = &args.out {
        for line in write_cases(sweep, folder, adapter)? {
            table += &line;
        }
    } else if !sweep.violations.is_empty() {
        table += "--out DIR writes a small case file of each kernel that is over\n";
    }
    match args.json.as_deref() {
        Some(file) if file == Path::new("-") => {
            super::print(&text::json(sweep)).or_exit(Exit::Usage)?;
            eprint!("{table}");
        }
        file => {
            if let Some(file) = file {
                write_file(file, &text::json(sweep)).or_exit(Exit::Usage)?;
            }
            super::print(&table).or_exit(Exit::Usage)?;
        }
    }
    Ok(text::exit(sweep))
}

/// Shrinks the first violation of each kernel and writes it into `folder`; a line on each.
fn write_cases(sweep: &Sweep, folder: &Path, adapter: Option<&Adapter>) -> Result<Vec<String>, Failure> {
    let mut kernels = BTreeSet::new();
    let firsts = sweep.violations.iter().filter(|violation| kernels.insert(violation.kernel.clone()));
    let mut lines = Vec::new();
    let mut lab = lab(adapter)?;
    for violation in firsts.take(WRITTEN) {
        let (small, detail) = small(sweep, violation, &mut lab);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let slug: String = violation.kernel.replace(" / ", " ").chars().map(plain).collect();
        let file = folder.join(format!("sweep-{}-{slug}.toml", violation.index));
        let command = match (Sim::parse(&violation.kernel), violation.kernel.split_once(' ')) {
            (Some(_), _) => "attnproof sweep --replay FILE".to_owned(),
            (None, Some(("wgsl", layout))) => {
                let adapter = sweep.request.adapter.as_deref().unwrap_or_default();
                format!(
                    "attnproof run --cases FILE --seed {:#x} --layout {layout} --adapter '{adapter}'",
                    sweep.request.seed
                )
            }
            (None, Some((_, layout))) => {
                format!(
                    "attnproof run --cases FILE --seed {:#x} --layout {layout} --adapter cpu",
                    sweep.request.seed
                )
            }
            (None, None) => format!("attnproof run --cases FILE --seed {:#x}", sweep.request.seed),
        };
        let header =
            Header { kernel: violation.kernel.clone(), seed: sweep.request.seed, chance: small.chance };
        let content = header.text(&command, &detail) + &write::case(&small.case, &small.story.text());
        write_file(&file, &content).or_exit(Exit::Usage)?;
        lines.push(format!(
            "wrote {}: {}\n",
            file.display(),
            command.replace("FILE", &file.display().to_string())
        ));
    }
    Ok(lines)
}

/// The smallest case of a violation, and what is found on it.
fn small(sweep: &Sweep, violation: &Violation, lab: &mut Lab) -> (Drawn, String) {
    let drawn = sweep.request.draw(violation.index);
    if violation.kernel == HARNESS {
        return (drawn, violation.detail.clone());
    }
    let mut detail = violation.detail.clone();
    let narrow = narrowed(&drawn, &violation.kernel);
    let small = shrink(narrow, &mut |drawn| {
        let outcome = lab.judge(drawn, sweep.request.seed);
        let found = outcome.violations.into_iter().find(|found| found.kernel == violation.kernel);
        detail = found.as_ref().map_or_else(|| detail.clone(), |found| found.detail.clone());
        found.is_some()
    });
    (small, detail)
}

/// The same case put to one kernel only, or to the built-in ones of one layout.
fn narrowed(drawn: &Drawn, kernel: &str) -> Drawn {
    let sims = drawn.sims.iter().copied().filter(|sim| sim.name() == kernel).collect();
    let layouts =
        drawn.layouts.iter().copied().filter(|layout| kernel.ends_with(&format!(" {}", layout.name())));
    Drawn { sims, layouts: layouts.collect(), ..drawn.clone() }
}

/// Asks the simulated kernel that a case file names in its comments.
fn replay(file: &Path) -> Result<Exit, Failure> {
    let name = file.display().to_string();
    let content = std::fs::read_to_string(file).with_context(|| name.clone()).or_exit(Exit::Usage)?;
    let header = Header::parse(&content).map_err(|e| anyhow!("{name}: {e}")).or_exit(Exit::Usage)?;
    let sim = Sim::parse(&header.kernel)
        .ok_or_else(|| {
            anyhow!("{name}: `{}` is no simulated kernel: use attnproof run --cases", header.kernel)
        })
        .or_exit(Exit::Usage)?;
    let cases = catalogue::from_toml(&content, &name, Family::User).or_exit(Exit::Usage)?;
    let mut outcome = Outcome::default();
    for case in &cases {
        judge_sims(case, header.seed, header.chance, &[sim], 0, &mut outcome).or_exit(Exit::Usage)?;
    }
    let total = outcome.table.total();
    let (verdict, exit) = match (total.violations, total.rows) {
        (0, 0) => ("NOTHING JUDGED", Exit::Nothing),
        (0, _) => ("PASS", Exit::Pass),
        _ => ("FAIL", Exit::Wrong),
    };
    let found = outcome.violations.first().map(|v| format!(", {}", v.detail)).unwrap_or_default();
    super::print(&format!(
        "{verdict}: {} of {} rows over the bound, {}{found}\n",
        total.violations, total.rows, header.kernel
    ))
    .or_exit(Exit::Usage)?;
    Ok(exit)
}
