//! Prefill: match the prompt against the prefix index, touch the hits, then allocate and key the rest.

use super::index::NodeId;
use super::{Manager, ManagerError, Placed, Row, SlotCopy, SlotWrite};
use crate::fault::Flaw;
use crate::kind::LayoutKind;

/// The head of a keyed block that continues the prompt behind its whole-block hits.
struct Head {
    block: u32,
    tokens: u32,
}

impl Manager {
    /// Makes a row of `tokens` (possibly none) under the given salt. At least the last token is always left to
    /// compute. Full blocks found in the prefix index are shared; hybrid also copies the matched head of one more.
    ///
    /// # Errors
    /// [`ManagerError::RowExists`], [`ManagerError::OutOfBlocks`].
    pub fn prefill(&mut self, row: &str, tokens: &[u64], salt: u64) -> Result<Placed, ManagerError> {
        self.unused_name(row)?;
        let size = self.config.block_size;
        let total = (tokens.len() as u64).div_ceil(u64::from(size));
        let hits = self.prefix_hits(tokens, salt);
        let in_use = hits.iter().filter(|&&(_, block)| self.pool.block(block).refs > 0).count();
        let room = self.require(total - in_use as u64);
        if let Err(refusal) = room {
            self.leave_traces(&hits);
            return Err(refusal);
        }

        let len = tokens.len() as u32;
        let hit_tokens = hits.len() as u32 * size;
        if !self.has(Flaw::HitsReferencedLate) {
            self.reference(&hits);
        }
        let fresh = self.config.blocks_for(len - hit_tokens) as usize;
        let parent = hits.last().map(|&(node, _)| node);
        let head = self.matched_head(parent, &tokens[hit_tokens as usize..], salt, fresh);
        if let Some(head) = &head {
            self.add_ref(head.block);
        }
        let taken = self.take_prompt(fresh);
        if self.has(Flaw::HitsReferencedLate) {
            self.reference(&hits);
        }
        let mut placed = Placed { cached: hit_tokens, ..Placed::default() };
        if let Some(head) = head {
            self.drop_ref(head.block);
            placed.cached += head.tokens;
            let to = taken.first().map(|&own| own * size);
            let copy = to.map(|to| SlotCopy { from: head.block * size, to, count: head.tokens });
            placed.copies.extend(copy.and_then(|copy| self.listed(copy)));
            self.stats.copies += 1;
            self.stats.mid_block_tokens += u64::from(head.tokens);
        }
        self.stats.prompt_tokens += u64::from(len);
        self.stats.hit_blocks += hits.len() as u64;
        let counts_all = self.has(Flaw::HitsCountPrompt) && placed.cached > 0;
        self.stats.hit_tokens += u64::from(if counts_all { len } else { placed.cached });

        let mut new = Row {
            blocks: Vec::new(),
            epochs: Vec::new(),
            tokens: tokens.to_vec(),
            salt,
            released: 0,
            hot_start: len / size * size,
            chain: parent,
        };
        for block in hits.into_iter().map(|(_, block)| block).chain(taken) {
            new.list(block, self.pool.block(block).epoch);
        }
        new.list_missing(size);
        placed.writes = (placed.cached..len)
            .filter_map(|position| {
                let block = new.blocks[(position / size) as usize]?;
                Some(SlotWrite { position, slot: block * size + position % size })
            })
            .collect();
        for (content, block) in
            tokens.chunks(size as usize).zip(&new.blocks).skip((hit_tokens / size) as usize)
        {
            let Some(block) = *block else { continue };
            self.pool.block_mut(block).filled = content.len() as u32;
            if content.len() < size as usize && self.has(Flaw::PartialKeyed) {
                let node = self.index.intern(new.chain, content, salt);
                self.seal(block, node);
            }
            if content.len() == size as usize {
                let node = self.index.intern(new.chain, content, salt);
                self.seal(block, node);
                new.chain = Some(node);
            }
        }
        if let Some(node) = new.chain {
            self.index.retain(node);
        }
        self.rows.insert(row.to_owned(), new);
        Ok(placed)
    }

    /// Takes a reference on every hit.
    fn reference(&mut self, hits: &[(NodeId, u32)]) {
        for &(node, block) in hits {
            match self.flaw {
                Some(Flaw::HitUnreferenced) => {}
                Some(Flaw::HitReferencesTwin) => {
                    let twin = self.index.blocks(node).last().copied();
                    self.add_ref(twin.unwrap_or(block));
                }
                _ => self.add_ref(block),
            }
        }
    }

    /// What a faulty manager has done by the time it refuses a prompt.
    fn leave_traces(&mut self, hits: &[(NodeId, u32)]) {
        match self.flaw {
            Some(Flaw::RefusalKeepsReferences) => self.reference(hits),
            Some(Flaw::RefusalEvicts) => {
                let cached: Vec<u32> = self.pool.cached().collect();
                for block in cached {
                    self.forget(block);
                }
            }
            _ => {}
        }
    }

    /// The whole blocks of a prompt that are in the prefix index, from its start. A block in use is not shared
    /// behind one that is merely cached: what a row adds to the blocks in use must not depend on what is cached.
    fn prefix_hits(&self, tokens: &[u64], salt: u64) -> Vec<(NodeId, u32)> {
        let size = self.config.block_size as usize;
        if self.has(Flaw::NeverHit) {
            return Vec::new();
        }
        let to_compute = usize::from(!self.has(Flaw::WholePromptHit));
        let reusable = tokens.len().saturating_sub(to_compute);
        let mut hits: Vec<(NodeId, u32)> = Vec::new();
        let mut cached_before = false;
        for content in tokens[..reusable].chunks_exact(size) {
            let parent = hits.last().map(|&(node, _)| node);
            let Some(node) = self.index.find(parent, content, salt) else { break };
            let Some(&block) = self.index.blocks(node).first() else { break };
            let in_use = self.pool.block(block).refs > 0;
            if in_use && cached_before {
                break;
            }
            cached_before |= !in_use;
            hits.push((node, block));
        }
        hits
    }

    /// Hybrid: the keyed block behind `parent` that shares most tokens with the rest of the prompt (the last token
    /// excepted). `None` if holding a cached one during the allocation of `fresh` blocks would take the last block.
    fn matched_head(&self, parent: Option<NodeId>, rest: &[u64], salt: u64, fresh: usize) -> Option<Head> {
        if self.kind != LayoutKind::HybridPrefixShared || self.has(Flaw::NeverHit) {
            return None;
        }
        let (_, rest) = rest.split_last()?;
        let mut best: Option<Head> = None;
        for node in self.index.children(parent, salt) {
            let Some(&block) = self.index.blocks(node).first() else { continue };
            let matched = self.index.tokens(node).iter().zip(rest).take_while(|(a, b)| a == b).count() as u32;
            let long = self.has(Flaw::HeadOneLong) && matched > 0;
            let matched =
                if long { (matched + 1).min(rest.len() as u32).min(self.config.block_size) } else { matched };
            if matched > best.as_ref().map_or(0, |head| head.tokens) {
                best = Some(Head { block, tokens: matched });
            }
        }
        best.filter(|head| self.pool.block(head.block).refs > 0 || self.available() > fresh as u64)
    }
}
