//! What goes into the manager and comes out of it: configuration, placements, views, totals, errors.

use thiserror::Error;

/// Size and policy of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Blocks in the pool, at least 1; `blocks * block_size` must fit u32.
    pub blocks: u32,
    /// Tokens per block, a power of two.
    pub block_size: u32,
    /// The free queue starts at this block id and wraps.
    pub first_block: u32,
    /// Attention window in keys including the query's own, at least 1; `None` = unlimited.
    pub window: Option<u32>,
    /// Whether blocks wholly outside the window are freed after each appended token.
    pub release: bool,
    /// Growth extent of the contiguous layouts in tokens (64 is usual; less than a block means one block).
    pub extent_tokens: u32,
}

impl PoolConfig {
    /// Slots in the pool.
    pub fn slots(&self) -> u32 {
        self.blocks * self.block_size
    }

    pub(super) fn extent_blocks(&self) -> u32 {
        (self.extent_tokens / self.block_size).max(1)
    }

    /// Blocks that hold `tokens` tokens.
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }
}

/// Why an operation was refused. A refused operation changes nothing but [`Stats::failed`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManagerError {
    /// A field of [`PoolConfig`] is out of range.
    #[error("pool config: {field} = {value} ({rule})")]
    Config {
        /// Field name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must satisfy.
        rule: &'static str,
    },
    /// A row of that name is alive.
    #[error("row {0:?} already exists")]
    RowExists(String),
    /// No row of that name is alive.
    #[error("row {0:?} does not exist")]
    UnknownRow(String),
    /// Not enough blocks, even after giving back growth room and evicting every cached block.
    #[error("out of blocks: {need} needed, {available} available")]
    OutOfBlocks {
        /// Blocks the operation takes out of the free ones.
        need: u64,
        /// Blocks it could have.
        available: u64,
    },
}

/// Slots to copy before the writes of the same [`Placed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCopy {
    /// First source slot.
    pub from: u32,
    /// First destination slot.
    pub to: u32,
    /// Slots.
    pub count: u32,
}

/// One token to compute and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWrite {
    /// Position in the row.
    pub position: u32,
    /// Slot that receives its K and V.
    pub slot: u32,
}

/// What one operation asks of the physical store, in this order: overwrite, copy, write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Prompt tokens reused: nothing is computed for them (some may be in `copies`). Only a prefill sets it.
    pub cached: u32,
    /// Copies, before the writes.
    pub copies: Vec<SlotCopy>,
    /// Writes, by ascending position.
    pub writes: Vec<SlotWrite>,
    /// Blocks that another tenant filled with foreign data and freed again (pressure only).
    pub overwritten: Vec<u32>,
}

/// One live row.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    /// Tokens.
    pub len: u32,
    /// Blocks at the front that are released.
    pub released: u32,
    /// Physical block per logical block, unwritten growth room included; `None` = released.
    pub blocks: &'a [Option<u32>],
    /// First position of the current tail extent, a multiple of the block size, between `released * block_size`
    /// and `len` rounded up to a block. The blocks from there on are physically consecutive. Rows of layouts
    /// other than hot-tail have one too (of their last block, at least).
    pub hot_start: u32,
    /// All tokens, released ones included.
    pub tokens: &'a [u64],
    /// Salt of the row's prefix keys.
    pub salt: u64,
}

/// One block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockView {
    /// Rows that list the block; 0 = free.
    pub refs: u32,
    /// Full and in the prefix index: nobody may write to it.
    pub keyed: bool,
    /// Allocations so far.
    pub epoch: u32,
    /// Slots written since the last allocation.
    pub filled: u32,
}

/// Running totals since the manager was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Prompt tokens reused, mid-block copies included.
    pub hit_tokens: u64,
    /// Whole blocks reused.
    pub hit_blocks: u64,
    /// Prompt tokens reused by copying the head of a block.
    pub mid_block_tokens: u64,
    /// Blocks copied: copy on write, at a fork, mid-block reuse.
    pub copies: u64,
    /// Cached blocks whose key was dropped to reuse a block.
    pub evictions: u64,
    /// Allocations of a block that had been allocated before.
    pub reused_blocks: u64,
    /// Blocks that rows gave up because they left the window.
    pub released_blocks: u64,
    /// Blocks taken from the free queue, foreign ones (pressure) and growth room included, prefix hits not.
    pub allocations: u64,
    /// Unwritten growth blocks taken back from rows.
    pub reclaimed: u64,
    /// Refused operations.
    pub failed: u64,
}

/// A broken invariant of the manager's state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    /// `"I2"` .. `"I17"`, or `"count"` for a running total that disagrees with the state.
    pub rule: &'static str,
    /// Row, block and numbers.
    pub detail: String,
}
