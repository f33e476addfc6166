//! A case with what the oracle says of it: computed once, used for every layout and kernel.

use std::collections::BTreeMap;

use super::acceptance::Further;
use attnproof_cases::case::{Case, CaseError};
use attnproof_cases::replay::{CheckRow, Walk};
use attnproof_layouts::pack::{LOUD_SCALE, poison_max};
use attnproof_oracle::{Model, OracleError, Row, Spec, attention, bounds};

/// Why a case cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The case itself.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The oracle refuses it.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The bound holds for no kernel on this input.
    #[error("check {check}, row {row}: no finite error bound under model {model}; the inputs are too large")]
    NoGuarantee {
        /// Index of the check.
        check: usize,
        /// Row name.
        row: String,
        /// Precision model.
        model: String,
    },
    /// Finite poison could overflow f32 in a correct kernel.
    #[error("check {check}: scores against poisoned slots could overflow f32; the queries are too large")]
    Poison {
        /// Index of the check.
        check: usize,
    },
}

/// How far a kernel of one precision model may be from the reference, element by element.
#[derive(Debug, Clone, Default)]
pub struct Tolerance {
    /// For o `[query token, q head, dv]`.
    pub o: Vec<f64>,
    /// For lse `[query token, q head]`.
    pub lse: Vec<f64>,
}

/// One row of a check.
#[derive(Debug, Clone)]
pub struct PreparedRow {
    /// Name.
    pub name: String,
    /// Keys.
    pub len: usize,
    /// Query tokens.
    pub q_len: usize,
    /// Chain hash of each position.
    pub identity: Vec<u64>,
}

/// One check: queries, and the reference's answers in batch order.
#[derive(Debug, Clone)]
pub struct PreparedCheck {
    /// Index of the operation in the script.
    pub op: usize,
    /// Rows in batch order.
    pub rows: Vec<PreparedRow>,
    /// Queries `[query token, q head, d]`.
    pub q: Vec<f32>,
    /// Reference o `[query token, q head, dv]`.
    pub o: Vec<f64>,
    /// Reference lse `[query token, q head]`.
    pub lse: Vec<f64>,
    /// What more must hold.
    pub further: Further,
    tolerances: BTreeMap<&'static str, Tolerance>,
}

impl PreparedCheck {
    /// The bounds under `model`, which the case was prepared for.
    pub fn tolerance(&self, model: &Model) -> Option<&Tolerance> {
        self.tolerances.get(model.name)
    }

    /// The first query token of a row in the batch.
    pub fn first_token(&self, row: &str) -> usize {
        self.rows.iter().take_while(|r| r.name != row).map(|r| r.q_len).sum()
    }

    /// The row of a query token of the batch, and the token's index in that row.
    pub fn row_of(&self, token: usize) -> (&str, usize) {
        let mut first = 0;
        for row in &self.rows {
            if token < first + row.q_len {
                return (&row.name, token - first);
            }
            first += row.q_len;
        }
        ("?", token)
    }
}

/// A case with the oracle's answers.
#[derive(Debug, Clone)]
pub struct Prepared<'c> {
    /// The case.
    pub case: &'c Case,
    /// Its profile.
    pub spec: Spec,
    /// Its checks.
    pub checks: Vec<PreparedCheck>,
    /// Digest of all inputs.
    pub inputs_sha256: String,
    /// Their seed.
    pub seed: u64,
}

/// Replays `case` and asks the oracle, with bounds for each of `models`.
///
/// # Errors
/// [`PrepareError`]: the case cannot be judged.
pub fn prepare<'c>(case: &'c Case, seed: u64, models: &[Model]) -> Result<Prepared<'c>, PrepareError> {
    let spec = case.spec(seed)?;
    let mut walk = Walk::new(case, seed)?;
    let mut checks = Vec::new();
    for check in walk.by_ref() {
        let check = check?;
        let mut prepared = PreparedCheck {
            op: check.op,
            rows: Vec::new(),
            q: Vec::new(),
            o: Vec::new(),
            lse: Vec::new(),
            further: Further::of(case, &spec, &check.rows, models)?,
            tolerances: BTreeMap::new(),
        };
        for row in check.rows {
            add_row(&mut prepared, &spec, row, models, checks.len())?;
        }
        if !poison_is_safe(case, &prepared) {
            return Err(PrepareError::Poison { check: checks.len() });
        }
        checks.push(prepared);
    }
    Ok(Prepared { case, spec, checks, inputs_sha256: walk.inputs_sha256(), seed })
}

fn add_row(
    check: &mut PreparedCheck,
    spec: &Spec,
    row: CheckRow,
    models: &[Model],
    index: usize,
) -> Result<(), PrepareError> {
    let q = row.q.mapv(f64::from);
    let asked = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
    let answer = attention(spec, &asked)?;
    for model in models {
        let (_, bound) = bounds(spec, &asked, model)?;
        if bound.ok.iter().any(|ok| !ok) {
            return Err(PrepareError::NoGuarantee {
                check: index,
                row: row.name,
                model: model.name.to_owned(),
            });
        }
        let tolerance = check.tolerances.entry(model.name).or_default();
        tolerance.o.extend(bound.o.iter());
        tolerance.lse.extend(bound.lse.iter());
    }
    check.q.extend(row.q.iter());
    check.o.extend(answer.o.iter());
    check.lse.extend(answer.lse.iter());
    check.rows.push(PreparedRow { name: row.name, len: row.len, q_len: row.q_len, identity: row.identity });
    Ok(())
}

/// Whether the score of any query against the loudest poison, under the loudest poisoned scale, stays finite in f32.
fn poison_is_safe(case: &Case, check: &PreparedCheck) -> bool {
    let loudest = check.q.chunks(case.shape.d).map(|q| q.iter().map(|x| f64::from(x.abs())).sum::<f64>());
    let largest = loudest.fold(0.0, f64::max);
    let scale = f64::from(case.scale.abs()).max(1.0);
    largest * poison_max(case.kv) * f64::from(LOUD_SCALE) * scale < f64::from(f32::MAX)
}
