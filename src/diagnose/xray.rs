//! Which keys a kernel attended to: the failing check again with one-hot values, so that every output element is the weight
//! of one key.

use std::ops::Range;

use attnproof_cases::replay::{CheckRow, Walk};
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::Poison;
use attnproof_oracle::{Row, attention};
use attnproof_shaders::dispatch::Run;

use super::{DiagnoseError, Failed};
use crate::kernel::Kernel;
use crate::runner::drive::Drive;
use crate::runner::prepare::Prepared;
use crate::runner::walk::walk;

/// Passes at most; one pass reads as many keys as V has dims.
const MOST_PASSES: usize = 32;
/// A weight below this share of the row is none.
const NOTHING: f64 = 1e-6;
/// Weights that differ by less than this are the same.
const SAME: f64 = 1e-3;
/// Altered weights told one by one.
const TOLD: usize = 4;

/// What one query head gave a key, and what it should have.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Weight {
    got: f64,
    want: f64,
}

/// In words, which keys the worst query token and head attended to and should not have, or the reverse. Empty if the kernel
/// cannot be asked again or the row is too long.
pub(super) fn picture(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    seed: u64,
    failed: &Failed,
    kernel: &mut dyn Kernel,
) -> Result<Vec<String>, DiagnoseError> {
    let (token, head) = failed.worst;
    let Some(check) = prepared.checks.get(failed.check) else { return Ok(Vec::new()) };
    let (name, token_of_row) = check.row_of(token);
    let Some(row) = check.rows.iter().position(|row| row.name == name) else { return Ok(Vec::new()) };
    let passes = check.rows[row].len.div_ceil(prepared.spec.shape().dv);
    if passes == 0 || passes > MOST_PASSES {
        return Ok(Vec::new());
    }
    let mut weights = Vec::new();
    for pass in 0..passes {
        let asked = Walk::new(prepared.case, seed)?.with_xray(pass).nth(failed.check).transpose()?;
        let Some(asked) = asked else { return Ok(Vec::new()) };
        let Some(o) = outputs(prepared, layout, seed, failed.check, pass, kernel) else {
            return Ok(Vec::new());
        };
        let dv = prepared.spec.shape().dv;
        let at = (token * prepared.spec.shape().q_heads + head) * dv;
        weights.extend(read(prepared, &asked.rows[row], token_of_row, head, pass, &o[at..at + dv])?);
    }
    let lines = tell(&weights, prepared.case.block_size as usize);
    let place = format!("row {name}, query token {token_of_row}, head {head}");
    Ok(lines.into_iter().map(|line| format!("{place}: {line}")).collect())
}

/// The kernel's o over the X-ray of the check.
fn outputs(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    seed: u64,
    index: usize,
    pass: usize,
    kernel: &mut dyn Kernel,
) -> Option<Vec<f64>> {
    let drive = Drive::new(prepared.case, layout, seed, false).ok()?.with_xray(pass);
    let mut found = None;
    let walked = walk(prepared, drive, &mut |asked| {
        if asked.index == index {
            let pools = asked.images.get(Poison::A);
            let ran = kernel.run(asked.problem, &[Run { pools: &pools, probe: false }]);
            found = ran.ok().and_then(|mut results| results.pop());
        }
    });
    walked.ok()?;
    Some(found?.outputs.o().iter().map(|&bits| f64::from(f32::from_bits(bits))).collect())
}

/// The weights of the keys of one pass: output over value, got and wanted.
fn read(
    prepared: &Prepared<'_>,
    row: &CheckRow,
    token: usize,
    head: usize,
    pass: usize,
    o: &[f64],
) -> Result<Vec<Weight>, DiagnoseError> {
    let shape = prepared.spec.shape();
    let q = row.q.mapv(f64::from);
    let asked = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
    let answer = attention(&prepared.spec, &asked)?;
    let keys = pass * shape.dv..row.len.min((pass + 1) * shape.dv);
    let kv = head / shape.group();
    let weight = |key: usize| {
        let dim = key % shape.dv;
        let value = row.v[[key, kv, dim]];
        Weight { got: o[dim] / value, want: answer.o[[token, head, dim]] / value }
    };
    Ok(keys.map(weight).collect())
}

