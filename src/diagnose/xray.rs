//! Which keys a kernel attended to: the failing check again with one-hot values, so that every output element is the weight
//! of one key.

use std::ops::Range;

use attnproof_cases::replay::{CheckRow, Walk};
use attnproof_layouts::pack::Poison;
use attnproof_oracle::{Row, attention};

use super::DiagnoseError;
use super::again::Again;
use crate::runner::prepare::Prepared;

/// Passes at most; one pass reads as many keys as V has dims.
const MOST_PASSES: usize = 32;
/// A pass in which every V is 0: what remains comes from slots never written.
const NO_VALUES: usize = usize::MAX;
/// A weight below this share of the row is none.
const NOTHING: f64 = 1e-6;
/// Weights that differ by less than this are the same.
const SAME: f64 = 1e-3;
/// Beside outputs from slots never written that are larger than this, no weight can be read.
const LOUD: f64 = 64.0;
/// Runs of keys, and altered weights, told one by one.
const TOLD: usize = 3;

/// What one query head gave a key, and what it should have.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Weight {
    got: f64,
    want: f64,
}

/// In words, which keys the worst query token and head attended to and should not have, or the reverse; `unwritten` if the
/// outputs change with what slots never written hold. Empty if the kernel cannot be asked again or the row is too long.
pub(super) fn picture(again: &mut Again<'_, '_, '_>, unwritten: bool) -> Result<Vec<String>, DiagnoseError> {
    let (prepared, failed) = (again.prepared, again.failed);
    let (token, head) = failed.worst;
    let Some(check) = prepared.checks.get(failed.check) else { return Ok(Vec::new()) };
    let (name, token_of_row) = check.row_of(token);
    let Some(row) = check.rows.iter().position(|row| row.name == name) else { return Ok(Vec::new()) };
    let dv = prepared.spec.shape().dv;
    let passes = check.rows[row].len.div_ceil(dv);
    if passes > MOST_PASSES {
        return Ok(Vec::new());
    }
    let at = (token * prepared.spec.shape().q_heads + head) * dv;
    let mut foreign = vec![0.0; dv];
    let mut lines = Vec::new();
    if unwritten {
        let Some(o) = outputs(again, NO_VALUES) else { return Ok(Vec::new()) };
        foreign.copy_from_slice(&o[at..at + dv]);
        lines.extend(told_foreign(&foreign));
    }
    // what is larger than any weight leaves none to be read
    if foreign.iter().all(|foreign| foreign.abs() <= LOUD) {
        let mut weights = Vec::new();
        for pass in 0..passes {
            let asked =
                Walk::new(prepared.case, again.seed)?.with_xray(pass).nth(failed.check).transpose()?;
            let (Some(asked), Some(o)) = (asked, outputs(again, pass)) else { return Ok(Vec::new()) };
            let o: Vec<f64> = o[at..at + dv].iter().zip(&foreign).map(|(o, foreign)| o - foreign).collect();
            weights.extend(read(prepared, &asked.rows[row], token_of_row, head, pass, &o)?);
        }
        lines.extend(tell(&weights, prepared.case.block_size as usize));
    }
    let place = format!("row {name}, query token {token_of_row}, head {head}");
    Ok(lines.into_iter().map(|line| format!("{place}: {line}")).collect())
}

/// The kernel's o over the X-ray of the check.
fn outputs(again: &mut Again<'_, '_, '_>, pass: usize) -> Option<Vec<f64>> {
    let outputs = again.outputs(Some(pass), &[Poison::A])?.pop()?;
    Some(outputs.o().iter().map(|&bits| f64::from(f32::from_bits(bits))).collect())
}

/// Whether some output is a number other than 0 although every V ever written is 0. That shows reads of slots never written
/// where poisons do not: a negative code under a negative scale is the number that it is without the signs.
pub(super) fn has_foreign_values(again: &mut Again<'_, '_, '_>) -> bool {
    let o = outputs(again, NO_VALUES);
    o.is_some_and(|o| o.iter().any(|o| o.is_finite() && o.abs() > NOTHING))
}

/// What slots never written add to the outputs of one head, if it is anything.
fn told_foreign(foreign: &[f64]) -> Option<String> {
    let largest = foreign.iter().copied().find(|x| x.is_nan()).or_else(|| {
        foreign.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).filter(|x| x.abs() > NOTHING)
    })?;
    Some(format!("slots never written add {} to outputs of at most 1", short(largest)))
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

