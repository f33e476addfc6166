//! The one KV manager behind all five layouts: block pool, references, free queue, prefix index, copy on write,
//! eviction and window release. A layout only chooses *which* free block is taken (see [`LayoutKind`]).
//!
//! Full blocks are shared through the prefix index as in vLLM's V1 block pool: key = H(parent key, tokens, salt),
//! freed blocks keep their key until they are popped, rows are freed tail-first. Three rules make every operation
//! succeed or fail alike in all layouts, whatever each of them happens to have cached:
//!
//! * Unwritten growth room counts as free and is given back before anything is evicted or fails.
//! * A fork in mid-block sets one block aside at once: hot-tail copies the block, the others keep a claim on a
//!   free one until the first owner writes.
//! * A prefix hit never shares a block in use behind one that is not in use (possible after window release only);
//!   and one content has either live copies or a single cached one in the index, never both.

mod append;
mod fork;
mod index;
mod invariants;
mod place;
mod pool;
mod prefill;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;

use crate::fault::{Flaw, ManagerFault};
use crate::kind::LayoutKind;
use index::{Index, NodeId};
use pool::Pool;

pub use index::{ChainHash, chain_hash};
pub use types::{
    BlockView, ManagerError, Placed, PoolConfig, RowView, SlotCopy, SlotWrite, Stats, Violation,
};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// Per logical block; `None` for the first `released`, growth room at the end.
    blocks: Vec<Option<u32>>,
    /// Epoch of each listed block when the row got it.
    epochs: Vec<u32>,
    tokens: Vec<u64>,
    salt: u64,
    released: u32,
    hot_start: u32,
    /// Chain node of the row's last full block.
    chain: Option<NodeId>,
}

impl Row {
    fn len(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Blocks that hold tokens (released ones counted).
    fn written(&self, block_size: u32) -> usize {
        self.len().div_ceil(block_size) as usize
    }

    /// Unwritten growth blocks.
    fn reserve(&self, block_size: u32) -> usize {
        self.blocks.len().saturating_sub(self.written(block_size))
    }

    /// Lists blocks that a faulty pool could not give as missing, so that every token has an entry.
    fn list_missing(&mut self, block_size: u32) {
        let entries = self.blocks.len().max(self.written(block_size));
        self.blocks.resize(entries, None);
        self.epochs.resize(entries, 0);
    }

    fn list(&mut self, block: u32, epoch: u32) {
        self.blocks.push(Some(block));
        self.epochs.push(epoch);
    }
}

/// The manager of one pool under one layout.
#[derive(Clone, Debug)]
pub struct Manager {
    kind: LayoutKind,
    config: PoolConfig,
    pool: Pool,
    index: Index,
    rows: BTreeMap<String, Row>,
    /// Unwritten growth blocks of all rows.
    reserve: u64,
    /// Blocks that later copies on write will need: owners beyond the first of partial blocks.
    claims: u64,
    stats: Stats,
    /// What this manager does wrong on purpose.
    flaw: Option<Flaw>,
}

impl Manager {
    /// An empty pool.
    ///
    /// # Errors
    /// [`ManagerError::Config`] names the field that is out of range.
    pub fn new(kind: LayoutKind, config: PoolConfig) -> Result<Self, ManagerError> {
        Self::with_hash(kind, config, chain_hash)
    }

    /// As [`Manager::new`] with another hash for the prefix index. A hit never trusts the hash, so even a constant
    /// one must give the same placements.
    ///
    /// # Errors
    /// As [`Manager::new`].
    pub fn with_hash(kind: LayoutKind, config: PoolConfig, hash: ChainHash) -> Result<Self, ManagerError> {
        Self::build(kind, config, hash, None)
    }

    /// As [`Manager::new`], wrong on purpose. A fault that cannot occur in this layout, or that is one of the store,
    /// changes nothing.
    ///
    /// # Errors
    /// As [`Manager::new`].
    pub fn with_fault(
        kind: LayoutKind,
        config: PoolConfig,
        fault: &ManagerFault,
    ) -> Result<Self, ManagerError> {
        let hash = match fault.flaw {
            Flaw::PolynomialTrusted => index::polynomial_hash,
            Flaw::LowByteTrusted => index::low_byte_hash,
            _ => chain_hash,
        };
        Self::build(kind, config, hash, Some(fault.flaw).filter(|_| fault.layouts.contains(&kind)))
    }

