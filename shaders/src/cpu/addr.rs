//! The address files: `wgsl/addr/*.wgsl` and `wgsl/order/*.wgsl`.

use attnproof_layouts::kind::LayoutKind as Kind;

use super::memory::Memory;
use super::rules::Rules;
use crate::abi::Params;
use crate::dispatch::RunError;

/// Keys a tile holds at most.
pub(super) const TILE: u32 = 64;

const SPAN_WORDS: u32 = 8;
const CHUNK_WORDS: u32 = 4;

/// A row of the grid: a row of the batch, or a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowRef {
    pub(super) len: u32,
    pub(super) q_begin: u32,
    pub(super) q_len: u32,
    pub(super) entries: u32,
    pub(super) entries_end: u32,
    pub(super) bounds: [u32; 2],
    pub(super) part: u32,
    /// The row of the batch whose table it reads.
    table_row: u32,
    hot_start: u32,
    hot_slot: u32,
    members: u32,
    members_end: u32,
}

/// The batch row of one (query token, head) pair, and the pair's index in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) len: u32,
    pub(super) q_begin: u32,
    pub(super) q_len: u32,
    pub(super) local: u32,
}

/// `count` keys from position `start`, all in one entry or run.
#[derive(Debug, Clone)]
pub struct Tile {
    /// Position of the first key.
    pub start: u32,
    /// Keys.
    pub count: u32,
    /// Where the next tile's search for its entry begins.
    pub cursor: u32,
    /// Slot of each key.
    pub slots: Vec<u32>,
}

/// Addressing of one layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address<'a> {
    pub(super) p: &'a Params,
    pub(super) rules: &'a Rules,
    pub(super) kind: Kind,
    /// Elements in a word.
    pub(super) word_elements: u32,
}

