//! Packed block table: the page table of `FlashInfer`, `indptr` / `indices` / `last_len`.

use super::{Batch, NO_BLOCK, Table, Tables, running_totals};
use crate::fault::Flaw;

/// `CuQ [R + 1]`, then the packed table of all written blocks.
pub(super) fn lower(batch: &Batch<'_>, tables: &mut Tables) {
    tables.push(Table::CuQ, batch.cu_q());
    let rows: Vec<_> = batch.rows.iter().map(|row| (batch.written(row), row.view.len)).collect();
    push_packed(&rows, batch, tables);
}

/// `Indptr [R + 1]`, `Indices [nnz]`, `LastLen [R]` of rows given as (blocks, tokens in them).
pub(super) fn push_packed(rows: &[(&[Option<u32>], u32)], batch: &Batch<'_>, tables: &mut Tables) {
    let block_size = batch.block_size;
    tables.push(Table::Indptr, running_totals(rows.iter().map(|(blocks, _)| blocks.len() as u32)));
    let entries = rows.iter().flat_map(|(blocks, _)| blocks.iter());
    tables.push(Table::Indices, entries.map(|block| block.unwrap_or(NO_BLOCK)));
    let last_len = |len: u32| match len {
        0 => 0,
        _ if batch.has(Flaw::LastLenZero) => len % block_size,
        _ => (len - 1) % block_size + 1,
    };
    tables.push(Table::LastLen, rows.iter().map(|&(_, len)| last_len(len)));
}
