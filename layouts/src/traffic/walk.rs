//! The way of one workgroup through the tables: set-up words, then tile by tile from positions to slots.

use std::ops::Range;

use super::touch::Binding;
use crate::kind::LayoutKind;
use crate::launch::Launch;
use crate::tables::Table;

/// Keys of one tile at most.
const TILE: u64 = 64;
/// Words of a span record, a row descriptor and a group.
const RECORD: u64 = 8;
/// Word of a group that says which partial result is its own.
const LEVEL: u64 = 7;

/// Some keys from a position, in runs of slots, up to position `end`.
pub(super) struct Tile {
    pub(super) runs: Vec<Range<u64>>,
    pub(super) end: u64,
}

/// One workgroup's cursor.
pub(super) struct Walk<'a> {
    launch: &'a Launch,
    y: u64,
    /// Positions that the row or group has at all.
    bounds: Range<u64>,
    way: Way,
}

/// How positions become slots.
enum Way {
    /// Entries of blocks from a table word on.
    Blocks { entries: u64 },
    /// Entries before position `start`, slots from `slot` on after it.
    Tail { entries: u64, start: u64, slot: u64 },
    /// Span records, by number in the table.
    Spans { cursor: u64, end: u64 },
}

impl<'a> Walk<'a> {
    /// Loads the set-up words of row or group `y`.
    pub(super) fn open(launch: &'a Launch, shared: bool, y: usize, tables: &mut Binding) -> Self {
        let y = y as u64;
        let mut walk = Self { launch, y, bounds: 0..u64::MAX, way: Way::Blocks { entries: 0 } };
        if launch.kind.has_spans() {
            walk.open_spans(shared, tables);
            return walk;
        }
        walk.load(Table::CuQ, y, tables);
        walk.load(Table::CuQ, y + 1, tables);
        match launch.kind {
            LayoutKind::PackedBlockTable => {
                let first = walk.load(Table::Indptr, y, tables);
                if walk.load(Table::Indptr, y + 1, tables) != first {
                    walk.load(Table::LastLen, y, tables);
                }
                walk.way = Way::Blocks { entries: walk.at(Table::Indices) + first };
            }
            LayoutKind::HotTailContiguous => {
                let start = walk.load(Table::Tail, y * 4 + 1, tables);
                walk.load(Table::Tail, y * 4 + 2, tables);
                walk.way = Way::Tail { entries: 0, start, slot: 0 };
            }
            _ => {
                walk.load(Table::SeqLens, y, tables);
                let columns = launch.tables.get(Table::BlockTable).len() / launch.rows.len().max(1);
                walk.way = Way::Blocks { entries: walk.at(Table::BlockTable) + y * columns as u64 };
            }
        }
        walk
    }

    fn open_spans(&mut self, shared: bool, tables: &mut Binding) {
        let (table, words) = if shared { (Table::Groups, 6) } else { (Table::SeqDesc, 5) };
        let [first, count, start, length] = [0, 1, 2, 3].map(|word| self.peek(table, self.y * RECORD + word));
        tables.load(self.at(table) + self.y * RECORD, words);
        self.way = Way::Spans { cursor: first, end: first + count };
        if shared {
            self.load(table, self.y * RECORD + LEVEL, tables);
            self.bounds = start..start + length;
        }
    }

    /// Every lane of the pair tile walks the group's members until its pair is found, or to the end.
    pub(super) fn find_pairs(&self, tile: u64, tables: &mut Binding) {
        let schedule = &self.launch.schedule;
        let group = self.y * RECORD;
        let (first, count) = (self.peek(Table::Groups, group + 4), self.peek(Table::Groups, group + 5));
        for lane in 0..u64::from(schedule.pair_tile) {
            let pair = tile * u64::from(schedule.pair_tile) + lane;
            let mut before = 0;
            for member in first..first + count {
                let row = self.load(Table::Members, member, tables);
                let q_len = self.load(Table::SeqDesc, row * RECORD + 4, tables);
                before += q_len * u64::from(schedule.heads_per_group);
                if pair < before {
                    self.load(Table::SeqDesc, row * RECORD + 2, tables);
                    self.load(Table::SeqDesc, row * RECORD + 3, tables);
                    break;
                }
            }
        }
    }

