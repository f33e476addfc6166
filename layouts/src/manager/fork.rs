//! Fork: the child shares what is written; a partial block is shared until the first write, or copied at once by
//! hot-tail, whose writable blocks are never shared.

use super::{Manager, ManagerError, Placed, SlotCopy};
use crate::fault::Flaw;
use crate::kind::LayoutKind;

impl Manager {
    /// Makes `child` a copy of `parent`. Unwritten growth room stays with the parent.
    ///
    /// # Errors
    /// [`ManagerError::UnknownRow`], [`ManagerError::RowExists`]; [`ManagerError::OutOfBlocks`] if the parent ends
    /// in mid-block and there is no block for the copy that one of the two will need.
    pub fn fork(&mut self, parent: &str, child: &str) -> Result<Placed, ManagerError> {
        self.known(parent)?;
        self.unused_name(child)?;
        let size = self.config.block_size;
        let partial = self.rows[parent].len() % size;
        if partial > 0 {
            self.require(1)?;
        }
        let hot_tail = self.kind == LayoutKind::HotTailContiguous && !self.has(Flaw::SharedWritten);
        let mut placed = Placed::default();

        let mut new = self.rows[parent].clone();
        let whole = (new.len() / size) as usize;
        let shared = match self.flaw {
            Some(Flaw::RoomSharedByFork) => new.blocks.len(),
            _ if hot_tail => whole,
            _ => new.written(size),
        };
        let last = new.blocks.get(whole).copied().flatten();
        new.blocks.truncate(shared);
        new.epochs.truncate(shared);
        if !self.has(Flaw::CopyKeepsTailStart) {
            new.hot_start = whole as u32 * size;
        }
        for &block in new.blocks.iter().skip(new.released as usize).flatten() {
            self.add_ref(block);
        }
        if let Some(node) = new.chain {
            self.index.retain(node);
        }
        if hot_tail {
            if let Some(row) = self.rows.get_mut(parent) {
                row.hot_start = whole as u32 * size;
            }
            if let Some(last) = last.filter(|_| partial > 0) {
                let extent = self.take_extent(None);
                if let [own, room @ ..] = &extent[..] {
                    self.reserve += room.len() as u64;
                    self.pool.block_mut(*own).filled = partial;
                    self.stats.copies += 1;
                    let copy = SlotCopy { from: last * size, to: own * size, count: partial };
                    placed.copies.extend(self.listed(copy));
                }
                for block in extent {
                    new.list(block, self.pool.block(block).epoch);
                }
            }
        }
        new.list_missing(size);
        self.rows.insert(child.to_owned(), new);
        Ok(placed)
    }
}
