//! Flags of the verbs, and their help texts.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use crate::sweep::draw::MOST_KEYS;

/// Which cases and layouts.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Cases to take: filters, any of which may match [default: all of the tier]
    #[arg(value_name = "FILTER")]
    pub(super) only: Vec<String>,
    /// As FILTER; may be given more than once
    #[arg(long, value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// smoke: the 30 cases; fast: those, extra:* and short probe:*; full: all, with rows of up to 65,536 keys [default: smoke, or
    /// fast for selftest and where there is a filter]
    #[arg(long, value_name = "TIER", conflicts_with_all = ["cases", "trace"])]
    pub(super) tier: Option<String>,
    /// A layout, or several joined by commas [default: all five]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) layout: Vec<String>,
    /// Cases of your own in place of the catalogue: a TOML file in the catalogue's form
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(super) cases: Option<PathBuf>,
    /// Real requests in place of the catalogue: a Mooncake trace (JSON lines), lengths scaled by 1/16
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Requests to take from the trace
    #[arg(long, value_name = "N", default_value_t = 200, requires = "trace")]
    pub(super) requests: usize,
    /// Seed of all inputs, decimal or 0x...
    #[arg(long, value_name = "SEED", default_value = "0x9e37", value_parser = parse_seed)]
    pub(super) seed: u64,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// best, all, cpu (the CPU twin), noop (a control that runs nothing and must fail), an index, or a part of name,
    /// backend or driver. Runs on that only [default: the best adapter and the CPU twin]
    #[arg(long, value_name = "ADAPTER")]
    pub(super) adapter: Option<String>,
    /// Fail with exit 3 unless an adapter of this index, name, backend or driver is used
    #[arg(long, value_name = "ADAPTER")]
    pub(super) require_adapter: Option<String>,
    /// Measure the adapter's arithmetic first, and judge it by the narrowest precision model that covers it instead of by all
    /// that WGSL allows
    #[arg(long)]
    pub(super) calibrate: bool,
    /// Run the CPU twin with this fault of the library planted in it, alone: to see what a failure looks like, or that a gate
    /// turns red. `selftest` lists the names
    #[arg(long, value_name = "FAULT", conflicts_with_all = ["adapter", "require_adapter", "calibrate"])]
    pub(super) plant: Option<String>,
    /// Check the KV manager's invariants and the content of every slot after every operation
    #[arg(long)]
    pub(super) invariants: bool,
    /// Workers, each with devices of its own [default: one a core]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZero<usize>>,
    /// Count unsupported cases as failures
    #[arg(long)]
    pub(super) strict: bool,
    /// Write the result rows as JSON lines to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) render: RenderArgs,
}

/// Reports to write beside the table.
#[derive(Debug, Args)]
pub(super) struct RenderArgs {
    /// Write a Markdown report
    #[arg(long, value_name = "FILE")]
    pub(super) md: Option<PathBuf>,
    /// Write one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Ids only, one a line, for every layout
    #[arg(long)]
    pub(super) ids: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The case: its id, its name, or a filter that matches no other
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// The case is in this file of cases
    #[arg(long, value_name = "FILE")]
    pub(super) cases: Option<PathBuf>,
    /// Seed of all inputs, decimal or 0x...
    #[arg(long, value_name = "SEED", default_value = "0x9e37", value_parser = parse_seed)]
    pub(super) seed: u64,
}

#[derive(Debug, Args)]
pub(super) struct SelftestArgs {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Probes of 65,536 keys in place of the short cases, and those faults that must be caught at any length: single keys,
    /// blocks, heads, scales, softcaps, rescales. One layout (packed-block-table) unless --layout says otherwise
    #[arg(long, conflicts_with_all = ["tier", "cases", "trace"])]
    pub(super) long: bool,
    /// Faults to plant: names or parts of names, '*' and '?' are wildcards; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) fault: Vec<String>,
    /// cpu: the CPU twin, all cases and layouts. Any other adapter: its shaders, each fault in a few pairs that the twin shows
    /// it in
    #[arg(long, value_name = "ADAPTER", default_value = "cpu")]
    pub(super) adapter: String,
    /// Diagnose up to N failures of each wrong kernel too, and say how often the planted fault was named
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4")]
    pub(super) diagnosis: Option<NonZero<usize>>,
    /// On an adapter: (case, layout) pairs a fault
    #[arg(long, value_name = "N", default_value = "2")]
    pub(super) pairs: NonZero<usize>,
    /// Threads [default: one a core]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZero<usize>>,
    /// Write the kill matrix as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the kill matrix as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// One JSON object an adapter
    #[arg(long)]
    pub(super) json: bool,
    /// Measure the arithmetic of every adapter against WGSL's accuracy table; exit 1 if one is outside it
    #[arg(long)]
    pub(super) calibrate: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// A run's JSON lines, or - for standard input
    #[arg(value_name = "RESULTS.jsonl")]
    pub(super) results: PathBuf,
    #[command(flatten)]
    pub(super) render: RenderArgs,
}

#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    /// Output rows to ask for, over all kernels
    #[arg(long, value_name = "N", default_value_t = 120_000)]
    pub(super) rows: u64,
    /// Seed of the draws and of all inputs, decimal or 0x...
    #[arg(long, value_name = "SEED", default_value = "0x9e37", value_parser = parse_seed)]
    pub(super) seed: u64,
    /// Workers; the result does not depend on their number [default: one a core]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZero<usize>>,
    /// Judge the WGSL kernels too: best, none, noop, an index, or a part of name, backend or driver [default: none]
    #[arg(long, value_name = "ADAPTER")]
    pub(super) adapter: Option<String>,
    /// Longest row in keys
    #[arg(long, value_name = "N", default_value_t = 8192)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MOST_KEYS as u64))]
    pub(super) max_keys: u64,
    /// Save the sweep in FILE now and then, and go on from there if FILE exists
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Write the result as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a small case file of each kernel that is over its bound into DIR
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Judge also a simulated kernel that is wrong: the sweep must find it, and fail
    #[arg(long)]
    pub(super) control: bool,
    /// Ask the simulated kernel of a case file of --out again, in place of a sweep
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(super) replay: Option<PathBuf>,
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| format!("not a 64-bit number: {e}"))
}