impl Address<'_> {
    pub(super) fn row_open(&self, y: u32, m: &mut Memory<'_>) -> Result<RowRef, RunError> {
        let mut row = match self.kind {
            Kind::HybridPrefixShared if self.p.phase == 1 => return self.group_row(y, m),
            Kind::VirtualContiguous | Kind::HybridPrefixShared => self.span_row(y, m)?,
            Kind::ClassicPaged | Kind::PackedBlockTable | Kind::HotTailContiguous => self.paged_row(y, m)?,
        };
        row.len = (self.rules.len)(self.p, row.len);
        row.bounds = [0, row.len];
        row.table_row = (self.rules.table_row)(self.p, y);
        if row.table_row != y {
            let other = if self.kind == Kind::VirtualContiguous || self.kind == Kind::HybridPrefixShared {
                self.span_row(row.table_row, m)?
            } else {
                self.paged_row(row.table_row, m)?
            };
            (row.entries, row.entries_end) = (other.entries, other.entries_end);
            row.hot_start = other.hot_start;
        }
        Ok(row)
    }

    fn paged_row(&self, y: u32, m: &mut Memory<'_>) -> Result<RowRef, RunError> {
        let p = self.p;
        let q_begin = m.table(p.cu_q_at + y)?;
        let q_end = m.table(p.cu_q_at + y + 1)?;
        let mut row = RowRef { q_begin, q_len: q_end - q_begin, ..RowRef::default() };
        match self.kind {
            Kind::ClassicPaged => {
                row.len = m.table(p.rows_at + y)?;
                row.entries = p.entries_at + y * p.entries_stride;
            }
            Kind::PackedBlockTable => {
                let first = m.table(p.indptr_at + y)?;
                let end = m.table(p.indptr_at + y + 1)?;
                if end > first {
                    row.len = (end - first - 1) * p.block_size + m.table(p.rows_at + y)?;
                }
                row.entries = p.entries_at + first;
            }
            _ => {
                row.hot_start = m.table(p.rows_at + y * 4 + 1)?;
                row.len = row.hot_start + m.table(p.rows_at + y * 4 + 2)?;
            }
        }
        Ok(row)
    }

    fn span_row(&self, y: u32, m: &mut Memory<'_>) -> Result<RowRef, RunError> {
        let at = self.p.rows_at + y * 8;
        let entries = self.p.entries_at + m.table(at)? * SPAN_WORDS;
        let entries_end = entries + m.table(at + 1)? * SPAN_WORDS;
        let len = m.table(at + 2)?;
        let q_begin = m.table(at + 3)?;
        let q_len = m.table(at + 4)?;
        Ok(RowRef { len, q_begin, q_len, entries, entries_end, ..RowRef::default() })
    }

    fn group_row(&self, y: u32, m: &mut Memory<'_>) -> Result<RowRef, RunError> {
        let at = self.p.groups_at + y * 8;
        let entries = self.p.entries_at + m.table(at)? * SPAN_WORDS;
        let entries_end = entries + m.table(at + 1)? * SPAN_WORDS;
        let start = m.table(at + 2)?;
        let length = m.table(at + 3)?;
        let members = self.p.members_at + m.table(at + 4)?;
        let members_end = members + m.table(at + 5)?;
        let part = (1 + m.table(at + 7)?) * self.p.splits;
        let bounds = [start, start + length];
        Ok(RowRef { entries, entries_end, bounds, part, members, members_end, ..RowRef::default() })
    }

    pub(super) fn pair_find(
        &self,
        row: &RowRef,
        index: u32,
        m: &mut Memory<'_>,
    ) -> Result<Option<Pair>, RunError> {
        let heads = self.p.heads_per_unit;
        if self.p.phase == 0 {
            let pair = Pair { len: row.len, q_begin: row.q_begin, q_len: row.q_len, local: index };
            return Ok((index < row.q_len * heads).then_some(pair));
        }
        let mut local = index;
        for member in row.members..row.members_end {
            let at = self.p.rows_at + m.table(member)? * 8;
            let q_len = m.table(at + 4)?;
            if local < q_len * heads {
                let len = (self.rules.len)(self.p, m.table(at + 2)?);
                return Ok(Some(Pair { len, q_begin: m.table(at + 3)?, q_len, local }));
            }
            local -= q_len * heads;
        }
        Ok(None)
    }

    /// The range of keys that is read for the range that is needed.
    pub(super) fn widen(&self, keys: [u32; 2]) -> [u32; 2] {
        if self.kind != Kind::ClassicPaged {
            return keys;
        }
        let last = self.p.block_size - 1;
        [keys[0] & !last, (keys[1] + last) & !last]
    }

    pub(super) fn row_range(
        &self,
        row: &mut RowRef,
        keys: [u32; 2],
        m: &mut Memory<'_>,
    ) -> Result<(), RunError> {
        if self.kind == Kind::HotTailContiguous {
            if keys[0] < row.hot_start {
                row.entries = self.p.entries_at + m.table(self.p.indptr_at + row.table_row)?;
            }
            if keys[1] > row.hot_start {
                row.hot_slot = m.table(self.p.rows_at + row.table_row * 4)?;
            }
        }
        Ok(())
    }

    /// The tile at position `t` of a row, with the slots that the rules give its keys.
    pub(super) fn tile_open(
        &self,
        row: &RowRef,
        cursor: u32,
        t: u32,
        end: u32,
        m: &mut Memory<'_>,
    ) -> Result<Tile, RunError> {
        let mut tile = self.right_tile(row, cursor, t, end, m)?;
        if let Some(slot) = self.rules.slot {
            let mut of = SlotOf { p: self.p, len: row.len, address: self, row, memory: m };
            for (own, key) in tile.slots.iter_mut().zip(tile.start..) {
                *own = slot(&mut of, key, *own)?;
            }
        }
        Ok(tile)
    }

    fn right_tile(
        &self,
        row: &RowRef,
        cursor: u32,
        t: u32,
        end: u32,
        m: &mut Memory<'_>,
    ) -> Result<Tile, RunError> {
        match self.kind {
            Kind::ClassicPaged | Kind::PackedBlockTable => self.block_tile(cursor, t, TILE.min(end - t), m),
            Kind::HotTailContiguous if t < row.hot_start => {
                self.block_tile(cursor, t, TILE.min(end.min(row.hot_start) - t), m)
            }
            Kind::HotTailContiguous => {
                Ok(run_tile(t, TILE.min(end - t), row.hot_slot + (t - row.hot_start), cursor))
            }
            Kind::VirtualContiguous | Kind::HybridPrefixShared => {
                span_tile(row, self.rules.span_length, cursor, t, end, m)
            }
        }
    }

    fn block_tile(&self, entries: u32, t: u32, count: u32, m: &mut Memory<'_>) -> Result<Tile, RunError> {
        let block_size = self.p.block_size;
        let mut slots = Vec::with_capacity(count as usize);
        let mut block = 0;
        for key in t..t + count {
            if key == t || key % block_size == 0 || self.rules.entry_per_key {
                block = m.table(entries + key / block_size)?;
            }
            slots.push(block.wrapping_mul(block_size).wrapping_add(key % block_size));
        }
        Ok(Tile { start: t, count, cursor: entries, slots })
    }

    /// Word `w` of a K row. Addresses wrap as they do in WGSL; the bounds check of the load catches what is wrong.
    pub(super) fn k_word(&self, slot: u32, kv_head: u32, w: u32) -> u32 {
        let p = self.p;
        if self.kind != Kind::ClassicPaged {
            let row = p.k_base.wrapping_add(slot.wrapping_mul(p.k_slot)).wrapping_add(kv_head * p.k_head);
            return (row / self.word_elements).wrapping_add(w);
        }
        let head = p
            .k_base
            .wrapping_add((slot / p.block_size).wrapping_mul(p.k_block))
            .wrapping_add(kv_head * p.k_head);
        let chunk = (w / CHUNK_WORDS) * p.block_size + slot % p.block_size;
        (head / self.word_elements).wrapping_add(chunk * CHUNK_WORDS + w % CHUNK_WORDS)
    }

    /// The word of V that holds `unit` (a word column, or a dim in the classic order) for the key in `slot`.
    pub(super) fn v_word(&self, slot: u32, kv_head: u32, unit: u32) -> u32 {
        let p = self.p;
        if self.kind != Kind::ClassicPaged {
            let row = p.v_base.wrapping_add(slot.wrapping_mul(p.v_slot)).wrapping_add(kv_head * p.v_head);
            return (row / self.word_elements).wrapping_add(unit);
        }
        let head = p
            .v_base
            .wrapping_add((slot / p.block_size).wrapping_mul(p.v_block))
            .wrapping_add(kv_head * p.v_head);
        head.wrapping_add(unit * p.block_size + slot % p.block_size) / self.word_elements
    }

    /// The word of V that holds `dim` for the key in `slot`, and the element in it.
    pub(super) fn v_element(&self, slot: u32, kv_head: u32, dim: u32) -> (u32, u32) {
        let (dims, step_keys) = self.unit();
        let in_step = slot % self.p.block_size % step_keys;
        (self.v_word(slot, kv_head, dim / dims), if dims > 1 { dim % dims } else { in_step })
    }

    /// Dims of V in one unit, and keys in one step over it.
    pub(super) fn unit(&self) -> (u32, u32) {
        if self.kind == Kind::ClassicPaged { (1, self.word_elements) } else { (self.word_elements, 1) }
    }
}

