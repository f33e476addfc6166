//! The command line: verbs, flags and their help texts.

mod args;
mod doctor;
mod explain;
mod list;
mod render;
mod run;
mod selftest;
mod sweep;

use std::process::ExitCode;

use attnproof_cases::tiers::Tier;
use clap::{Parser, Subcommand};

use crate::exit::{Exit, Failure, OrExit as _};
use crate::select::{self, Source};
use args::{DoctorArgs, ExplainArgs, ListArgs, ReportArgs, RunArgs, Selection, SelftestArgs, SweepArgs};

const AFTER_HELP: &str = "Exit codes: 0 everything required ran and conforms; 1 a kernel is wrong; 2 usage or a bad \
file; 3 no adapter where one is required, or a device lost again and again; 4 nothing ran; 5 incomplete.";

const FILTER_HELP: &str = "A filter is terms joined by ';' that must all match: a name or a part of it (mqa, fp8-*, \
extra:sink*), a full id, or key=value with a key of the ids (layout=classic-paged;kv=e4m3fn;d=80). '*' and '?' are \
wildcards.";

const SELFTEST_HELP: &str = "Exit codes: 0 every fault was caught and nothing right was accused; 1 a fault survives, or a \
right kernel was accused; 2 usage; 3 no such adapter, or a case that cannot be judged; 4 nothing was tested. With a filter \
only the cases it matches count, and a fault that none of them reaches is no failure.";

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
    /// Explain one case: why it exists, what it asks, and which faults it catches
    Explain(ExplainArgs),
    /// Show the adapters of this machine, their limits, and what would be skipped and why
    Doctor(DoctorArgs),
    /// Plant every fault of the library in the kernels and the KV manager, and see that each is caught
    #[command(after_help = format!("{FILTER_HELP}\n\n{SELFTEST_HELP}"))]
    Selftest(SelftestArgs),
    /// Render a run's JSON lines as a table, Markdown, HTML or JUnit
    Report(ReportArgs),
    /// Put right kernels to random and hostile cases: none may be over its bound
    #[command(after_help = SWEEP_HELP)]
    Sweep(SweepArgs),
}

/// Makes the selection of `args`; `whole` is the tier where neither a tier nor a filter is given.
fn select(args: &Selection, whole: Tier) -> Result<crate::select::Selection, Failure> {
    let filters: Vec<_> = args.only.iter().chain(&args.filter).cloned().collect();
    let default_tier = if filters.is_empty() { whole } else { Tier::Fast };
    let source = match (&args.cases, &args.trace, &args.tier) {
        (Some(file), _, _) => Source::File(file.clone()),
        (_, Some(file), _) => Source::Trace(file.clone(), args.requests),
        (None, None, Some(name)) => Source::Tier(select::tier(name).or_exit(Exit::Usage)?),
        (None, None, None) => Source::Tier(default_tier),
    };
    let found = select::select(&source, &filters, &args.layout).or_exit(Exit::Usage)?;
    if found.cases.is_empty() && matches!(source, Source::Tier(_)) && args.tier.is_none() {
        // a name that only the long cases have
        return select::select(&Source::Tier(Tier::Full), &filters, &args.layout).or_exit(Exit::Usage);
    }
    Ok(found)
}

/// Prints to standard output; a reader that hung up is no error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
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
        Verb::Explain(args) => explain::explain(&args),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Selftest(args) => selftest::selftest(&args),
        Verb::Report(args) => render::report(&args),
        Verb::Sweep(args) => sweep::sweep(&args),
    };
    let exit = done.unwrap_or_else(|failure: Failure| {
        eprintln!("error: {failure}");
        failure.exit
    });
    ExitCode::from(exit.code())
}
