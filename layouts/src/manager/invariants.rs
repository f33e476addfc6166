//! The invariants of the manager's state, recounted from scratch. Slow and complete: meant for after every
//! operation of a case or a test.
//!
//! I1, I14, I16 and I17 concern tables and scale rows and are checked where those are made; I10 (a refused operation
//! changes nothing) and I11 (a prompt leaves a token to compute) are about operations, not states.

use std::collections::{BTreeMap, BTreeSet};

use super::index::NodeId;
use super::{Manager, Row, Violation};

/// Rows that list each block.
type Owners<'a> = BTreeMap<u32, Vec<&'a str>>;

fn ensure(holds: bool, rule: &'static str, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, detail: detail() }) }
}

impl Manager {
    /// Recounts the whole state.
    ///
    /// # Errors
    /// The first broken rule: I2 ids in bounds, I3 references, I4 free queue, I5 no block twice in a row, I6 nothing
    /// writable is keyed, I7 keys and index entries match, I8 key equals content, I9 epochs, I12 room and growth
    /// blocks, I13 released blocks, I15 tail extents, `count` for running totals.
    pub fn check_invariants(&self) -> Result<(), Violation> {
        let mut owners = Owners::new();
        for (name, row) in &self.rows {
            self.check_row_blocks(name, row, &mut owners)?;
        }
        self.check_references(&owners)?;
        self.check_queue()?;
        self.check_keys()?;
        for (name, row) in &self.rows {
            self.check_content(name, row)?;
            self.check_tail(name, row)?;
        }
        self.check_counts(&owners)
    }

