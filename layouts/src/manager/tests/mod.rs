//! Test bench: the five managers side by side, each with a plain array of slot contents and a plain map of rows.
//! After every operation each row must read its own content back, the invariants must hold, and the five must agree
//! on success and on how many blocks are left.

mod faults;
mod placement;
mod scripts;
mod walk;

use std::collections::BTreeMap;

use super::{ChainHash, Manager, ManagerError, Placed, PoolConfig, chain_hash};
use crate::kind::LayoutKind;

const FOREIGN: u64 = u64::MAX;

fn config(blocks: u32, block_size: u32) -> PoolConfig {
    PoolConfig {
        blocks,
        block_size,
        first_block: 0,
        window: None,
        release: false,
        extent_tokens: 4 * block_size,
    }
}

/// `count` tokens of stream `stream`.
fn tok(stream: u64, count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| stream * 100_000 + i).collect()
}

/// Only four values: nearly every lookup meets foreign keys in its bucket.
fn weak_hash(parent: u64, tokens: &[u64], salt: u64) -> u64 {
    chain_hash(parent, tokens, salt) & 3
}

#[derive(Clone, Debug)]
enum Op {
    Prefill(String, Vec<u64>, u64),
    Append(String, u64),
    Fork(String, String),
    Free(String),
    Pressure(u32),
}

/// One manager, what its slots hold, and what its rows should be.
struct World {
    manager: Manager,
    slots: Vec<u64>,
    rows: BTreeMap<String, (Vec<u64>, u64)>,
}

/// What a slot holds for the last of `tokens`: a function of the whole prefix and its salt.
fn contents(tokens: &[u64], salt: u64) -> Vec<u64> {
    tokens
        .iter()
        .scan(salt, |state, &token| {
            *state = chain_hash(*state, &[token], salt);
            Some(*state)
        })
        .collect()
}

impl World {
    fn new(kind: LayoutKind, config: PoolConfig, hash: ChainHash) -> Self {
        let manager = Manager::with_hash(kind, config, hash).unwrap();
        let slots = vec![FOREIGN; config.slots() as usize];
        Self { manager, slots, rows: BTreeMap::new() }
    }

    fn apply(&mut self, op: &Op) -> Result<Placed, ManagerError> {
        let before = self.manager.clone();
        let m = &mut self.manager;
        let done = match op {
            Op::Prefill(row, tokens, salt) => m.prefill(row, tokens, *salt),
            Op::Append(row, token) => m.append(row, *token),
            Op::Fork(parent, child) => m.fork(parent, child),
            Op::Free(row) => m.free(row).map(|()| Placed::default()),
            Op::Pressure(blocks) => m.pressure(*blocks),
        };
        let kind = self.manager.kind();
        let Ok(placed) = &done else {
            assert!(before.same_state(&self.manager), "{kind}: refused {op:?} left traces");
            assert_eq!(self.manager.stats().failed, before.stats().failed + 1);
            return done;
        };
        match op {
            Op::Prefill(row, tokens, salt) => {
                assert!(tokens.is_empty() || (placed.cached as usize) < tokens.len(), "I11");
                assert_eq!(placed.cached as usize + placed.writes.len(), tokens.len());
                self.rows.insert(row.clone(), (tokens.clone(), *salt));
            }
            Op::Append(row, token) => self.rows.get_mut(row).unwrap().0.push(*token),
            Op::Fork(parent, child) => {
                self.rows.insert(child.clone(), self.rows[parent].clone());
            }
            Op::Free(row) => {
                self.rows.remove(row);
            }
            Op::Pressure(_) => {}
        }
        self.store(op, placed, &before);
        self.check(&format!("{kind} after {op:?}"));
        done
    }

