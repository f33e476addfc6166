//! The blocks and the free queue. The queue is ordered by stamps: blocks in front are the first to be reused.

use std::collections::{BTreeMap, BTreeSet};

use super::index::NodeId;

/// One physical block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Rows that list the block.
    pub(super) refs: u32,
    /// Content of a full block, while it is in the prefix index.
    pub(super) node: Option<NodeId>,
    /// Allocations so far.
    pub(super) epoch: u32,
    /// Slots written since the last allocation.
    pub(super) filled: u32,
    /// Place in the free queue while free.
    stamp: i64,
}

/// Blocks, the free queue, and the free blocks without a key by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    blocks: Vec<Block>,
    queue: BTreeMap<i64, u32>,
    /// Free blocks that carry no key: taking one evicts nothing.
    plain: BTreeSet<u32>,
    first: i64,
    last: i64,
    /// The block id at which a fresh pool starts.
    pub(super) origin: u32,
}

impl Pool {
    pub(super) fn new(blocks: u32, first_block: u32) -> Self {
        let mut pool = Self {
            blocks: vec![Block::default(); blocks as usize],
            queue: BTreeMap::new(),
            plain: BTreeSet::new(),
            first: 0,
            last: 0,
            origin: first_block,
        };
        for id in (first_block..blocks).chain(0..first_block) {
            pool.push_back(id);
        }
        pool
    }

    pub(super) fn get(&self, id: u32) -> Option<&Block> {
        self.blocks.get(id as usize)
    }

    /// The block of an id that came out of this pool.
    pub(super) fn block(&self, id: u32) -> &Block {
        &self.blocks[id as usize]
    }

    pub(super) fn block_mut(&mut self, id: u32) -> &mut Block {
        &mut self.blocks[id as usize]
    }

    pub(super) fn all(&self) -> &[Block] {
        &self.blocks
    }

    /// Free blocks, keyed or not.
    pub(super) fn free(&self) -> usize {
        self.queue.len()
    }

    /// Free blocks without a key, ascending.
    pub(super) fn plain(&self) -> &BTreeSet<u32> {
        &self.plain
    }

    /// Free blocks, the next to be popped first.
    pub(super) fn queue(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.queue.values().copied()
    }

    /// Free keyed blocks, least recently used first.
    pub(super) fn cached(&self) -> impl Iterator<Item = u32> {
        self.queue().filter(|&id| self.block(id).node.is_some())
    }

    /// One more reference; a free block leaves the queue.
    pub(super) fn add_ref(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        block.refs += 1;
        if block.refs == 1 {
            self.queue.remove(&block.stamp);
            self.plain.remove(&id);
        }
    }

    /// One reference less; how many are left. The caller queues a block that reaches 0.
    pub(super) fn drop_ref(&mut self, id: u32) -> u32 {
        let block = &mut self.blocks[id as usize];
        block.refs = block.refs.saturating_sub(1);
        block.refs
    }

    /// Takes a free, unkeyed block for new content.
    pub(super) fn allocate(&mut self, id: u32) -> u32 {
        if self.block(id).refs > 0 {
            self.unqueue(id);
        }
        self.add_ref(id);
        let block = &mut self.blocks[id as usize];
        block.epoch += 1;
        block.filled = 0;
        block.epoch
    }

    /// Takes a block in use off the queue: it is there only if a faulty manager has queued it.
    fn unqueue(&mut self, id: u32) {
        let stamp = self.queue.iter().find(|&(_, &queued)| queued == id).map(|(&stamp, _)| stamp);
        if let Some(stamp) = stamp {
            self.queue.remove(&stamp);
        }
    }

    /// Queues a free block to be reused last.
    pub(super) fn push_back(&mut self, id: u32) {
        self.last += 1;
        self.enqueue(id, self.last);
    }

    /// Queues a free block to be reused first (it was never written).
    pub(super) fn push_front(&mut self, id: u32) {
        self.first -= 1;
        self.enqueue(id, self.first);
    }

    fn enqueue(&mut self, id: u32, stamp: i64) {
        self.blocks[id as usize].stamp = stamp;
        self.queue.insert(stamp, id);
        self.note_unkeyed(id);
    }

    /// A free block has lost its key, or never had one.
    pub(super) fn note_unkeyed(&mut self, id: u32) {
        let block = self.block(id);
        if block.refs == 0 && block.node.is_none() {
            self.plain.insert(id);
        }
    }
}
