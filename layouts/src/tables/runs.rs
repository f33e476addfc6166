//! Maximal runs: consecutive logical blocks that are consecutive in the pool, too, as span records.

use attnproof_oracle::scale::Granularity;

use super::{Batch, BatchRow};
use crate::fault::Flaw;
use crate::span::{NONE, RESERVED, Sharing, SpanFlags, SpanRec, WHOLE_RUN, stamp};

/// The runs of the row's logical blocks `logical` (ascending), clipped to its length. Released blocks are left out.
pub(super) fn runs(
    batch: &Batch<'_>,
    row: &BatchRow<'_>,
    logical: &[u32],
    group: Option<u32>,
) -> Vec<SpanRec> {
    let block_size = batch.block_size;
    let written = batch.written(row);
    let mut runs: Vec<SpanRec> = Vec::new();
    for &i in logical {
        let Some(block) = written.get(i as usize).copied().flatten() else { continue };
        let record = one_block(batch, row, i, block, group);
        match runs.last_mut() {
            Some(last) if continues(batch, last, &record) => {
                last.length += record.length;
                last.check ^= record.check;
            }
            _ => runs.push(record),
        }
    }
    let reserve = row.view.blocks.get(written.len()).copied().flatten();
    if let (Some(last), Some(reserve)) = (runs.last_mut(), reserve) {
        let end = last.logical_start + last.length;
        if end == row.view.len
            && reserve * block_size == (last.phys_slot + last.length).next_multiple_of(block_size)
        {
            last.flags |= RESERVED;
        }
    }
    runs
}

/// Whether `next` can be read as part of `last`. Only a row's last block is partial, so what continues is aligned.
fn continues(batch: &Batch<'_>, last: &SpanRec, next: &SpanRec) -> bool {
    let end = last.phys_slot + last.length;
    let follows = end == next.phys_slot
        || batch.has(Flaw::GapMerged) && end + batch.block_size == next.phys_slot
        || batch.has(Flaw::DescendingMerged) && next.phys_slot + batch.block_size == last.phys_slot;
    last.logical_start + last.length == next.logical_start
        && follows
        && (last.flags == next.flags || batch.has(Flaw::FlagsMerged))
}

fn one_block(batch: &Batch<'_>, row: &BatchRow<'_>, logical: u32, block: u32, group: Option<u32>) -> SpanRec {
    let block_size = batch.block_size;
    let logical_start = logical * block_size;
    let (scale_index, scale_stride_log2) = match batch.scale {
        Granularity::None | Granularity::Tensor | Granularity::Head => (0, WHOLE_RUN),
        Granularity::Block => (block, block_size.trailing_zeros()),
        Granularity::Token => (block * block_size, 0),
    };
    SpanRec {
        logical_start,
        length: block_size.min(row.view.len - logical_start),
        phys_slot: block * block_size,
        flags: block_flags(batch, row, logical as usize, block),
        scale_index,
        scale_stride_log2,
        group_id: group.unwrap_or(NONE),
        check: stamp(batch.manager.block(block).epoch, block),
    }
}

/// Flags of one written block of a row.
pub(super) fn block_flags(batch: &Batch<'_>, row: &BatchRow<'_>, logical: usize, block: u32) -> u32 {
    let view = batch.manager.block(block);
    let holds_next_slot = logical == (row.view.len / batch.block_size) as usize;
    let sharing = match (view.refs > 1, view.keyed) {
        (true, _) => Sharing::SharedRo,
        (false, true) => Sharing::CachedRo,
        (false, false) if holds_next_slot => Sharing::Tail,
        (false, false) => Sharing::Private,
    };
    span_flags(batch, sharing, view.keyed && view.filled == batch.block_size)
}

/// The flag word of the batch's format.
pub(super) fn span_flags(batch: &Batch<'_>, sharing: Sharing, sealed: bool) -> u32 {
    SpanFlags { sharing, sealed, reserved: false, elem: batch.elem, scale: batch.scale, pool: 0 }.bits()
}