    fn build(
        kind: LayoutKind,
        config: PoolConfig,
        hash: ChainHash,
        flaw: Option<Flaw>,
    ) -> Result<Self, ManagerError> {
        let refuse =
            |field, value: u32, rule| Err(ManagerError::Config { field, value: u64::from(value), rule });
        if config.blocks == 0 {
            return refuse("blocks", 0, "at least 1");
        }
        if !config.block_size.is_power_of_two() {
            return refuse("block_size", config.block_size, "a power of two");
        }
        if config.blocks.checked_mul(config.block_size).is_none() {
            return refuse("blocks", config.blocks, "blocks * block_size must fit 32 bits");
        }
        if config.first_block >= config.blocks {
            return refuse("first_block", config.first_block, "less than blocks");
        }
        if config.window == Some(0) {
            return refuse("window", 0, "at least 1: it includes the query's own key");
        }
        if config.release && config.window.is_none() {
            return refuse("release", 1, "release needs a window");
        }
        Ok(Self {
            kind,
            config,
            pool: Pool::new(config.blocks, config.first_block),
            index: Index::new(hash, flaw),
            rows: BTreeMap::new(),
            reserve: 0,
            claims: 0,
            stats: Stats::default(),
            flaw,
        })
    }

    /// The layout.
    pub fn kind(&self) -> LayoutKind {
        self.kind
    }

    /// Size and policy.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Whether this manager is wrong in that way.
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether both are in the same state, refusals not counted: what a refused operation must leave.
    pub fn same_state(&self, other: &Self) -> bool {
        let stats = |m: &Self| Stats { failed: 0, ..m.stats };
        self.pool == other.pool
            && self.index == other.index
            && self.rows == other.rows
            && (self.reserve, self.claims) == (other.reserve, other.claims)
            && stats(self) == stats(other)
    }

    /// Running totals.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The row of that name, if alive.
    pub fn row(&self, row: &str) -> Option<RowView<'_>> {
        self.rows.get(row).map(|r| RowView {
            len: r.len(),
            released: r.released,
            blocks: &r.blocks,
            hot_start: r.hot_start,
            tokens: &r.tokens,
            salt: r.salt,
        })
    }