/// What is wrong with the weights, in words.
fn tell(weights: &[Weight], block_size: usize) -> Vec<String> {
    let keys = |pick: &dyn Fn(&Weight) -> bool| -> Vec<usize> {
        weights.iter().enumerate().filter(|(_, weight)| pick(weight)).map(|(key, _)| key).collect()
    };
    let something = |w: f64| w.is_nan() || w.abs() > NOTHING;
    let missing = keys(&|w| something(w.want) && !something(w.got));
    let extra = keys(&|w| !something(w.want) && something(w.got));
    let both = |w: &Weight| something(w.want) && something(w.got);
    let same = |w: &Weight| (w.got / w.want - 1.0).abs() <= SAME;
    let altered = keys(&|w| both(w) && !same(w));
    let right = keys(&|w| both(w) && same(w));
    let mut lines = Vec::new();
    if !missing.is_empty() {
        lines.push(format!("no weight on {}", ranges(&missing, block_size)));
    }
    if !extra.is_empty() {
        lines.push(format!("weight on {}, which it must not see", ranges(&extra, block_size)));
    }
    if !altered.is_empty() {
        let told: Vec<_> = altered
            .iter()
            .take(TOLD)
            .map(|&key| format!("key {key} {:.4} instead of {:.4}", weights[key].got, weights[key].want))
            .collect();
        let more = altered.len().saturating_sub(TOLD);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("other weights: {}{tail}", told.join(", ")));
    }
    if lines.is_empty() && !right.is_empty() {
        lines.push(format!("attends to {} with the right weights", ranges(&right, block_size)));
    }
    lines
}

/// `keys 32..37 and 41 (blocks 2, 3)`.
fn ranges(keys: &[usize], block_size: usize) -> String {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &key in keys {
        match runs.last_mut() {
            Some(run) if run.end == key => run.end += 1,
            _ => runs.push(key..key + 1),
        }
    }
    let told: Vec<_> = runs
        .iter()
        .take(TOLD)
        .map(|run| if run.len() == 1 { run.start.to_string() } else { format!("{}..{}", run.start, run.end) })
        .collect();
    let more = runs.len().saturating_sub(TOLD);
    let tail = if more > 0 { format!(" and {more} more runs") } else { String::new() };
    let (first, last) = (keys[0] / block_size, keys[keys.len() - 1] / block_size);
    let blocks = if first == last { format!("block {first}") } else { format!("blocks {first} to {last}") };
    let noun = if keys.len() == 1 { "key" } else { "keys" };
    format!("{noun} {}{tail} ({blocks})", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(pairs: &[(f64, f64)]) -> Vec<Weight> {
        pairs.iter().map(|&(got, want)| Weight { got, want }).collect()
    }

    #[test]
    fn every_departure_is_told() {
        let right = weights(&[(0.25, 0.25), (0.75, 0.7501)]);
        assert_eq!(tell(&right, 4), ["attends to keys 0..2 (block 0) with the right weights"]);
        let dropped = weights(&[(0.0, 0.2), (0.5, 0.4), (0.5, 0.4), (0.0, 0.0), (1e-9, 0.0)]);
        let lines = tell(&dropped, 2);
        assert_eq!(lines[0], "no weight on key 0 (block 0)");
        assert_eq!(lines[1], "other weights: key 1 0.5000 instead of 0.4000, key 2 0.5000 instead of 0.4000");
        let leak = weights(&[(0.5, 0.5), (0.4, 0.0), (0.3, 0.0), (f64::NAN, 0.5)]);
        let lines = tell(&leak, 2);
        assert_eq!(lines[0], "weight on keys 1..3 (blocks 0 to 1), which it must not see");
        assert_eq!(lines[1], "other weights: key 3 NaN instead of 0.5000");
    }
}
