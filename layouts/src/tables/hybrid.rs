//! Hybrid: shared segments as groups that are read once for all members, the rest as private spans.

use super::contiguous::describe;
use super::groups::Segment;
use super::runs::runs;
use super::{Batch, Table, Tables};
use crate::fault::Flaw;
use crate::span::{GroupDesc, NONE, SeqDesc};

/// `SeqDesc [R]`, `Spans` (private records row by row, then group by group), `Groups [g]`, `Members [m]`.
pub(super) fn lower(batch: &Batch<'_>, segments: &[Segment], tables: &mut Tables) {
    let mut spans = Vec::new();
    let rows: Vec<SeqDesc> = batch
        .rows
        .iter()
        .zip(0u32..)
        .map(|(row, r)| {
            let of_row: Vec<_> =
                segments.iter().zip(0u32..).filter(|(s, _)| s.members.contains(&r)).collect();
            let elsewhere = !batch.has(Flaw::PrefixTwice);
            let shared = |i: u32| elsewhere && of_row.iter().any(|(s, _)| s.blocks.contains(&i));
            let deepest = of_row.iter().max_by_key(|(s, _)| s.level).map(|(_, group)| *group);
            describe(batch, row, shared, deepest, &mut spans)
        })
        .collect();
    let mut members = Vec::new();
    let mut groups = Vec::with_capacity(segments.len());
    for (segment, group) in segments.iter().zip(0u32..) {
        let Some(row) = segment.members.first().and_then(|&first| batch.rows.get(first as usize)) else {
            continue;
        };
        let logical: Vec<u32> = segment.blocks.clone().collect();
        let records = runs(batch, row, &logical, Some(group));
        groups.push(GroupDesc {
            span_begin: spans.len() as u32,
            span_count: records.len() as u32,
            logical_start: segment.blocks.start * batch.block_size,
            length: (segment.blocks.len() as u32 - u32::from(batch.has(Flaw::GroupShort))) * batch.block_size,
            member_begin: members.len() as u32,
            member_count: segment.members.len() as u32 - u32::from(batch.has(Flaw::MembersShort)),
            parent: segment.parent.unwrap_or(NONE),
            level: segment.level,
        });
        spans.extend_from_slice(&records);
        members.extend_from_slice(&segment.members);
    }
    tables.push_records(Table::SeqDesc, &rows);
    tables.push_records(Table::Spans, &spans);
    tables.push_records(Table::Groups, &groups);
    tables.push(Table::Members, members);
}
