//! A script as dense logical K and V, by deep copies.
//!
//! The walk keeps, for every live row, its own copy of every token's codes; a fork copies them all. There are
//! no blocks, slots, keys or reference counts here, so nothing a KV manager can get wrong is shared
//! with it.

use std::collections::BTreeMap;

use attnproof_oracle::Elem;
use ndarray::Array3;
use sha2::{Digest, Sha256};

use crate::case::{Case, CaseError};
use crate::fill::{Content, TokenRow};
use crate::query::{self, Target};
use crate::script::Op;

/// What one `check` asks.
#[derive(Clone, Debug)]
pub struct Check {
    /// Index into `script.ops`.
    pub op: usize,
    /// The rows in batch order.
    pub rows: Vec<CheckRow>,
}

/// One row of a check.
#[derive(Clone, Debug)]
pub struct CheckRow {
    /// Name of the row.
    pub name: String,
    /// Keys, cached and new.
    pub len: usize,
    /// Query tokens: the last ones of the row, one for a row of length 0.
    pub q_len: usize,
    /// Queries `[query token, query head, d]`.
    pub q: Array3<f32>,
    /// K `[len, kv head, d]`: code times scale, exact in f64.
    pub k: Array3<f64>,
    /// V `[len, kv head, dv]`: code times scale, exact in f64.
    pub v: Array3<f64>,
    /// Chain hash of each position: equal only where all tokens so far and the salt are equal.
    pub identity: Vec<u64>,
    /// The keys that the queries were aimed at.
    pub targets: Vec<Target>,
    /// Codes and scales of every token, if [`Walk::with_stored`] asks for them; otherwise empty.
    pub stored: Vec<TokenRow>,
}

/// All checks of a case.
#[derive(Clone, Debug)]
pub struct Replay {
    /// In script order.
    pub checks: Vec<Check>,
    /// SHA-256, as hex digits, over the queries, K and V codes, scales and sinks of all checks.
    pub inputs_sha256: String,
}

/// Replays the whole script and keeps every check. For long traces [`Walk`] gives one check at a time.
///
/// # Errors
/// [`CaseError::Script`] if an operation names a row that is not there, [`CaseError::Spec`] if
/// the oracle refuses the profile.
pub fn replay(case: &Case, seed: u64) -> Result<Replay, CaseError> {
    let mut walk = Walk::new(case, seed)?;
    let checks = walk.by_ref().collect::<Result<_, _>>()?;
    Ok(Replay { checks, inputs_sha256: walk.inputs_sha256() })
}

/// One live row.
#[derive(Clone, Debug)]
struct Row {
    tokens: Vec<u64>,
    salt: u64,
    content: Vec<TokenRow>,
}

/// An iterator over the checks of a case that holds only the live rows.
#[derive(Clone, Debug)]
pub struct Walk<'c> {
    case: &'c Case,
    seed: u64,
    content: Content<'c>,
    live: BTreeMap<String, Row>,
    next_op: usize,
    /// Rows asked about so far: the turn of the targets' rotation.
    asked: usize,
    with_stored: bool,
    digest: Sha256,
}

impl<'c> Walk<'c> {
    /// Starts before the first operation.
    ///
    /// # Errors
    /// [`CaseError::Field`] or [`CaseError::Spec`] if the case does not keep its limits.
    pub fn new(case: &'c Case, seed: u64) -> Result<Self, CaseError> {
        case.validate()?;
        let mut digest = Sha256::new();
        for sink in case.spec(seed)?.profile().sinks.iter().flatten() {
            digest.update(sink.to_bits().to_le_bytes());
        }
        let content = Content::new(case, seed);
        Ok(Self {
            case,
            seed,
            content,
            live: BTreeMap::new(),
            next_op: 0,
            asked: 0,
            with_stored: false,
            digest,
        })
    }

    /// The same walk over the X-ray of the inputs: see [`Content::with_xray`]. Queries stay as they are.
    #[must_use]
    pub fn with_xray(self, pass: usize) -> Self {
        Self { content: self.content.with_xray(pass), ..self }
    }

    /// Whether rows carry the stored codes and scales of their tokens.
    #[must_use]
    pub fn with_stored(self, with_stored: bool) -> Self {
        Self { with_stored, ..self }
    }

