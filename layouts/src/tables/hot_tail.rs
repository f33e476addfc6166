//! Hot tail: a packed table for the cold blocks, and for each row one contiguous extent that holds its newest tokens.

use super::packed::push_packed;
use super::runs::{block_flags, span_flags};
use super::{Batch, BatchRow, Table, Tables};
use crate::fault::Flaw;
use crate::span::{RESERVED, Sharing};

/// `CuQ [R + 1]`, the packed table of the positions before the tail, `Tail [R][4]`.
pub(super) fn lower(batch: &Batch<'_>, tables: &mut Tables) {
    tables.push(Table::CuQ, batch.cu_q());
    let cold: Vec<_> = batch.rows.iter().map(|row| cold_part(batch, row)).collect();
    push_packed(&cold, batch, tables);
    tables.push(Table::Tail, batch.rows.iter().flat_map(|row| tail(batch, row)));
}

fn cold_part<'r>(batch: &Batch<'_>, row: &BatchRow<'r>) -> (&'r [Option<u32>], u32) {
    let cold = (row.view.hot_start / batch.block_size) as usize;
    let blocks = batch.written(row);
    (&blocks[..cold.min(blocks.len())], row.view.hot_start)
}

/// {slot, start, len, flags} of the row's tail: `len` counts written tokens, `flags` are those of its last block.
fn tail(batch: &Batch<'_>, row: &BatchRow<'_>) -> [u32; 4] {
    let start = row.view.hot_start;
    let first = (start / batch.block_size) as usize;
    let written = batch.written(row);
    let slot = written.get(first).copied().flatten().map_or(0, |block| block * batch.block_size);
    let flags = match written.get(first..).unwrap_or_default() {
        [.., Some(last)] => block_flags(batch, row, written.len() - 1, *last),
        _ => span_flags(batch, Sharing::Tail, false),
    };
    let reserved = if row.view.blocks.len() > written.len() { RESERVED } else { 0 };
    let start = if batch.has(Flaw::TailStartsEarly) { start.saturating_sub(batch.block_size) } else { start };
    let room = row.view.blocks.len().saturating_sub(written.len()) as u32 * batch.block_size;
    let end = if batch.has(Flaw::TailCountsRoom) { row.view.len + room } else { row.view.len };
    [slot, start, end.saturating_sub(start), flags | reserved]
}
