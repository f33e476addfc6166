//! The command line: verbs, flags and their help texts.

mod doctor;
mod list;
mod render;
mod run;
mod sweep;

use std::path::PathBuf;
use std::process::ExitCode;

use attnproof_cases::tiers::Tier;
use clap::{Args, Parser, Subcommand};

use crate::exit::{Exit, Failure, OrExit as _};
use crate::select::{self, Source};
use crate::sweep::draw::MOST_KEYS;

const AFTER_HELP: &str = "Exit codes: 0 everything required ran and conforms; 1 a kernel is wrong; 2 usage or a bad \
file; 3 no adapter where one is required, or a device lost again and again; 4 nothing ran; 5 incomplete.";

const FILTER_HELP: &str = "A filter is terms joined by ';' that must all match: a name or a part of it (mqa, fp8-*, \
extra:sink*), a full id, or key=value with a key of the ids (layout=classic-paged;kv=e4m3fn;d=80). '*' and '?' are \
wildcards.";

const SWEEP_HELP: &str = "Exit codes: 0 no row is over its bound; 1 a row is; 2 usage or a bad file; 3 no such \
adapter; 4 nothing was judged.";

/// Attention correctness oracle and conformance harness for KV-cache kernels.
#[derive(Debug, Parser)]
#[command(name = "attnproof", version, after_help = AFTER_HELP, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run cases on the built-in kernels of every layout and judge them
    #[command(after_help = format!("{FILTER_HELP}\n\n{AFTER_HELP}"))]
    Run(RunArgs),
    /// List cases: ids, and why each exists
    #[command(after_help = FILTER_HELP)]
    List(ListArgs),
    /// Show the adapters of this machine, their limits, and what would be skipped and why
    Doctor(DoctorArgs),
    /// Render a run's JSON lines as a table, Markdown, HTML or JUnit
    Report(ReportArgs),
    /// Put right kernels to random and hostile cases: none may be over its bound
    #[command(after_help = SWEEP_HELP)]
    Sweep(SweepArgs),
}

/// Which cases and layouts.
#[derive(Debug, Args)]
struct Selection {
    /// Cases to take: filters, any of which may match [default: all of the tier]
    #[arg(value_name = "FILTER")]
    only: Vec<String>,
    /// As FILTER; may be given more than once
    #[arg(long, value_name = "FILTER")]
    filter: Vec<String>,
    /// smoke: the 30 cases; fast: those and the family extra:* [default: smoke, or fast if there is a filter]
    #[arg(long, value_name = "TIER", conflicts_with_all = ["cases", "trace"])]
    tier: Option<String>,
    /// A layout, or several joined by commas [default: all five]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    layout: Vec<String>,
    /// Cases of your own in place of the catalogue: a TOML file in the catalogue's form
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    cases: Option<PathBuf>,
    /// Real requests in place of the catalogue: a Mooncake trace (JSON lines), lengths scaled by 1/16
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Requests to take from the trace
    #[arg(long, value_name = "N", default_value_t = 200, requires = "trace")]
    requests: usize,
    /// Seed of all inputs, decimal or 0x...
    #[arg(long, value_name = "SEED", default_value = "0x9e37", value_parser = parse_seed)]
    seed: u64,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    selection: Selection,
    /// best, all, cpu (the CPU twin), noop (a control that runs nothing and must fail), an index, or a part of name,
    /// backend or driver. Runs on that only [default: the best adapter and the CPU twin]
    #[arg(long, value_name = "ADAPTER")]
    adapter: Option<String>,
    /// Fail with exit 3 unless an adapter of this index, name, backend or driver is used
    #[arg(long, value_name = "ADAPTER")]
    require_adapter: Option<String>,
    /// Check the KV manager's invariants and the content of every slot after every operation
    #[arg(long)]
    invariants: bool,
    /// Workers, each with devices of its own [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZero<usize>>,
    /// Count unsupported cases as failures
    #[arg(long)]
    strict: bool,
    /// Write the result rows as JSON lines to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    render: RenderArgs,
}

/// Reports to write beside the table.
#[derive(Debug, Args)]
struct RenderArgs {
    /// Write a Markdown report
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Write one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    selection: Selection,
    /// Ids only, one a line, for every layout
    #[arg(long)]
    ids: bool,
}

#[derive(Debug, Args)]
struct DoctorArgs {
    /// One JSON object an adapter
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// A run's JSON lines, or - for standard input
    #[arg(value_name = "RESULTS.jsonl")]
    results: PathBuf,
    #[command(flatten)]
    render: RenderArgs,
}

#[derive(Debug, Args)]
struct SweepArgs {
    /// Output rows to ask for, over all kernels
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rows: u64,
    /// Seed of the draws and of all inputs, decimal or 0x...
    #[arg(long, value_name = "SEED", default_value = "0x9e37", value_parser = parse_seed)]
    seed: u64,
    /// Workers; the result does not depend on their number [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZero<usize>>,
    /// Judge the WGSL kernels too: best, none, noop, an index, or a part of name, backend or driver [default: none]
    #[arg(long, value_name = "ADAPTER")]
    adapter: Option<String>,
    /// Longest row in keys
    #[arg(long, value_name = "N", default_value_t = 8192)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MOST_KEYS as u64))]
    max_keys: u64,
    /// Save the sweep in FILE now and then, and go on from there if FILE exists
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write the result as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a small case file of each kernel that is over its bound into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Judge also a simulated kernel that is wrong: the sweep must find it, and fail
    #[arg(long)]
    control: bool,
    /// Ask the simulated kernel of a case file of --out again, in place of a sweep
    #[arg(long, value_name = "FILE", exclusive = true)]
    replay: Option<PathBuf>,
}

/// Makes the selection of `args`.
fn select(args: &Selection) -> Result<crate::select::Selection, Failure> {
    let filters: Vec<_> = args.only.iter().chain(&args.filter).cloned().collect();
    let default_tier = if filters.is_empty() { Tier::Smoke } else { Tier::Fast };
    let source = match (&args.cases, &args.trace, &args.tier) {
        (Some(file), _, _) => Source::File(file.clone()),
        (_, Some(file), _) => Source::Trace(file.clone(), args.requests),
        (None, None, Some(name)) => Source::Tier(select::tier(name).or_exit(Exit::Usage)?),
        (None, None, None) => Source::Tier(default_tier),
    };
    select::select(&source, &filters, &args.layout).or_exit(Exit::Usage)
}

/// Prints to standard output; a reader that hung up is no error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| format!("not a 64-bit number: {e}"))
}

/// Parses the command line, runs the verb and gives the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // --help and --version come here too, and are no failure
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Pass };
            let _ = error.print();
            return ExitCode::from(exit.code());
        }
    };
    let done = match cli.verb {
        Verb::Run(args) => run::run(&args),
        Verb::List(args) => list::list(&args),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Report(args) => render::report(&args),
        Verb::Sweep(args) => sweep::sweep(&args),
    };
    let exit = done.unwrap_or_else(|failure: Failure| {
        eprintln!("error: {failure}");
        failure.exit
    });
    ExitCode::from(exit.code())
}