    /// SHA-256, as hex digits, over the inputs of the checks given so far.
    pub fn inputs_sha256(&self) -> String {
        use std::fmt::Write;
        let bytes = self.digest.clone().finalize();
        bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Applies one operation; a check gives its rows.
    fn step(&mut self, op: &Op) -> Result<Option<Vec<CheckRow>>, String> {
        match op {
            Op::Prefill { row, tokens, salt, .. } | Op::Resume { row, tokens, salt } => {
                let content = self.content.rows(tokens, *salt, 0..tokens.len());
                self.insert(row, Row { tokens: tokens.clone(), salt: *salt, content })?;
            }
            Op::Append { row, tokens } => {
                let state = self.live.get_mut(row).ok_or_else(|| not_live(row))?;
                let start = state.tokens.len();
                state.tokens.extend(tokens);
                let new = self.content.rows(&state.tokens, state.salt, start..state.tokens.len());
                state.content.extend(new);
            }
            Op::Fork { parent, child } => {
                let copy = self.live.get(parent).cloned().ok_or_else(|| not_live(parent))?;
                self.insert(child, copy)?;
            }
            Op::Free { rows } => {
                for row in rows {
                    self.live.remove(row).ok_or_else(|| not_live(row))?;
                }
            }
            Op::Preempt { row } => {
                self.live.remove(row).ok_or_else(|| not_live(row))?;
            }
            Op::Check { rows, q_len } => {
                let rows =
                    rows.iter().map(|name| self.question(name, *q_len as usize)).collect::<Result<_, _>>()?;
                return Ok(Some(rows));
            }
            Op::Pressure { .. } | Op::ExpectFail(_) | Op::Invariants => {}
        }
        Ok(None)
    }

    fn insert(&mut self, name: &str, row: Row) -> Result<(), String> {
        match self.live.insert(name.to_owned(), row) {
            None => Ok(()),
            Some(_) => Err(format!("row `{name}` is live already")),
        }
    }

    fn question(&mut self, name: &str, q_len: usize) -> Result<CheckRow, String> {
        let row = self.live.get(name).ok_or_else(|| not_live(name))?;
        let len = row.tokens.len();
        let q_len = q_len.min(len).max(1);
        let shape = self.case.shape;
        let k = dense(row, self.case.kv, shape.kv_heads, shape.d, |token| (&token.k, &token.k_scale));
        let v = dense(row, self.case.kv, shape.kv_heads, shape.dv, |token| (&token.v, &token.v_scale));
        let asked = query::queries(self.case, self.seed, &k.view(), q_len, self.asked);
        self.asked += 1;
        asked.q.iter().for_each(|q| self.digest.update(q.to_bits().to_le_bytes()));
        for token in &row.content {
            let scales = token.k_scale.iter().chain(&token.v_scale).map(|scale| scale.to_bits());
            for bits in token.k.iter().chain(&token.v).copied().chain(scales) {
                self.digest.update(bits.to_le_bytes());
            }
        }
        let identity = self.content.chain(&row.tokens, row.salt);
        let stored = if self.with_stored { row.content.clone() } else { Vec::new() };
        Ok(CheckRow {
            name: name.to_owned(),
            len,
            q_len,
            q: asked.q,
            k,
            v,
            identity,
            targets: asked.targets,
            stored,
        })
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Check, CaseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let case = self.case;
        while let Some(operation) = case.script.ops.get(self.next_op) {
            let op = self.next_op;
            self.next_op += 1;
            match self.step(operation) {
                Ok(None) => {}
                Ok(Some(rows)) => return Some(Ok(Check { op, rows })),
                Err(reason) => {
                    self.next_op = case.script.ops.len();
                    let line = case.script.lines.get(op).copied().unwrap_or(0);
                    return Some(Err(CaseError::Script { case: case.name.clone(), op, line, reason }));
                }
            }
        }
        None
    }
}

/// The dequantised tensor `[token, kv head, dim]` of a row.
fn dense(
    row: &Row,
    elem: Elem,
    heads: usize,
    dims: usize,
    part: impl Fn(&TokenRow) -> (&Vec<u32>, &Vec<f32>),
) -> Array3<f64> {
    Array3::from_shape_fn((row.content.len(), heads, dims), |(position, head, dim)| {
        let (codes, scales) = part(&row.content[position]);
        let scale = match scales.as_slice() {
            [] => 1.0,
            [tensor] => f64::from(*tensor),
            per_head => f64::from(per_head[head]),
        };
        elem.decode(codes[head * dims + dim]) * scale
    })
}

fn not_live(row: &str) -> String {
    format!("row `{row}` is not live")
}

#[cfg(test)]
mod tests;
