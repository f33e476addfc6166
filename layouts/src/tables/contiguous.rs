//! Virtual contiguous: every row as its own span records.

use super::runs::runs;
use super::{Batch, BatchRow, Table, Tables};
use crate::launch::UNLIMITED;
use crate::span::{NONE, SeqDesc, SpanRec};

/// `SeqDesc [R]`, `Spans`.
pub(super) fn lower(batch: &Batch<'_>, tables: &mut Tables) {
    let mut spans = Vec::new();
    let rows: Vec<SeqDesc> =
        batch.rows.iter().map(|row| describe(batch, row, |_| false, None, &mut spans)).collect();
    tables.push_records(Table::SeqDesc, &rows);
    tables.push_records(Table::Spans, &spans);
}

/// The descriptor of one row; the records of its blocks, but for those `elsewhere`, are appended to `spans`.
pub(super) fn describe(
    batch: &Batch<'_>,
    row: &BatchRow<'_>,
    elsewhere: impl Fn(u32) -> bool,
    deepest_group: Option<u32>,
    spans: &mut Vec<SpanRec>,
) -> SeqDesc {
    let own: Vec<u32> = (0..batch.written(row).len() as u32).filter(|&i| !elsewhere(i)).collect();
    let records = runs(batch, row, &own, None);
    let span_begin = spans.len() as u32;
    spans.extend_from_slice(&records);
    let left = batch.attention.left;
    SeqDesc {
        span_begin,
        span_count: records.len() as u32,
        kv_len: row.shape.len,
        q_begin: row.shape.q_begin,
        q_len: row.shape.q_len,
        window: if left == UNLIMITED { 0 } else { left + 1 },
        group_id: deepest_group.unwrap_or(NONE),
        flags: 0,
    }
}
