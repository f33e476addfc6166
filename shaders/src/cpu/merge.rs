//! The merge of partial results: `wgsl/merge.wgsl`.

use super::memory::Memory;
use super::rules::{Part, Rules};
use crate::abi::Params;
use crate::dispatch::RunError;

/// The merge kernel over the partial results of one run.
pub(super) struct Merge<'a> {
    pub(super) p: &'a Params,
    pub(super) rules: &'a Rules,
    pub(super) memory: &'a Memory<'a>,
    pub(super) partials: &'a [u32],
}

impl Merge<'_> {
    /// Merges the parts of `q_row` (query token x query heads + head) into its outputs.
    pub(super) fn query_row(&self, q_row: u32, outputs: &mut [u32]) -> Result<(), RunError> {
        let (p, r) = (self.p, self.rules);
        let head = q_row % p.q_heads;
        let sink = (r.sink)(r, p, head, self.memory.parameters(p.sinks_at, self.sinks())?);
        let parts = self.parts(q_row)?;
        let empty = |q_row: u32| self.parts(q_row).is_ok_and(|parts| parts.is_empty());
        let Some(out_row) = (r.out_row)(p, q_row, &empty) else { return Ok(()) };

        let o = (p.o_at + out_row * p.dv) as usize;
        let dims = (r.out_dims)(p) as usize;
        let lse_at = (p.lse_at + out_row) as usize;
        if parts.is_empty() {
            if let Some((value, lse)) = (r.empty)(sink) {
                outputs[o..o + dims].fill(value.to_bits());
                self.store_lse(lse_at, lse, outputs);
            }
            return Ok(());
        }
        let larger = |top: f32, x: f32| if x > top { x } else { top };
        let top = parts.iter().map(|part| part.lse).chain(sink).fold(parts[0].lse, larger);
        let top = (r.merge_max)(top);
        let sink_weight = sink.map_or(0.0, |sink| libm::expf(sink - top));
        let weights: Vec<f32> = parts.iter().map(|part| (r.merge_weight)(part.lse - top)).collect();
        let sum = weights.iter().fold(sink_weight, |sum, weight| sum + weight);
        for c in 0..dims {
            let mut value = 0.0f32;
            for (part, weight) in parts.iter().zip(&weights) {
                value += weight * part.values.map_or_else(|same| same, |at| self.partial(at + c));
            }
            outputs[o + c] = (value / sum).to_bits();
        }
        self.store_lse(lse_at, (r.lse)(top, sum, sink, &parts), outputs);
        Ok(())
    }

    /// The parts of `q_row` that are merged.
    fn parts(&self, q_row: u32) -> Result<Vec<Part>, RunError> {
        let (p, r) = (self.p, self.rules);
        let mask = (r.mask)(self.memory.uncounted_table(p.merge_mask_at + q_row / p.q_heads)?);
        let count = (32 - mask.leading_zeros()) * p.splits;
        let existing = (0..count).filter(|part| (mask >> (part / p.splits)) & 1 != 0);
        let part = |at: usize| match r.empty_part {
            _ if self.partials[at] != 0 => Some(Part { lse: self.partial(at + 1), values: Ok(at + 2) }),
            Some((lse, value)) => Some(Part { lse, values: Err(value) }),
            None => None,
        };
        let mut parts = existing.filter_map(|index| part(p.partial_at(index, q_row))).collect();
        (r.parts)(&mut parts);
        Ok(parts)
    }

    fn sinks(&self) -> u32 {
        if self.p.flags & crate::abi::FLAG_SINKS != 0 { self.p.q_heads } else { 0 }
    }

    fn partial(&self, word: usize) -> f32 {
        f32::from_bits(self.partials[word])
    }

    fn store_lse(&self, at: usize, lse: f32, outputs: &mut [u32]) {
        if self.rules.write_lse {
            outputs[at] = lse.to_bits();
        }
    }
}
