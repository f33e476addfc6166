//! One decode step: find the slot of the next token (own block, copy on write, growth), key a block that fills up,
//! release what leaves the window.

use super::{Manager, ManagerError, Placed, Row, SlotCopy, SlotWrite};
use crate::fault::Flaw;
use crate::kind::LayoutKind;

impl Manager {
    /// Appends one token to a row.
    ///
    /// A shared partial block is copied by whoever writes first; its last owner writes in place. With
    /// [`release`](super::PoolConfig::release) the blocks that no query from here on can see are freed.
    ///
    /// # Errors
    /// [`ManagerError::UnknownRow`], [`ManagerError::OutOfBlocks`].
    pub fn append(&mut self, row: &str, token: u64) -> Result<Placed, ManagerError> {
        self.known(row)?;
        let size = self.config.block_size;
        let position = self.rows[row].len();
        let mut placed = Placed::default();
        if position.is_multiple_of(size) {
            // Growth room is no more than a free block: it may be owed to a copy on write elsewhere.
            self.require(1)?;
            if self.rows[row].reserve(size) == 0 {
                self.grow(row, position);
            }
            self.reserve = self.less(self.reserve, 1);
        } else {
            placed.copies.extend(self.copy_on_write(row, position).and_then(|copy| self.listed(copy)));
        }

        let Some(live) = self.rows.get_mut(row) else { return Ok(placed) };
        let index = (position / size) as usize;
        let Some(block) = live.blocks.get(index).copied().flatten() else { return Ok(placed) };
        placed.writes.push(SlotWrite { position, slot: block * size + position % size });
        live.tokens.push(token);
        self.pool.block_mut(block).filled += 1;
        if live.len().is_multiple_of(size) {
            let (parent, salt) = (live.chain, live.salt);
            let node = self.index.intern(parent, &live.tokens[index * size as usize..], salt);
            live.chain = Some(node);
            self.index.retain(node);
            if let Some(parent) = parent {
                self.index.release(parent);
            }
            self.seal(block, node);
        }
        self.release_window(row);
        Ok(placed)
    }

    /// Gives the row an extent behind its last block. An extent that is not adjacent starts a new tail.
    fn grow(&mut self, row: &str, position: u32) {
        let last = self.rows[row].blocks.last().copied().flatten();
        let shared = last.is_some_and(|id| self.pool.block(id).refs > 1);
        let hybrid = self.kind == LayoutKind::HybridPrefixShared;
        let extent = self.take_extent(last.filter(|_| !(hybrid && shared)));
        self.reserve += extent.len() as u64;
        let Some(row) = self.rows.get_mut(row) else { return };
        let elsewhere = last.is_none_or(|id| extent.first() != Some(&(id + 1)));
        if elsewhere && self.flaw != Some(Flaw::TailStartKept) {
            row.hot_start = position;
        }
        for block in extent {
            row.list(block, self.pool.block(block).epoch);
        }
    }

    /// If the row's partial last block is shared, replaces it by the row's own copy: in its growth room if it has
    /// some, else in a new extent (the claim made at the fork guarantees a block).
    fn copy_on_write(&mut self, row: &str, position: u32) -> Option<SlotCopy> {
        let size = self.config.block_size;
        let index = (position / size) as usize;
        let old = self.rows[row].blocks.get(index).copied().flatten()?;
        let alone = match self.flaw {
            Some(Flaw::SharedWritten) => u32::MAX,
            Some(Flaw::CopyFromThreeOwners) => 2,
            _ => 1,
        };
        if self.pool.block(old).refs <= alone {
            return None;
        }
        if self.rows[row].reserve(size) == 0 {
            let extent = self.take_extent(None);
            self.reserve += extent.len() as u64;
            let row = self.rows.get_mut(row)?;
            for block in extent {
                row.list(block, self.pool.block(block).epoch);
            }
        }
        let live = self.rows.get_mut(row).filter(|row| row.blocks.len() > index + 1)?;
        live.blocks.remove(index);
        live.epochs.remove(index);
        live.hot_start = index as u32 * size;
        let new = live.blocks[index]?;
        self.reserve = self.less(self.reserve, 1);
        self.pool.block_mut(new).filled = position % size;
        self.drop_ref(old);
        self.stats.copies += 1;
        Some(SlotCopy { from: old * size, to: new * size, count: position % size })
    }

    /// The copy as it is asked of the store.
    pub(super) fn listed(&self, copy: SlotCopy) -> Option<SlotCopy> {
        match self.flaw {
            Some(Flaw::CopyNotListed) => None,
            Some(Flaw::CopyOneShort) => Some(SlotCopy { count: copy.count.saturating_sub(1), ..copy }),
            _ => Some(copy),
        }
    }

    /// Frees the row's blocks wholly below `len - window`: the query at `len - 1` is the earliest still to come.
    fn release_window(&mut self, row: &str) {
        let size = self.config.block_size;
        let Some(window) = self.config.window.filter(|_| self.config.release) else { return };
        let Some(row) = self.rows.get_mut(row) else { return };
        let len = row.len();
        let until = match self.flaw {
            Some(Flaw::ReleasedEarly) => len.saturating_sub(window).div_ceil(size).min(len / size),
            Some(Flaw::ReleasedForNext) => (len + 1).saturating_sub(window) / size,
            Some(Flaw::NeverReleased) => 0,
            _ => len.saturating_sub(window) / size,
        };
        let keep = self.flaw == Some(Flaw::ReleasedEntryLeft);
        let gone = Self::release_front(row, until, size, keep);
        self.stats.released_blocks += gone.len() as u64;
        for &block in gone.iter().rev() {
            match self.flaw {
                Some(Flaw::ReleaseLeaks) => continue,
                Some(Flaw::ReleasedWhileShared) => self.pool.block_mut(block).refs = 1,
                _ => {}
            }
            self.drop_ref(block);
        }
    }

    /// Releases the row's blocks before `until`; a faulty row can `keep` naming them.
    fn release_front(row: &mut Row, until: u32, size: u32, keep: bool) -> Vec<u32> {
        let from = row.released;
        row.released = until.min(row.blocks.len() as u32).max(from);
        row.hot_start = row.hot_start.max(row.released * size);
        let gone = &mut row.blocks[from as usize..row.released as usize];
        gone.iter_mut().filter_map(|block| if keep { *block } else { block.take() }).collect()
    }
}
