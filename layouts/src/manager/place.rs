//! Placement: which free blocks an allocation takes. This is the only thing in which the layouts' managers differ.
//!
//! Oldest-first (classic), oldest-first and sorted (packed, hot-tail prompts), best-fit contiguous runs that may
//! evict up to their own length of least recently used blocks (virtual, hybrid), and growth in extents.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Manager;
use crate::fault::Flaw;
use crate::kind::LayoutKind;

impl Manager {
    /// Blocks for the private part of a prompt, in position order.
    pub(super) fn take_prompt(&mut self, count: usize) -> Vec<u32> {
        match self.kind {
            LayoutKind::ClassicPaged => self.take_oldest(count),
            LayoutKind::PackedBlockTable | LayoutKind::HotTailContiguous => self.take_sorted(count),
            LayoutKind::VirtualContiguous | LayoutKind::HybridPrefixShared => self.take_contiguous(count),
        }
    }

    /// At least one block for a row that grows behind block `after`: one by one in the table layouts, else an
    /// extent of consecutive blocks, in place if the neighbour is free. What is not written at once is growth room.
    pub(super) fn take_extent(&mut self, after: Option<u32>) -> Vec<u32> {
        let want = match self.kind {
            LayoutKind::ClassicPaged | LayoutKind::PackedBlockTable => return self.take_oldest(1),
            _ => self.config.extent_blocks() as usize,
        };
        self.give_back(want.saturating_sub(self.pool.plain().len()));
        let in_place: Vec<u32> = after
            .into_iter()
            .flat_map(|last| last + 1..self.config.blocks)
            .take(want)
            .take_while(|id| self.pool.plain().contains(id) || self.has(Flaw::GrowsOverNeighbour))
            .collect();
        if !in_place.is_empty() {
            return self.take_all(in_place);
        }
        let run = self.fitting_run(want, 0).or_else(|| self.fitting_run(want, want)).or_else(|| {
            let budget = if self.pool.plain().is_empty() { want } else { 0 };
            let longest =
                self.runs(budget).into_iter().max_by_key(|run| (run.len(), u32::MAX - run.start))?;
            Some(longest.start..longest.end.min(longest.start + want as u32))
        });
        match run {
            Some(run) => self.take_all(run.collect()),
            None => self.take_oldest(1),
        }
    }

    /// The first `count` blocks of the free queue, in queue order. Growth room comes back (to the front of the
    /// queue) rather than that a cached block is evicted.
    pub(super) fn take_oldest(&mut self, count: usize) -> Vec<u32> {
        let unkeyed = self.pool.queue().take(count).filter(|&id| self.pool.block(id).node.is_none()).count();
        self.give_back(count - unkeyed);
        let ids = self.pool.queue().take(count).collect();
        self.take_all(ids)
    }

    fn take_sorted(&mut self, count: usize) -> Vec<u32> {
        let mut ids = self.take_oldest(count);
        if !self.has(Flaw::Unsorted) {
            ids.sort_unstable();
        }
        ids
    }

    /// One run if possible; else the longest free runs first, then the oldest cached blocks, sorted.
    fn take_contiguous(&mut self, count: usize) -> Vec<u32> {
        if count == 0 {
            return Vec::new();
        }
        self.give_back(count.saturating_sub(self.pool.plain().len()));
        if let Some(run) = self.fitting_run(count, 0).or_else(|| self.fitting_run(count, count)) {
            return self.take_all(run.collect());
        }
        let mut runs = self.runs(0);
        runs.sort_by_key(|run| (usize::MAX - run.len(), run.start));
        let pieces: Vec<u32> = runs.into_iter().flatten().take(count).collect();
        let mut ids = self.take_all(pieces);
        let rest = self.take_sorted(count - ids.len());
        ids.extend(rest);
        ids
    }

    /// The smallest run of at least `want` blocks when up to `budget` least recently used blocks may be evicted;
    /// ties by fewest evictions, then lowest id. A fresh pool is entered at its first block.
    fn fitting_run(&self, want: usize, budget: usize) -> Option<Range<u32>> {
        let origin = self.pool.origin;
        let cut = |run: Range<u32>| {
            let from_origin = origin..run.end;
            let start = if run.contains(&origin) && from_origin.len() >= want { origin } else { run.start };
            start..start + want as u32
        };
        self.runs(budget)
            .into_iter()
            .filter(|run| run.len() >= want)
            .map(|run| (run.len(), cut(run)))
            .min_by_key(|(len, cut)| {
                let evicted = cut.clone().filter(|id| !self.pool.plain().contains(id)).count();
                (*len, evicted, cut.start)
            })
            .map(|(_, cut)| cut)
    }

    /// Maximal runs of consecutive block ids among the unkeyed free blocks and the `budget` least recently used
    /// keyed ones.
    fn runs(&self, budget: usize) -> Vec<Range<u32>> {
        let old: BTreeSet<u32> = self.pool.cached().take(budget).collect();
        let mut runs: Vec<Range<u32>> = Vec::new();
        for &id in self.pool.plain().union(&old) {
            match runs.last_mut() {
                Some(run) if run.end == id => run.end += 1,
                _ => runs.push(id..id + 1),
            }
        }
        runs
    }

    /// Takes unwritten growth blocks from the rows that own most of them, up to `count`, to the front of the queue.
    fn give_back(&mut self, count: usize) {
        let block_size = self.config.block_size;
        for _ in 0..count {
            if self.reserve == 0 {
                return;
            }
            let twice = self.has(Flaw::RoomGivenTwice);
            let richest = self.rows.values_mut().rev().max_by_key(|row| row.reserve(block_size));
            let Some(block) = richest.filter(|row| row.reserve(block_size) > 0).and_then(|row| {
                if twice {
                    return row.blocks.last().copied().flatten();
                }
                row.epochs.pop();
                row.blocks.pop().flatten()
            }) else {
                return;
            };
            self.reserve -= 1;
            self.stats.reclaimed += 1;
            self.pool.drop_ref(block);
            if !self.has(Flaw::RoomLeaks) {
                self.pool.push_front(block);
            }
        }
    }

    fn take_all(&mut self, mut ids: Vec<u32>) -> Vec<u32> {
        if self.has(Flaw::EvictsInUse)
            && let Some(evicted) = ids.iter_mut().find(|id| self.pool.block(**id).node.is_some())
        {
            let in_use = (0..).zip(self.pool.all()).find(|(_, b)| b.refs > 0 && b.node.is_some());
            *evicted = in_use.map_or(*evicted, |(id, _)| id);
        }
        for &id in &ids {
            if let Some(node) = self.pool.block(id).node {
                if self.kind == LayoutKind::HybridPrefixShared {
                    self.evict_below(node);
                }
                self.stats.evictions += 1;
                self.forget(id);
            }
            self.stats.allocations += 1;
            self.stats.reused_blocks += u64::from(self.pool.block(id).epoch > 0);
            self.pool.allocate(id);
        }
        ids
    }

    /// Hybrid drops chains from the leaf: what is cached below an evicted block goes first.
    fn evict_below(&mut self, node: super::index::NodeId) {
        let Some(salt) = self.index.salt(node) else { return };
        let mut below: Vec<_> = self.index.children(Some(node), salt).collect();
        while let Some(next) = below.pop() {
            below.extend(self.index.children(Some(next), salt));
            let cached = self.index.blocks(next).first().copied().filter(|&b| self.pool.block(b).refs == 0);
            if let Some(block) = cached {
                self.stats.evictions += 1;
                self.forget(block);
            }
        }
    }
}