    /// The part of `keys` in this split and in the group, in whole blocks if the schedule says so.
    pub(super) fn cut(&self, keys: &Range<u64>, split: u32) -> Option<Range<u64>> {
        let schedule = &self.launch.schedule;
        let (tokens, split) = (u64::from(schedule.split_tokens), u64::from(split));
        let start = keys.start.max(split * tokens).max(self.bounds.start);
        let end = keys.end.min((split + 1) * tokens).min(self.bounds.end);
        if start >= end {
            return None;
        }
        let block = if schedule.whole_blocks { u64::from(self.launch.block_size) } else { 1 };
        Some(start / block * block..end.next_multiple_of(block))
    }

    /// Loads what only a workgroup with keys needs.
    pub(super) fn enter(&mut self, keys: &Range<u64>, tables: &mut Binding) {
        let Way::Tail { start, .. } = self.way else { return };
        let first = if keys.start < start { self.load(Table::Indptr, self.y, tables) } else { 0 };
        let slot = if keys.end > start { self.load(Table::Tail, self.y * 4, tables) } else { 0 };
        self.way = Way::Tail { entries: self.at(Table::Indices) + first, start, slot };
    }

    /// The tile at position `t` or, with spans, the next position that a record covers; [`None`] if there is none
    /// before `end`.
    pub(super) fn next_tile(&mut self, t: u64, end: u64, tables: &mut Binding) -> Option<Tile> {
        match self.way {
            Way::Blocks { entries } => Some(self.block_tile(entries, t, end, tables)),
            Way::Tail { entries, start, .. } if t < start => {
                Some(self.block_tile(entries, t, end.min(start), tables))
            }
            Way::Tail { start, slot, .. } => Some(one_run(t, end.min(t + TILE), slot + (t - start))),
            Way::Spans { cursor, end: records } => self.span_tile(cursor..records, t, end, tables),
        }
    }

    /// One table load per block that the tile touches.
    fn block_tile(&self, entries: u64, t: u64, end: u64, tables: &mut Binding) -> Tile {
        let block_size = u64::from(self.launch.block_size);
        let end = end.min(t + TILE);
        let mut runs = Vec::new();
        let mut at = t;
        while at < end {
            let word = entries + at / block_size;
            tables.load(word, 1);
            let next = end.min((at / block_size + 1) * block_size);
            let slot = self.word(word) * block_size + at % block_size;
            runs.push(slot..slot + (next - at));
            at = next;
        }
        Tile { runs, end }
    }

    fn span_tile(&mut self, records: Range<u64>, t: u64, end: u64, tables: &mut Binding) -> Option<Tile> {
        for cursor in records.clone() {
            let start = self.load(Table::Spans, cursor * RECORD, tables);
            let length = self.load(Table::Spans, cursor * RECORD + 1, tables);
            if start + length <= t {
                continue;
            }
            self.way = Way::Spans { cursor, end: records.end };
            let t = t.max(start);
            if t >= end {
                return None;
            }
            let slot = self.load(Table::Spans, cursor * RECORD + 2, tables);
            return Some(one_run(t, end.min(t + TILE).min(start + length), slot + (t - start)));
        }
        None
    }

    fn at(&self, table: Table) -> u64 {
        u64::from(self.launch.tables.at(table))
    }

    /// A word of the tables, 0 outside of them.
    fn word(&self, word: u64) -> u64 {
        self.launch.tables.words.get(word as usize).copied().map_or(0, u64::from)
    }

    fn peek(&self, table: Table, word: u64) -> u64 {
        self.word(self.at(table) + word)
    }

    fn load(&self, table: Table, word: u64, tables: &mut Binding) -> u64 {
        tables.load(self.at(table) + word, 1);
        self.peek(table, word)
    }
}

/// Positions `t..end` in consecutive slots.
fn one_run(t: u64, end: u64, slot: u64) -> Tile {
    Tile { runs: std::iter::once(slot..slot + (end - t)).collect(), end }
}