    fn store(&mut self, op: &Op, placed: &Placed, before: &Manager) {
        let size = self.manager.config().block_size;
        for &block in &placed.overwritten {
            assert_eq!(
                before.block(block).refs * u32::from(before.block(block).filled > 0),
                0,
                "foreign writes"
            );
            self.slots[(block * size) as usize..][..size as usize].fill(FOREIGN);
        }
        for copy in &placed.copies {
            let from = copy.from as usize..(copy.from + copy.count) as usize;
            self.slots.copy_within(from, copy.to as usize);
        }
        let (Op::Prefill(row, ..) | Op::Append(row, _)) = op else { return };
        let (tokens, salt) = &self.rows[row];
        let content = contents(tokens, *salt);
        for write in &placed.writes {
            let (old, new) = (before.block(write.slot / size), self.manager.block(write.slot / size));
            assert_eq!(new.refs, 1, "I6: write to a shared block");
            let reallocated = new.epoch > old.epoch;
            assert!(reallocated || !old.keyed, "I6: write to a sealed block");
            self.slots[write.slot as usize] = content[write.position as usize];
        }
    }

    fn check(&self, when: &str) {
        if let Err(violation) = self.manager.check_invariants() {
            panic!("{when}: {violation}");
        }
        let size = self.manager.config().block_size;
        assert!(self.manager.row_names().eq(self.rows.keys().map(String::as_str)), "{when}: rows");
        for (name, (tokens, salt)) in &self.rows {
            let view = self.manager.row(name).unwrap();
            assert_eq!(view.tokens, tokens.as_slice(), "{when}: tokens of {name}");
            let content = contents(tokens, *salt);
            for position in view.released * size..view.len {
                let block = view.blocks[(position / size) as usize].unwrap();
                let slot = block * size + position % size;
                let (got, want) = (self.slots[slot as usize], content[position as usize]);
                assert_eq!(got, want, "{when}: row {name} position {position} in slot {slot}");
            }
        }
    }
}

/// The five worlds in step.
struct Lab(Vec<World>);

impl Lab {
    fn new(config: PoolConfig) -> Self {
        Self::with_hash(config, chain_hash)
    }

    fn with_hash(config: PoolConfig, hash: ChainHash) -> Self {
        Self(LayoutKind::ALL.into_iter().map(|kind| World::new(kind, config, hash)).collect())
    }

    /// Whether the operation succeeded, the same everywhere.
    fn apply(&mut self, op: &Op) -> bool {
        let outcomes: Vec<bool> = self.0.iter_mut().map(|world| world.apply(op).is_ok()).collect();
        assert!(outcomes.windows(2).all(|w| w[0] == w[1]), "{op:?} succeeds in some layouts: {outcomes:?}");
        let left: Vec<u64> = self.0.iter().map(|world| world.manager.available()).collect();
        assert!(left.windows(2).all(|w| w[0] == w[1]), "blocks left after {op:?}: {left:?}");
        outcomes[0]
    }

    fn prefill(&mut self, row: &str, tokens: &[u64]) {
        assert!(self.apply(&Op::Prefill(row.into(), tokens.to_vec(), 0)), "prefill {row}");
    }

    fn append(&mut self, row: &str, count: usize) {
        for _ in 0..count {
            let token =
                7_000_000 + u64::from(row.as_bytes()[0]) * 10_000 + self.0[0].rows[row].0.len() as u64;
            assert!(self.apply(&Op::Append(row.into(), token)), "append {row}");
        }
    }

    fn fork(&mut self, parent: &str, child: &str) {
        assert!(self.apply(&Op::Fork(parent.into(), child.into())), "fork {parent} {child}");
    }

    fn free(&mut self, row: &str) {
        assert!(self.apply(&Op::Free(row.into())), "free {row}");
    }

    fn pressure(&mut self, blocks: u32) {
        assert!(self.apply(&Op::Pressure(blocks)), "pressure {blocks}");
    }

    /// The same question to every manager.
    fn each<T>(&self, ask: impl Fn(&Manager) -> T) -> Vec<T> {
        self.0.iter().map(|world| ask(&world.manager)).collect()
    }
}
