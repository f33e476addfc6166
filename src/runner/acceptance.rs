//! What more must hold where the inputs allow more to be said than the rigorous bound says.
//!
//! A bound that holds in any order of summation cannot see one lost key among many thousands. The outputs of probes can be
//! read back exactly, whatever the length; on random continuous data a narrower bound and a score test hold. Neither may be
//! asked of hostile inputs.

use std::collections::BTreeMap;

use attnproof_cases::case::Case;
use attnproof_cases::fill::FillKind;
use attnproof_cases::probe;
use attnproof_cases::replay::CheckRow;
use attnproof_oracle::{Answer, Model, OracleError, OutType, Row, Spec, budget_used, matched, stat_bounds};
use attnproof_report::model::{Acceptance, Num};
use attnproof_shaders::results::Outputs;

/// Findings told of one check; the rest is counted.
const TOLD: usize = 3;

/// The further tests of one check.
#[derive(Debug, Clone)]
pub enum Further {
    /// The bound says all there is to say.
    None,
    /// Outputs that can be read back.
    Probe(Vec<CheckRow>),
    /// Random continuous data, with the narrow bound of o `[query token, q head, dv]` by precision model.
    Random(Vec<CheckRow>, BTreeMap<&'static str, Vec<f64>>),
}

/// What a further test says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// Why the outputs are not accepted.
    pub objection: Option<String>,
    /// Shares of the narrow bound and scores, where they were tested.
    pub acceptance: Option<Acceptance>,
}

impl Further {
    /// The tests for a check of `case` with these rows.
    ///
    /// # Errors
    /// [`OracleError`]: a tensor that does not fit the spec.
    pub fn of(case: &Case, spec: &Spec, rows: &[CheckRow], models: &[Model]) -> Result<Self, OracleError> {
        if probe::is_probe(case) {
            return Ok(Self::Probe(rows.to_vec()));
        }
        if case.fill != FillKind::Normal {
            return Ok(Self::None);
        }
        let mut bounds: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let q = row.q.mapv(f64::from);
            let asked = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
            for model in models {
                let narrow = stat_bounds(spec, &asked, model)?;
                bounds.entry(model.name).or_default().extend(narrow.iter());
            }
        }
        Ok(Self::Random(rows.to_vec(), bounds))
    }

    /// Judges outputs that the bound has accepted. `want` is the reference's o, flattened as the outputs are.
    ///
    /// # Errors
    /// [`OracleError`]: a tensor that does not fit the spec.
    pub fn judge(
        &self,
        case: &Case,
        spec: &Spec,
        seed: u64,
        model: &Model,
        want: &[f64],
        outputs: &Outputs,
    ) -> Result<Said, OracleError> {
        match self {
            Self::None => Ok(Said::default()),
            Self::Probe(rows) => {
                Ok(Said { objection: read_back(case, rows, seed, outputs), acceptance: None })
            }
            Self::Random(rows, bounds) => {
                let narrow = bounds.get(model.name).map_or(&[][..], Vec::as_slice);
                random(spec, rows, model, narrow, want, outputs)
            }
        }
    }
}

fn values(bits: &[u32]) -> Vec<f64> {
    bits.iter().map(|&bits| f64::from(f32::from_bits(bits))).collect()
}

/// What the decoders of the probes find, in words: each finding once a row, with the query tokens and heads that show it.
fn read_back(case: &Case, rows: &[CheckRow], seed: u64, outputs: &Outputs) -> Option<String> {
    let (heads, dv) = (case.shape.q_heads, case.shape.dv);
    let (o, lse) = (values(outputs.o()), values(outputs.lse()));
    let mut found: Vec<(String, usize, usize)> = Vec::new();
    let mut first = 0;
    for row in rows {
        let q_rows = first * heads..(first + row.q_len) * heads;
        let of_row = &o[q_rows.start * dv..q_rows.end * dv];
        for finding in probe::decode(case, row, seed, of_row, &lse[q_rows.clone()]) {
            let says = format!("row {}: {}", row.name, finding.says);
            match found.iter_mut().find(|(known, ..)| *known == says) {
                Some((_, times, _)) => *times += 1,
                None => found.push((says, 1, q_rows.len())),
            }
        }
        first += row.q_len;
    }
    let told = |(says, times, of): &(String, usize, usize)| {
        if *of == 1 { says.clone() } else { format!("{says} ({times} of {of} query tokens x heads)") }
    };
    let more = found.len().saturating_sub(TOLD);
    let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
    let lines: Vec<String> = found.iter().take(TOLD).map(told).collect();
    (!found.is_empty()).then(|| format!("the probe reads back: {}{tail}", lines.join("; ")))
}

fn random(
    spec: &Spec,
    rows: &[CheckRow],
    model: &Model,
    narrow: &[f64],
    want: &[f64],
    outputs: &Outputs,
) -> Result<Said, OracleError> {
    let shape = spec.shape();
    let got = values(outputs.o());
    let mut used: f64 = 0.0;
    for ((&got, &want), &bound) in got.iter().zip(want).zip(narrow) {
        used = used.max(budget_used(got, want, bound, OutType::F32));
    }
    let mut objection = None;
    // NaN is within nothing
    let within = used <= 1.0;
    if !within {
        objection = Some(format!("{used:.2}x the narrow bound for random data"));
    }
    let mut worst: f64 = 0.0;
    let mut first = 0;
    for row in rows {
        let mut answer = Answer::empty(spec, row.q_len);
        for ((i, h, c), o) in answer.o.indexed_iter_mut() {
            *o = got[((first + i) * shape.q_heads + h) * shape.dv + c];
        }
        first += row.q_len;
        let q = row.q.mapv(f64::from);
        let asked = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
        let Some(score) = matched::score(spec, &asked, model, &answer)?.into_iter().next() else { continue };
        worst = worst.max(score.t);
        let unremarkable = score.t <= matched::threshold(spec.profile());
        if !unremarkable {
            objection = Some(format!(
                "row {}: the score test says {} (T = {:.1}, kappa = {:.4})",
                row.name, score.says, score.t, score.kappa
            ));
        }
    }
    Ok(Said { objection, acceptance: Some(Acceptance { narrow_used: Num(used), score: Num(worst) }) })
}
