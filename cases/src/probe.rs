//! What the output of a probe says: which keys a kernel read, how often, from which head, under which scale.
//!
//! The inputs of a probe ([`FillKind::is_probe`]) are codes, so that its outputs can be read back. `ballot` and
//! `needle` decide by themselves, at lengths where no sound error bound can see one key: a finding there is a fault,
//! and a right kernel has none whatever its order of summation, rounding direction or format of weights and outputs.
//! For the other probes the error bound decides, and a finding only names the fault.
//!
//! The decoders see the dense rows of [`crate::replay`] only and share no code with the oracle's references.

mod ballot;
mod heads;
mod keys;
mod needle;
mod slope;
mod softmax;

use std::ops::Range;

use attnproof_oracle::alibi_slopes;
use ndarray::{Array3, ArrayView1, ArrayView3, s};

use crate::case::Case;
use crate::fill::FillKind;
use crate::query::{position, visible_range};
use crate::replay::CheckRow;

/// What one output row of a probe shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Query token of the row, from 0.
    pub token: usize,
    /// Query head.
    pub head: usize,
    /// The fault in words, such as `key 3151 missing`.
    pub says: String,
}

/// Whether the inputs of the case are a probe.
pub fn is_probe(case: &Case) -> bool {
    case.fill.is_probe()
}

/// Reads the outputs of one row of a probe: `o` `[query token, q head, dv]` flattened, `lse` `[query token, q head]` in
/// nats. Empty for a right kernel under any legal arithmetic, and where the case is no probe. An LSE that is not finite
/// is not used.
///
/// # Panics
/// If `o` or `lse` does not have the size of the row's outputs.
pub fn decode(case: &Case, row: &CheckRow, seed: u64, o: &[f64], lse: &[f64]) -> Vec<Finding> {
    let heads = case.shape.q_heads;
    let o = outputs(case, row, o);
    assert_eq!(lse.len(), row.q_len * heads, "one LSE for each query token and head");
    let Ok(spec) = case.spec(seed) else { return Vec::new() };
    let sinks = spec.profile().sinks.as_deref();
    let slopes = if case.alibi { alibi_slopes(heads) } else { vec![0.0; heads] };
    let mut ballots = ballot::Ballots::new(case, row, seed);
    let places = (0..row.q_len).flat_map(|token| (0..heads).map(move |head| (token, head)));
    places
        .filter_map(|(token, head)| {
            let asked = Asked {
                case,
                row,
                token,
                head,
                kv: head / case.shape.group(),
                visible: visible_range(case, row.len, row.q_len, token),
                position: position(case, row.len, row.q_len, token),
                slope: f64::from(slopes[head]),
                sink: sinks.map(|sinks| f64::from(sinks[head])),
                o: o.slice(s![token, head, ..]),
                lse: lse[token * heads + head],
            };
            let says = asked.says(&mut ballots)?;
            Some(Finding { token, head, says })
        })
        .collect()
}

/// Weights read back from an X-ray.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The keys of the pass.
    pub keys: Range<usize>,
    /// `[query token, q head, key of the pass]`: the weight that the kernel gave the key, 0 outside its support.
    pub weights: Array3<f64>,
}

/// The weights that outputs `o` `[query token, q head, dv]` of one pass of an X-ray give its keys. `row` must come from
/// [`Walk::with_xray`](crate::replay::Walk::with_xray) with the same pass.
///
/// # Panics
/// If `o` does not have the size of the row's outputs.
pub fn weights(case: &Case, row: &CheckRow, o: &[f64]) -> Weights {
    let o = outputs(case, row, o);
    let (group, dv) = (case.shape.group(), case.shape.dv);
    let is_hot = |key: &usize| row.v[[*key, 0, *key % dv]] != 0.0;
    let first = (0..row.len).find(is_hot).unwrap_or(0);
    let keys = first..first + (first..row.len).take_while(is_hot).take(dv).count();
    let size = (row.q_len, case.shape.q_heads, keys.len());
    let weights = Array3::from_shape_fn(size, |(token, head, i)| {
        let dim = (first + i) % dv;
        o[[token, head, dim]] / row.v[[first + i, head / group, dim]]
    });
    Weights { keys, weights }
}

fn outputs<'o>(case: &Case, row: &CheckRow, o: &'o [f64]) -> ArrayView3<'o, f64> {
    let size = (row.q_len, case.shape.q_heads, case.shape.dv);
    ArrayView3::from_shape(size, o).expect("one output for each query token, head and dim")
}

/// One query token and head with what the kernel answered.
struct Asked<'a> {
    case: &'a Case,
    row: &'a CheckRow,
    token: usize,
    head: usize,
    /// The KV head that it reads.
    kv: usize,
    /// The keys it may see.
    visible: Range<usize>,
    /// Absolute position of the query token.
    position: usize,
    /// `ALiBi` slope, 0 without.
    slope: f64,
    /// Logit of the sink.
    sink: Option<f64>,
    o: ArrayView1<'a, f64>,
    lse: f64,
}

impl Asked<'_> {
    fn says(&self, ballots: &mut ballot::Ballots<'_>) -> Option<String> {
        if self.visible.is_empty() {
            return None;
        }
        if let Some(bad) = self.o.iter().find(|o| !o.is_finite()) {
            let cause =
                if self.case.softcap.is_some() { ": a tanh of exponentials overflows so" } else { "" };
            return Some(format!("output {bad}{cause}"));
        }
        match self.case.fill {
            FillKind::Ballot => ballots.says(self),
            FillKind::Needle => needle::says(self),
            FillKind::Octave | FillKind::Thermometer => slope::says(self),
            FillKind::HeadConstant => heads::says(self),
            _ => None,
        }
    }

    /// Where a key lies that the query must not see.
    fn whereabouts(&self, key: usize) -> &'static str {
        if key < self.visible.start { "outside the window" } else { "after the query" }
    }

    /// V of one key of a KV head.
    fn v(&self, key: usize, kv: usize) -> ArrayView1<'_, f64> {
        self.row.v.slice(s![key, kv, ..])
    }

    /// The KV heads that this query head must not read.
    fn other_heads(&self) -> impl Iterator<Item = usize> {
        let own = self.kv;
        (0..self.case.shape.kv_heads).filter(move |kv| *kv != own)
    }

    /// The factor `g` for which the outputs are `g` times `code`, if there is one.
    fn gain(&self, code: &ArrayView1<'_, f64>) -> Option<f64> {
        let gain = self.o.dot(code) / code.dot(code);
        let fits =
            self.o.iter().zip(code).all(|(o, code)| (o - gain * code).abs() <= LOOSE * (gain * code).abs());
        (gain.is_finite() && gain != 0.0 && fits).then_some(gain)
    }
}

/// How far, relatively, an element may be from a code that it still stands for. Wide enough for weights and outputs in
/// bf16 and for a sum of 65,536 terms that all round the same way (together 1.6 %), far less than codes differ.
const LOOSE: f64 = 0.03;

#[cfg(test)]
mod tests;
