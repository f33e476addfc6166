//! Classic paged: a padded table of blocks and the rows' lengths (the block table of vLLM's paged kernel).

use super::{Batch, NO_BLOCK, Table, Tables};

/// `CuQ [R + 1]`, `BlockTable [R][M]` with M = most blocks of a row, `SeqLens [R]`.
pub(super) fn lower(batch: &Batch<'_>, tables: &mut Tables) {
    let rows = || batch.rows.iter().map(|row| batch.written(row));
    let columns = rows().map(<[_]>::len).max().unwrap_or(0);
    let padded = |blocks: &[Option<u32>]| -> Vec<u32> {
        (0..columns).map(|i| blocks.get(i).copied().flatten().unwrap_or(NO_BLOCK)).collect()
    };
    tables.push(Table::CuQ, batch.cu_q());
    tables.push(Table::BlockTable, rows().flat_map(padded));
    tables.push(Table::SeqLens, batch.rows.iter().map(|row| row.view.len));
}
