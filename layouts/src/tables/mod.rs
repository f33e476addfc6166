//! Lowering: the manager's state of a batch as the u32 words a kernel reads, one file per layout.
//!
//! Growth room beyond a row's length is in no table of any layout.

mod classic;
mod contiguous;
mod groups;
mod hot_tail;
mod hybrid;
mod packed;
mod pieces;
mod runs;
#[cfg(test)]
pub(crate) mod tests;

use std::ops::Range;

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;
use thiserror::Error;

use crate::fault::Flaw;
use crate::kind::LayoutKind;
use crate::launch::{Attention, LaunchRow, launch_rows};
use crate::manager::{Manager, RowView};
use groups::Segment;
pub use pieces::{Piece, pieces};

/// Entry of a block that is not there: released, or beyond the row (-1 as i32).
pub const NO_BLOCK: u32 = u32::MAX;

/// The tables by their names in the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// `u32[R + 1]`: first query token of each row, and the total.
    CuQ,
    /// `i32[R][M]`: block per (row, logical block); unused and released = -1.
    BlockTable,
    /// `u32[R]`: keys per row.
    SeqLens,
    /// `u32[R + 1]`: first entry of each row in [`Table::Indices`], and the total.
    Indptr,
    /// `u32[nnz]`: blocks of all rows; released ones keep their place as [`NO_BLOCK`].
    Indices,
    /// `u32[R]`: tokens in the last block of each row, 1 to B, or 0 in a row without blocks.
    LastLen,
    /// `u32[R][4]` = {slot, start, len, flags}: the contiguous tail of each row.
    Tail,
    /// [`crate::span::SeqDesc`] `[R]`.
    SeqDesc,
    /// [`crate::span::SpanRec`] `[n]`: private runs row by row, then the runs of the groups.
    Spans,
    /// [`crate::span::GroupDesc`] `[g]`.
    Groups,
    /// `u32[m]`: rows of the groups.
    Members,
    /// `u32[query tokens]`: which parts exist. Bit 0 = the row's own (always), bit 1 + l = a group of level l.
    MergeMask,
}

/// The tables of one batch in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The buffer.
    pub words: Vec<u32>,
    /// Which words belong to which table, in order.
    pub parts: Vec<(Table, Range<usize>)>,
    /// Groups of rows that share a prefix.
    pub groups: u32,
    /// Levels of these groups: the largest level + 1, 0 if there are none.
    pub levels: u32,
    /// Words of [`Table::MergeMask`].
    pub merge_mask: Range<usize>,
}

impl Tables {
    /// Word offset of a table, 0 if the layout has none of that name.
    pub fn at(&self, table: Table) -> u32 {
        self.range(table).start as u32
    }

    /// The words of a table, empty if the layout has none of that name.
    pub fn get(&self, table: Table) -> &[u32] {
        &self.words[self.range(table)]
    }

    fn range(&self, table: Table) -> Range<usize> {
        self.parts.iter().find(|(t, _)| *t == table).map_or(0..0, |(_, range)| range.clone())
    }

    /// Appends a table.
    fn push(&mut self, table: Table, words: impl IntoIterator<Item = u32>) {
        let start = self.words.len();
        self.words.extend(words);
        self.parts.push((table, start..self.words.len()));
    }

    /// Appends a table of records of whole words.
    fn push_records<T: bytemuck::Pod>(&mut self, table: Table, records: &[T]) {
        self.push(table, bytemuck::cast_slice::<T, u32>(records).iter().copied());
    }
}

/// One row of a batch to lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowQuery<'a> {
    /// Name of a live row.
    pub name: &'a str,
    /// Query tokens; the last is at the row's last position (bottom-right) or at `q_len` - 1 (top-left).
    pub q_len: u32,
}

/// Why a batch cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LowerError {
    /// No row of that name is alive.
    #[error("row {0:?} does not exist")]
    UnknownRow(String),
    /// The query tokens of the batch do not fit u32.
    #[error("more than 2^32 - 1 query tokens in one batch")]
    TooManyQueries,
    /// Groups nest deeper than [`Table::MergeMask`] has bits.
    #[error("shared prefixes nest {levels} levels deep, at most {limit} are supported")]
    TooManyLevels {
        /// Levels of the batch.
        levels: u32,
        /// Most levels.
        limit: u32,
    },
    /// KV heads do not divide query heads.
    #[error("{q_heads} query heads cannot share {kv_heads} KV heads evenly")]
    Heads {
        /// Query heads.
        q_heads: u32,
        /// KV heads.
        kv_heads: u32,
    },
    /// Store and manager disagree on layout, block size or number of blocks.
    #[error("the store belongs to another pool than the manager")]
    OtherPool,
}

