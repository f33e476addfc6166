//! The merge of partial results: `wgsl/merge.wgsl`.

use super::memory::Memory;
use crate::abi::{FLAG_SINKS, Params};
use crate::dispatch::RunError;

/// Merges the parts of query row `q_row` (query token x query heads + head) into its outputs.
pub(super) fn merge(
    p: &Params,
    q_row: u32,
    m: &Memory<'_>,
    partials: &[u32],
    outputs: &mut [u32],
) -> Result<(), RunError> {
    let mask = m.uncounted_table(p.merge_mask_at + q_row / p.q_heads)?;
    let parts = (32 - mask.leading_zeros()) * p.splits;
    let sink =
        if p.flags & FLAG_SINKS != 0 { Some(m.parameter(p.sinks_at + q_row % p.q_heads)?) } else { None };
    let seen: Vec<usize> = (0..parts)
        .filter(|part| (mask >> (part / p.splits)) & 1 != 0)
        .map(|part| p.partial_at(part, q_row))
        .filter(|&at| partials[at] != 0)
        .collect();
    let lse = |at: usize| f32::from_bits(partials[at + 1]);

    let o = (p.o_at + q_row * p.dv) as usize;
    let lse_at = (p.lse_at + q_row) as usize;
    if seen.is_empty() {
        outputs[o..o + p.dv as usize].fill(0);
        outputs[lse_at] = sink.unwrap_or(f32::NEG_INFINITY).to_bits();
        return Ok(());
    }
    let top =
        seen.iter().map(|&at| lse(at)).chain(sink).fold(lse(seen[0]), |top, x| if x > top { x } else { top });
    let mut sum = sink.map_or(0.0, |sink| libm::expf(sink - top));
    for &at in &seen {
        sum += libm::expf(lse(at) - top);
    }
    for c in 0..p.dv as usize {
        let mut value = 0.0f32;
        for &at in &seen {
            value += libm::expf(lse(at) - top) * f32::from_bits(partials[at + 2 + c]);
        }
        outputs[o + c] = (value / sum).to_bits();
    }
    outputs[lse_at] = (top + libm::logf(sum)).to_bits();
    Ok(())
}
