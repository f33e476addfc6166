//! Which rows of a batch share which part of their prefix. A segment is a maximal stretch of logical blocks that one
//! set of at least two rows lists at the same places and sees through its windows (the shared phase of Hydragen and
//! `ChunkAttention`, nested).

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Batch, BatchRow};
use crate::fault::Flaw;

/// One segment: the same physical blocks in all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Rows of the batch, ascending.
    pub(super) members: Vec<u32>,
    /// Logical blocks.
    pub(super) blocks: Range<u32>,
    /// One more than the deepest earlier segment of any member, 0 if there is none. No two segments of a row have
    /// the same level.
    pub(super) level: u32,
    /// The deepest earlier segment that contains all members.
    pub(super) parent: Option<u32>,
}

/// The segments of the batch, by first block, then by members.
pub(super) fn segments(batch: &Batch<'_>) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut open: Vec<(Vec<u32>, u32)> = Vec::new();
    let longest = batch.rows.iter().map(|row| batch.written(row).len() as u32).max().unwrap_or(0);
    for i in 0..=longest {
        let sets = member_sets(batch, i);
        open.retain(|(members, start)| {
            let goes_on = sets.contains(members);
            if !goes_on {
                found.push((*start, i, members.clone()));
            }
            goes_on
        });
        for members in sets {
            if !open.iter().any(|(other, _)| *other == members) {
                open.push((members, i));
            }
        }
    }
    found.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
    let mut segments: Vec<Segment> = Vec::new();
    for (start, end, members) in found {
        let with_member = |s: &&Segment| s.members.iter().any(|row| members.contains(row));
        let level = segments.iter().filter(with_member).map(|s| s.level + 1).max().unwrap_or(0);
        let level = if batch.has(Flaw::LevelsEqual) { 0 } else { level };
        let holds_all = |s: &Segment| members.iter().all(|row| s.members.contains(row));
        let parents = segments.iter().zip(0u32..).filter(|(s, _)| holds_all(s));
        let parent = parents.max_by_key(|(s, _)| s.level).map(|(_, index)| index);
        segments.push(Segment { members, blocks: start..end, level, parent });
    }
    segments
}

/// The sets of at least two rows that see the same full block at logical index `i`.
fn member_sets(batch: &Batch<'_>, i: u32) -> Vec<Vec<u32>> {
    let mut by_block: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (row, r) in batch.rows.iter().zip(0u32..) {
        if let Some(block) = batch.written(row).get(i as usize).copied().flatten()
            && is_seen(batch, row, i)
        {
            by_block.entry(block).or_default().push(r);
        }
    }
    by_block.into_values().filter(|rows| rows.len() > 1).collect()
}

/// Whether logical block `i` is full and inside the window of the row's first query.
fn is_seen(batch: &Batch<'_>, row: &BatchRow<'_>, i: u32) -> bool {
    let end = (i + 1) * batch.block_size;
    let first_query = batch.attention.first_position(row.shape.len, row.shape.q_len);
    row.shape.q_len > 0 && end <= row.shape.len && end > batch.attention.first_key(first_query)
}