fn run_tile(start: u32, count: u32, slot: u32, cursor: u32) -> Tile {
    Tile { start, count, cursor, slots: (0..count).map(|i| slot.wrapping_add(i)).collect() }
}

fn span_tile(
    row: &RowRef,
    span_length: fn(u32, bool) -> u32,
    cursor: u32,
    t: u32,
    end: u32,
    m: &mut Memory<'_>,
) -> Result<Tile, RunError> {
    let mut at = cursor;
    while at < row.entries_end {
        let start = m.table(at)?;
        let length = span_length(m.table(at + 1)?, at + SPAN_WORDS == row.entries_end);
        if start + length > t {
            let first = t.max(start);
            if first >= end {
                break;
            }
            let slot = m.table(at + 2)?.wrapping_add(first - start);
            return Ok(run_tile(first, TILE.min(end.min(start + length) - first), slot, at));
        }
        at += SPAN_WORDS;
    }
    Ok(run_tile(t, 0, 0, at))
}

/// Finds the slots of a row's keys, for rules that look at other keys than the one at hand.
pub struct SlotOf<'a, 'm> {
    /// Uniforms.
    pub p: &'a Params,
    /// Keys of the row; 0 in a shared prefix, which has rows of many lengths.
    pub len: u32,
    pub(super) address: &'a Address<'a>,
    pub(super) row: &'a RowRef,
    pub(super) memory: &'a mut Memory<'m>,
}

impl SlotOf<'_, '_> {
    /// Whether `key` is found through a block entry.
    pub fn paged(&self, key: u32) -> bool {
        match self.address.kind {
            Kind::ClassicPaged | Kind::PackedBlockTable => true,
            Kind::HotTailContiguous => key < self.row.hot_start,
            Kind::VirtualContiguous | Kind::HybridPrefixShared => false,
        }
    }

    /// The right slot of `key`, if it is the row's to read here.
    ///
    /// # Errors
    /// [`RunError::OutOfBounds`] when the tables end before it.
    pub fn of(&mut self, key: u32) -> Result<Option<u32>, RunError> {
        let mut row = *self.row;
        self.address.row_range(&mut row, [key, key + 1], self.memory)?;
        let tile = self.address.right_tile(&row, row.entries, key, key + 1, self.memory)?;
        Ok(if tile.start == key { tile.slots.first().copied() } else { None })
    }
}