    /// Names of the live rows, sorted.
    pub fn row_names(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// State of one block; all zero for an id that is not in the pool.
    pub fn block(&self, id: u32) -> BlockView {
        self.pool.get(id).map_or_else(BlockView::default, |b| BlockView {
            refs: b.refs,
            keyed: b.node.is_some(),
            epoch: b.epoch,
            filled: b.filled,
        })
    }

    /// Blocks the next operation could take: free ones and growth room, less the claims of forks.
    pub fn available(&self) -> u64 {
        self.less(self.pool.free() as u64 + self.reserve, self.claims)
    }

    /// `total - part`. Only in a faulty manager can the part be larger.
    fn less(&self, total: u64, part: u64) -> u64 {
        debug_assert!(part <= total || self.flaw.is_some(), "{part} of {total} blocks");
        total.saturating_sub(part)
    }

    /// Frees a row, its last block first. Its full blocks stay in the prefix index until they are popped.
    ///
    /// # Errors
    /// [`ManagerError::UnknownRow`].
    pub fn free(&mut self, row: &str) -> Result<(), ManagerError> {
        let Some(gone) = self.rows.remove(row) else {
            self.stats.failed += 1;
            return Err(ManagerError::UnknownRow(row.to_owned()));
        };
        self.reserve = self.less(self.reserve, gone.reserve(self.config.block_size) as u64);
        let mut blocks: Vec<u32> =
            gone.blocks.iter().skip(gone.released as usize).rev().copied().flatten().collect();
        match self.flaw {
            Some(Flaw::FreedTwice) => blocks.extend(blocks.first().copied()),
            Some(Flaw::LastBlockLeaks) => blocks = blocks.split_off(blocks.len().min(1)),
            Some(Flaw::HeadFirst) => blocks.reverse(),
            _ => {}
        }
        for block in blocks {
            self.drop_ref(block);
        }
        if let Some(node) = gone.chain {
            self.index.release(node);
        }
        Ok(())
    }

    /// Frees a row that will be prefilled again later; the caller keeps the tokens.
    ///
    /// # Errors
    /// [`ManagerError::UnknownRow`].
    pub fn preempt(&mut self, row: &str) -> Result<(), ManagerError> {
        self.free(row)
    }

    /// Another tenant takes `blocks` blocks from the head of the free queue, overwrites and frees them.
    ///
    /// # Errors
    /// [`ManagerError::OutOfBlocks`].
    pub fn pressure(&mut self, blocks: u32) -> Result<Placed, ManagerError> {
        self.require(u64::from(blocks))?;
        let taken = self.take_oldest(blocks as usize);
        for &block in taken.iter().rev() {
            self.drop_ref(block);
        }
        Ok(Placed { overwritten: taken, ..Placed::default() })
    }

    /// Refuses an operation that needs more blocks than there are.
    fn require(&mut self, need: u64) -> Result<(), ManagerError> {
        let available = self.available();
        if need <= available {
            return Ok(());
        }
        self.stats.failed += 1;
        Err(ManagerError::OutOfBlocks { need, available })
    }

    fn known(&mut self, row: &str) -> Result<(), ManagerError> {
        if self.rows.contains_key(row) {
            return Ok(());
        }
        self.stats.failed += 1;
        Err(ManagerError::UnknownRow(row.to_owned()))
    }

    fn unused_name(&mut self, row: &str) -> Result<(), ManagerError> {
        if !self.rows.contains_key(row) {
            return Ok(());
        }
        self.stats.failed += 1;
        Err(ManagerError::RowExists(row.to_owned()))
    }

    /// One more row lists the block: off the free queue if it was free (prefix hit), a claim if it is partial.
    fn add_ref(&mut self, id: u32) {
        let partial = self.is_partial(id);
        if self.pool.block(id).refs > 0 && partial && !self.has(Flaw::ClaimsIgnored) {
            self.claims += 1;
        }
        self.pool.add_ref(id);
    }

    /// One row less lists the block. The last one frees it: to the end of the queue, still keyed unless another
    /// live block holds the same content.
    fn drop_ref(&mut self, id: u32) {
        debug_assert!(self.pool.block(id).refs > 0 || self.flaw.is_some(), "block {id} is free");
        if self.has(Flaw::FreedByOneOwner) {
            self.pool.block_mut(id).refs = 1;
        }
        if self.pool.block(id).refs > 1 && self.is_partial(id) && !self.has(Flaw::ClaimsIgnored) {
            self.claims = self.less(self.claims, 1);
        }
        if self.pool.drop_ref(id) > 0 {
            return;
        }
        match self.pool.block(id).node {
            Some(node) if self.index.blocks(node).len() > 1 => self.forget(id),
            Some(_) => {}
            None => self.pool.block_mut(id).filled = 0,
        }
        if self.has(Flaw::NewestFirst) {
            return self.pool.push_front(id);
        }
        self.pool.push_back(id);
    }

    /// Drops the block's key and its entry in the index in one step.
    fn forget(&mut self, id: u32) {
        let block = self.pool.block_mut(id);
        block.filled = 0;
        if let Some(node) = block.node.take()
            && !self.has(Flaw::EntryOutlivesBlock)
        {
            self.index.leave(node, id);
        }
        self.pool.note_unkeyed(id);
    }

    fn is_partial(&self, id: u32) -> bool {
        let filled = self.pool.block(id).filled;
        filled > 0 && filled < self.config.block_size
    }

    /// Keys a block that has just become full. A cached copy of the same content loses its key to the live one.
    fn seal(&mut self, id: u32, node: NodeId) {
        let cached = self.index.blocks(node).first().copied().filter(|&b| self.pool.block(b).refs == 0);
        self.index.join(node, id);
        self.pool.block_mut(id).node = Some(node);
        if let Some(old) = cached {
            self.forget(old);
        }
    }
}
