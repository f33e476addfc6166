//! `attnproof explain`.

use std::fmt::Write as _;

use anyhow::anyhow;
use attnproof_cases::case::Case;
use attnproof_cases::replay::{Check, Walk};
use attnproof_cases::script::Op;
use attnproof_cases::tiers::Tier;
use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::{Causal, Granularity, Model};
use attnproof_report::kill::{Fate, FaultRow, KillMatrix};
use attnproof_report::text::wrap;
use attnproof_shaders::fault as kernel_faults;

use crate::exit::{Exit, Failure, OrExit as _};
use crate::runner::prepare::{Prepared, prepare};
use crate::select::{Source, select};
use crate::selftest::{Plan, on_twin};

use super::args::ExplainArgs;
use super::render::stdout_style;

/// Elements whose bound is told.
const WIDEST: usize = 3;

/// Explains a case.
pub(super) fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let source = args.cases.clone().map_or(Source::Tier(Tier::Full), Source::File);
    let mut selection = select(&source, std::slice::from_ref(&args.id), &[]).or_exit(Exit::Usage)?;
    let exact: Vec<_> = selection.cases.iter().filter(|(case, _)| case.name == args.id).cloned().collect();
    if !exact.is_empty() {
        selection.cases = exact;
    }
    let case = match selection.cases.as_slice() {
        [] => {
            eprintln!("no case matches '{}'", args.id);
            return Ok(Exit::Nothing);
        }
        [(case, _)] => case.clone(),
        several => {
            let names: Vec<_> = several.iter().take(6).map(|(case, _)| case.name.as_str()).collect();
            let more = if several.len() > 6 { ", ..." } else { "" };
            let error = anyhow!("'{}' matches {} cases: {}{more}", args.id, several.len(), names.join(", "));
            return Err(Failure { exit: Exit::Usage, error });
        }
    };
    selection.cases = vec![(case.clone(), LayoutKind::ALL.to_vec())];
    let prepared = prepare(&case, args.seed, &[Model::strict()]).or_exit(Exit::Usage)?;
    let checks: Vec<Check> =
        Walk::new(&case, args.seed).or_exit(Exit::Usage)?.collect::<Result<_, _>>().or_exit(Exit::Usage)?;
    let library = kernel_faults::library();
    let faults: Vec<_> = library.iter().collect();
    let managers: Vec<_> = attnproof_layouts::fault::library().iter().collect();
    let plan = Plan {
        selection: &selection,
        kernels: &faults,
        managers: &managers,
        seed: args.seed,
        jobs: 1,
        whole: false,
    };
    let matrix = on_twin(&plan, &|_| {}).or_exit(Exit::Usage)?;
    let width = stdout_style().width;
    let parts = [described(&case), scripted(&case), asked(&checks), widest(&prepared), kills(&matrix)];
    let text: String = parts.concat().lines().map(|line| folded(line, width) + "\n").collect();
    super::print(&text).or_exit(Exit::Usage)?;
    Ok(Exit::Pass)
}

/// A line broken to fit, its indent kept.
fn folded(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start().len();
    if line.trim().is_empty() { String::new() } else { wrap(line, indent, width) }
}

fn described(case: &Case) -> String {
    let shape = case.shape;
    let mut text = format!("{}\n  {}\n\n", case.id(), case.why);
    let heads = match (shape.q_heads, shape.kv_heads) {
        (q, 1) if q > 1 => format!("{q} query heads on one KV head (MQA)"),
        (q, kv) if q == kv => format!("{q} heads (MHA)"),
        (q, kv) => format!("{q} query heads on {kv} KV heads (GQA, groups of {})", q / kv),
    };
    let _ = writeln!(text, "heads: {heads}, D = {}, Dv = {}", shape.d, shape.dv);
    let causal = match case.causal {
        Causal::BottomRight => "causal, the last query sees the last key",
        Causal::TopLeft => "causal, the first query stands at the first key",
        Causal::None => "no causal limit",
    };
    let mut mask = vec![causal.to_owned()];
    mask.extend(case.window.map(|w| format!("a window of {w} keys, the query's own included")));
    mask.extend(case.release.then(|| "blocks below the window are released".to_owned()));
    let _ = writeln!(text, "mask: {}", mask.join(", "));
    let mut scores = vec![format!("scale {}", case.scale)];
    scores.extend(case.softcap.map(|c| format!("softcap {c}")));
    scores.extend(case.alibi.then(|| "ALiBi".to_owned()));
    scores.extend(case.sinks.then(|| "a sink per query head".to_owned()));
    let _ = writeln!(text, "scores: {}", scores.join(", "));
    let scale = |name: &str, granularity: Granularity| match granularity {
        Granularity::None => format!("{name} not scaled"),
        other => format!("{name} scaled per {}", other.name()),
    };
    let _ = writeln!(
        text,
        "cache: {} ({}, {}), fill {}, blocks of {} tokens, a pool of {}",
        case.kv.name(),
        scale("K", case.k_scale),
        scale("V", case.v_scale),
        case.fill.name(),
        case.block_size,
        case.blocks
    );
    text
}