/// The tables of `rows` (in that order) in the manager's present state. `scales` = granularity of (K, V) scales; span
/// records describe K's, and the row of a scale table (physical block or slot) is the same number for both.
///
/// # Errors
/// [`LowerError::UnknownRow`], [`LowerError::TooManyQueries`], [`LowerError::TooManyLevels`].
pub fn lower(
    m: &Manager,
    rows: &[RowQuery<'_>],
    attention: &Attention,
    scales: (Granularity, Granularity),
    elem: Elem,
) -> Result<Tables, LowerError> {
    let mut views = Vec::with_capacity(rows.len());
    for (query, shape) in rows.iter().zip(launch_rows(m, rows)?) {
        let view = m.row(query.name).ok_or_else(|| LowerError::UnknownRow(query.name.to_owned()))?;
        views.push(BatchRow { view, shape });
    }
    mislead(m, &mut views);
    let batch = Batch {
        manager: m,
        block_size: m.config().block_size,
        rows: views,
        attention,
        elem,
        scale: scales.0,
    };
    let segments =
        if m.kind() == LayoutKind::HybridPrefixShared { groups::segments(&batch) } else { Vec::new() };
    let levels = segments.iter().map(|s| s.level + 1).max().unwrap_or(0);
    if levels > MAX_LEVELS {
        return Err(LowerError::TooManyLevels { levels, limit: MAX_LEVELS });
    }
    let mut tables = Tables { groups: segments.len() as u32, levels, ..Tables::default() };
    match m.kind() {
        LayoutKind::ClassicPaged => classic::lower(&batch, &mut tables),
        LayoutKind::PackedBlockTable => packed::lower(&batch, &mut tables),
        LayoutKind::HotTailContiguous => hot_tail::lower(&batch, &mut tables),
        LayoutKind::VirtualContiguous => contiguous::lower(&batch, &mut tables),
        LayoutKind::HybridPrefixShared => hybrid::lower(&batch, &segments, &mut tables),
    }
    tables.push(Table::MergeMask, batch.merge_masks(&segments));
    tables.merge_mask = tables.range(Table::MergeMask);
    Ok(tables)
}

/// What a faulty manager tells of its rows.
fn mislead(m: &Manager, rows: &mut [BatchRow<'_>]) {
    if m.has(Flaw::NextRowsBlocks)
        && let Some(first) = rows.first().map(|row| row.view.blocks)
    {
        for i in 0..rows.len() {
            rows[i].view.blocks = rows.get(i + 1).map_or(first, |next| next.view.blocks);
        }
    }
    for row in rows {
        let in_mid_block = row.view.len % m.config().block_size > 0;
        let len = match row.view.len {
            len if m.has(Flaw::LengthShort) => len.saturating_sub(1),
            len if m.has(Flaw::LengthLong) && in_mid_block => len + 1,
            len => len,
        };
        row.view.len = len;
        row.shape.len = len;
    }
}

/// Levels that [`Table::MergeMask`] can tell apart beside the private part.
const MAX_LEVELS: u32 = 31;

/// One row of the batch with its blocks.
struct BatchRow<'a> {
    view: RowView<'a>,
    shape: LaunchRow,
}

/// What is lowered.
struct Batch<'a> {
    manager: &'a Manager,
    block_size: u32,
    rows: Vec<BatchRow<'a>>,
    attention: &'a Attention,
    elem: Elem,
    scale: Granularity,
}

impl Batch<'_> {
    fn has(&self, flaw: Flaw) -> bool {
        self.manager.has(flaw)
    }

    /// Physical blocks of the row's written logical blocks; [`None`] = released.
    fn written<'r>(&self, row: &BatchRow<'r>) -> &'r [Option<u32>] {
        let count = row.view.len.div_ceil(self.block_size) as usize;
        row.view.blocks.get(..count).unwrap_or(row.view.blocks)
    }

    /// Words of [`Table::CuQ`].
    fn cu_q(&self) -> impl Iterator<Item = u32> {
        std::iter::once(0).chain(self.rows.iter().map(|row| row.shape.q_begin + row.shape.q_len))
    }

    fn merge_masks(&self, segments: &[Segment]) -> Vec<u32> {
        let mut masks = vec![1; self.rows.len()];
        for segment in segments {
            let missing = self.has(Flaw::MaskBitMissing).then(|| segment.members.last()).flatten();
            for row in segment.members.iter().filter(|&row| Some(row) != missing) {
                masks[*row as usize] |= 2 << segment.level;
            }
        }
        if self.has(Flaw::MaskBitOfOthers) {
            let all = masks.iter().fold(0, |all, mask| all | mask);
            masks.fill(all);
        }
        let per_row = self.rows.iter().zip(masks);
        per_row.flat_map(|(row, mask)| std::iter::repeat_n(mask, row.shape.q_len as usize)).collect()
    }
}

/// [`Table::CuQ`]-style running totals: 0, then the sum up to each row.
fn running_totals(counts: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let sums = counts.scan(0, |total, count| {
        *total += count;
        Some(*total)
    });
    std::iter::once(0).chain(sums)
}