/// What is wrong with the weights, in words: at most three lines.
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
        lines.push(format!("weight on {}, which should have none", ranges(&extra, block_size)));
    }
    if !altered.is_empty() {
        lines.push(told_altered(weights, altered, right.is_empty()));
    }
    if lines.is_empty() && !right.is_empty() {
        lines.push(format!("attends to {} with the right weights", ranges(&right, block_size)));
    }
    lines
}

/// `other weights: key 4 has 0.25 instead of 0.5 and 3 more`, the largest departures first, or the factor that all have.
fn told_altered(weights: &[Weight], mut altered: Vec<usize>, all: bool) -> String {
    let factor = weights[altered[0]].got / weights[altered[0]].want;
    let of_factor = |&key: &usize| (weights[key].got / weights[key].want / factor - 1.0).abs() <= SAME;
    if all && altered.len() > 1 && altered.iter().all(of_factor) {
        return format!("every weight is {} times what it should be", short(factor));
    }
    let departure = |key: usize| {
        let departure = (weights[key].got - weights[key].want).abs();
        if departure.is_nan() { f64::INFINITY } else { departure }
    };
    altered.sort_by(|&a, &b| departure(b).total_cmp(&departure(a)));
    let told = |&key: &usize| {
        let Weight { got, want } = weights[key];
        format!("key {key} has {} instead of {}", short(got), short(want))
    };
    let told: Vec<_> = altered.iter().take(TOLD).map(told).collect();
    let more = altered.len().saturating_sub(TOLD);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("other weights: {}{tail}", told.join(", "))
}

/// A number to three digits.
fn short(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    if !(1e-3..1e4).contains(&size) {
        return format!("{x:.2e}");
    }
    let places = [100.0, 10.0, 1.0, 0.1, 0.01].iter().filter(|&&least| size < least).count();
    format!("{x:.places$}")
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
        .map(|run| match run.len() {
            1 => run.start.to_string(),
            _ => format!("{} to {}", run.start, run.end - 1),
        })
        .collect();
    let more: usize = runs.iter().skip(TOLD).map(ExactSizeIterator::len).sum();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
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
        assert_eq!(tell(&right, 4), ["attends to keys 0 to 1 (block 0) with the right weights"]);
        let dropped = weights(&[(0.0, 0.2), (0.45, 0.4), (0.55, 0.4), (0.0, 0.0), (1e-9, 0.0)]);
        let lines = tell(&dropped, 2);
        assert_eq!(lines[0], "no weight on key 0 (block 0)");
        assert_eq!(
            lines[1],
            "other weights: key 2 has 0.550 instead of 0.400, key 1 has 0.450 instead of 0.400"
        );
        let leak = weights(&[(0.5, 0.5), (0.4, 0.0), (0.3, 0.0), (f64::NAN, 0.5)]);
        let lines = tell(&leak, 2);
        assert_eq!(lines[0], "weight on keys 1 to 2 (blocks 0 to 1), which should have none");
        assert_eq!(lines[1], "other weights: key 3 has NaN instead of 0.500");
        let doubled = weights(&[(0.5, 0.25), (1.5, 0.75)]);
        assert_eq!(tell(&doubled, 2), ["every weight is 2.00 times what it should be"]);
    }

    #[test]
    fn long_lists_are_cut() {
        let scattered: Vec<usize> = (0..40).map(|i| 3 * i).collect();
        assert_eq!(ranges(&scattered, 16), "keys 0, 3, 6 and 37 more (blocks 0 to 7)");
        let many: Vec<_> = (1..9).map(|i| (0.1 * f64::from(i), 0.1)).collect();
        let line = tell(&weights(&many), 16).remove(0);
        assert!(
            line.ends_with("key 6 has 0.700 instead of 0.100, key 5 has 0.600 instead of 0.100 and 4 more"),
            "{line}"
        );
    }

    #[test]
    fn what_slots_never_written_add_is_told() {
        assert_eq!(told_foreign(&[0.0, 1e-9]), None);
        let told = |foreign: &[f64]| told_foreign(foreign).expect("told");
        assert_eq!(told(&[0.5, -8192.0]), "slots never written add -8192 to outputs of at most 1");
        assert_eq!(told(&[0.5, f64::NAN]), "slots never written add NaN to outputs of at most 1");
    }
}