fn scripted(case: &Case) -> String {
    let mut text = "script:\n".to_owned();
    for op in &case.script.ops {
        let line = match op {
            Op::Prefill { row, tokens, salt, hits: Some(hits) } => {
                format!("{}, exactly {hits} of them from the cache", prefilled(row, tokens, *salt))
            }
            Op::Prefill { row, tokens, salt, hits: None } | Op::Resume { row, tokens, salt } => {
                prefilled(row, tokens, *salt)
            }
            Op::Append { row, tokens } => {
                format!("append {} to {row}, one by one", counted(tokens.len(), "token"))
            }
            Op::Fork { parent, child } => format!("fork {child} from {parent}"),
            Op::Free { rows } => format!("free {}", rows.join(", ")),
            Op::Preempt { row } => format!("preempt {row}"),
            Op::Pressure { blocks } => format!("another tenant overwrites {blocks} blocks"),
            Op::ExpectFail(_) => "an operation that must be refused and leave nothing behind".to_owned(),
            Op::Invariants => "check the manager's invariants".to_owned(),
            Op::Check { rows, q_len } => {
                format!("check {}, {} each", rows.join(", "), counted(*q_len as usize, "query token"))
            }
        };
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn prefilled(row: &str, tokens: &[u64], salt: u64) -> String {
    let salted = if salt == 0 { String::new() } else { format!(", salt {salt}") };
    format!("prefill {row}: {}{salted}", counted(tokens.len(), "token"))
}

fn asked(checks: &[Check]) -> String {
    let mut text = String::new();
    for (index, check) in checks.iter().enumerate() {
        let _ = writeln!(text, "check {index}:");
        for row in &check.rows {
            let mut keys: Vec<usize> = row.targets.iter().map(|target| target.key).collect();
            keys.sort_unstable();
            keys.dedup();
            let aimed = match keys.as_slice() {
                [] => "aimed at no key".to_owned(),
                keys => format!(
                    "aimed at keys {}",
                    keys.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
                ),
            };
            let _ =
                writeln!(text, "  row {}: {} keys, {} query tokens, {aimed}", row.name, row.len, row.q_len);
        }
    }
    text
}

/// The elements for which the bound allows most.
fn widest(prepared: &Prepared<'_>) -> String {
    let (heads, dv) = (prepared.spec.shape().q_heads, prepared.spec.shape().dv);
    let model = Model::strict();
    let mut elements: Vec<(f64, String)> = Vec::new();
    for (index, check) in prepared.checks.iter().enumerate() {
        let Some(tolerance) = check.tolerance(&model) else { continue };
        for (row, (bounds, wants)) in tolerance.o.chunks(dv).zip(check.o.chunks(dv)).enumerate() {
            let Some((dim, &bound)) = bounds.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) else {
                continue;
            };
            let (name, token) = check.row_of(row / heads);
            let place = format!("check {index}, row {name}, [{token}, {}, {dim}]", row % heads);
            elements.push((bound, format!("{place}: {:.6} +- {bound:.2e}", wants[dim])));
        }
    }
    elements.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = format!("widest bounds (model {}; query token, head, dim):\n", model.name);
    for (_, line) in elements.iter().take(WIDEST) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn kills(matrix: &KillMatrix) -> String {
    let of_kernels = |fault: &&FaultRow| fault.site == "kernel";
    let reached =
        matrix.faults.iter().filter(of_kernels).filter(|f| !f.cells.is_empty() && f.equivalent.is_none());
    let killed: Vec<_> = matrix.of(Fate::Killed).collect();
    let kernels = killed.iter().copied().filter(|fault| of_kernels(fault)).count();
    let mut text = format!(
        "catches {kernels} of the {} wrong kernels it reaches and {} wrong KV managers (CPU twin, every layout):\n",
        reached.count(),
        killed.len() - kernels
    );
    let mut kinds: Vec<&str> = killed.iter().map(|fault| fault.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let ids: Vec<_> = killed.iter().filter(|f| f.kind == kind).map(|f| f.id.as_str()).collect();
        let _ = writeln!(text, "  {kind}: {}", ids.join(", "));
    }
    let missed: Vec<_> = matrix.of(Fate::Survived).filter(of_kernels).map(|f| f.id.as_str()).collect();
    if !missed.is_empty() {
        let _ = writeln!(text, "wrong kernels it reaches and does not catch: {}", missed.join(", "));
    }
    text
}

/// A number with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