    fn check_row_blocks<'a>(
        &self,
        name: &'a str,
        row: &Row,
        owners: &mut Owners<'a>,
    ) -> Result<(), Violation> {
        let (len, size) = (row.len(), self.config.block_size);
        ensure(row.blocks.len() >= row.written(size), "I12", || {
            format!("row {name}: {} blocks of {size} for {len} tokens", row.blocks.len())
        })?;
        let released = row.released as usize;
        let window = self.config.window.filter(|_| self.config.release);
        let allowed = window.map_or(0, |w| len.saturating_sub(w) / size);
        ensure(
            row.blocks.iter().take_while(|b| b.is_none()).count() == released && row.released <= allowed,
            "I13",
            || format!("row {name}: {released} blocks released, {allowed} outside the window"),
        )?;
        let mut seen = BTreeSet::new();
        for (index, (block, &epoch)) in row.blocks.iter().zip(&row.epochs).enumerate().skip(released) {
            let Some(id) = *block else {
                return ensure(false, "I13", || {
                    format!("row {name}: block {index} missing behind the window")
                });
            };
            let state = self.pool.get(id);
            ensure(state.is_some(), "I2", || format!("row {name}: block id {id} of {}", self.config.blocks))?;
            ensure(seen.insert(id), "I5", || format!("row {name} lists block {id} twice"))?;
            ensure(state.is_some_and(|b| b.epoch == epoch), "I9", || {
                format!("row {name}: block {id} was epoch {epoch}, is {}", state.map_or(0, |b| b.epoch))
            })?;
            owners.entry(id).or_default().push(name);
        }
        Ok(())
    }

    fn check_references(&self, owners: &Owners<'_>) -> Result<(), Violation> {
        for (id, block) in self.pool.all().iter().enumerate() {
            let rows = owners.get(&(id as u32)).map_or(&[][..], Vec::as_slice);
            ensure(rows.len() as u64 == u64::from(block.refs), "I3", || {
                format!("block {id} has {} references, rows {rows:?} list it", block.refs)
            })?;
        }
        Ok(())
    }

    fn check_queue(&self) -> Result<(), Violation> {
        let queued: BTreeSet<u32> = self.pool.queue().collect();
        ensure(queued.len() == self.pool.free(), "I4", || "a block is queued twice".to_owned())?;
        for (id, block) in (0..).zip(self.pool.all()) {
            ensure((block.refs == 0) == queued.contains(&id), "I4", || {
                format!("block {id} with {} references, queued: {}", block.refs, queued.contains(&id))
            })?;
            let plain = block.refs == 0 && block.node.is_none();
            ensure(plain == self.pool.plain().contains(&id), "I4", || {
                format!("block {id} wrongly counted as free without a key: {}", !plain)
            })?;
        }
        Ok(())
    }

    fn check_keys(&self) -> Result<(), Violation> {
        let mut entries: BTreeMap<u32, NodeId> = BTreeMap::new();
        let mut holders: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
        for (node, id) in self.index.entries() {
            let block = self.pool.get(id);
            ensure(block.is_some_and(|b| b.node == Some(node)), "I7", || {
                format!("the index lists block {id}, which carries another key or none")
            })?;
            ensure(entries.insert(id, node).is_none(), "I7", || format!("block {id} has two index entries"))?;
            let (live, cached) = holders.entry(node).or_default();
            *(if block.is_some_and(|b| b.refs > 0) { live } else { cached }) += 1;
        }
        for (id, block) in (0..).zip(self.pool.all()) {
            ensure(block.node == entries.get(&id).copied(), "I7", || {
                format!("block {id} carries a key that is not in the index")
            })?;
            ensure(block.node.is_none() || block.filled == self.config.block_size, "I6", || {
                format!(
                    "block {id} is keyed with {} of {} slots written",
                    block.filled, self.config.block_size
                )
            })?;
        }
        for (live, cached) in holders.into_values() {
            ensure(cached == 0 || (live, cached) == (0, 1), "I7", || {
                format!("one content in {live} live and {cached} cached blocks")
            })?;
        }
        Ok(())
    }

    /// Written blocks hold what the row's tokens say; nothing else is keyed or filled.
    fn check_content(&self, name: &str, row: &Row) -> Result<(), Violation> {
        let size = self.config.block_size;
        let full = (row.len() / size) as usize;
        let mut node = row.chain;
        for (index, content) in row.tokens.chunks_exact(size as usize).enumerate().rev() {
            let same =
                node.is_some_and(|n| self.index.tokens(n) == content && self.index.salt(n) == Some(row.salt));
            ensure(same, "I8", || format!("row {name}: key of block {index} is of other tokens or salt"))?;
            if let Some(id) = row.blocks[index] {
                let block = self.pool.block(id);
                ensure(block.node == node && block.filled == size, "I8", || {
                    format!(
                        "row {name}: block {id} ({} slots written) is not keyed as its content",
                        block.filled
                    )
                })?;
            }
            node = node.and_then(|n| self.index.parent(n));
        }
        ensure(node.is_none(), "I8", || format!("row {name}: key chain longer than the row"))?;
        for (index, id) in row.blocks.iter().enumerate().skip(full).filter_map(|(i, b)| b.map(|id| (i, id))) {
            let block = self.pool.block(id);
            let written = row.len().saturating_sub(index as u32 * size).min(size);
            ensure(block.node.is_none(), "I6", || format!("row {name}: next slot is in keyed block {id}"))?;
            ensure(block.filled == written, "I12", || {
                format!("row {name}: block {id} has {} slots written, the row {written}", block.filled)
            })?;
            ensure(written > 0 || block.refs == 1, "I12", || {
                format!("row {name}: growth block {id} has {} references", block.refs)
            })?;
        }
        Ok(())
    }

    fn check_tail(&self, name: &str, row: &Row) -> Result<(), Violation> {
        let size = self.config.block_size;
        let (start, first) = (row.hot_start, row.hot_start / size);
        ensure(
            start % size == 0 && first >= row.released && first as usize <= row.written(size),
            "I15",
            || {
                format!(
                    "row {name}: tail starts at {start}, {} blocks released, {} tokens",
                    row.released,
                    row.len()
                )
            },
        )?;
        let tail = &row.blocks[first as usize..];
        let consecutive = tail.windows(2).all(|pair| matches!(pair, [Some(a), Some(b)] if a + 1 == *b));
        ensure(consecutive, "I15", || format!("row {name}: tail blocks {tail:?} are not consecutive"))
    }

    fn check_counts(&self, owners: &Owners<'_>) -> Result<(), Violation> {
        let size = self.config.block_size;
        let reserve: u64 = self.rows.values().map(|row| row.reserve(size) as u64).sum();
        let claims: u64 = owners
            .iter()
            .filter(|&(&id, _)| self.is_partial(id))
            .map(|(_, rows)| rows.len() as u64 - 1)
            .sum();
        ensure((self.reserve, self.claims) == (reserve, claims), "count", || {
            format!("growth {} for {reserve}, claims {} for {claims}", self.reserve, self.claims)
        })?;
        ensure(claims <= self.pool.free() as u64 + reserve, "count", || {
            format!("{claims} copies on write are due, {} blocks free", self.pool.free())
        })
    }
}
