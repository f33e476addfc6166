//! One fault in one layout beside the right code: a manager, a store and a model that keeps every row's tokens.

use std::collections::{BTreeMap, BTreeSet};

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;

use crate::fault::ManagerFault;
use crate::kind::LayoutKind;
use crate::launch::{Launch, Split, UNLIMITED};
use crate::manager::{Manager, ManagerError, Placed, PoolConfig, chain_hash};
use crate::pack::{Geometry, RowCodes, Store};
use crate::tables::tests::{B, attention, groups, mask_from_groups, resolve};
use crate::tables::{RowQuery, Table, Tables};
use crate::traffic::predict;

/// What a trial can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// One of the two refuses an operation that the other carries out.
    Outcome,
    /// A refused operation changed the state.
    Trace,
    /// The prompt leaves no token to compute.
    NothingToCompute,
    /// The manager's own invariants.
    Invariant(&'static str),
    /// A slot of a row holds something else than the row's token there.
    Content,
    /// The tables lead elsewhere than the manager means.
    Tables,
    /// Other words in the tables of the same state.
    Words,
    /// Other blocks.
    Placement,
    /// Other totals.
    Statistics,
}

impl Evidence {
    /// Whether a row could read something wrong, or the pool is not what it says.
    pub(super) fn is_serious(self) -> bool {
        !matches!(self, Self::Words | Self::Placement | Self::Statistics)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Prefill(&'static str, Vec<u64>, u64),
    Append(&'static str, u64),
    Fork(&'static str, &'static str),
    Free(&'static str),
    Pressure(u32),
}

impl Op {
    fn on(&self, m: &mut Manager) -> Result<Placed, ManagerError> {
        match self {
            Self::Prefill(row, tokens, salt) => m.prefill(row, tokens, *salt),
            Self::Append(row, token) => m.append(row, *token),
            Self::Fork(parent, child) => m.fork(parent, child),
            Self::Free(row) => m.free(row).map(|()| Placed::default()),
            Self::Pressure(blocks) => m.pressure(*blocks),
        }
    }
}

pub(super) struct Trial {
    right: Manager,
    wrong: Manager,
    store: Store,
    rows: BTreeMap<&'static str, (Vec<u64>, u64)>,
    pub(super) evidence: BTreeSet<Evidence>,
}

/// One token's bytes: a function of the whole prefix and its salt; a block scale is one of the block's first token.
struct Token {
    k: Vec<u32>,
    v: Vec<u32>,
    scales: [f32; 2],
}

impl Token {
    fn of(state: u64, first_in_block: u64) -> Self {
        let code = |i: u32| (chain_hash(state, &[u64::from(i)], 0) & 0x7F) as u32;
        let scale = |state: u64| (state % 1024) as f32;
        Self {
            k: (0..16).map(code).collect(),
            v: (16..20).map(code).collect(),
            scales: [scale(first_in_block), scale(state)],
        }
    }

    fn all(tokens: &[u64], salt: u64) -> Vec<Self> {
        let chain = |state: &mut u64, token: &u64| {
            *state = chain_hash(*state, &[*token], salt);
            Some(*state)
        };
        let states: Vec<u64> = tokens.iter().scan(salt, chain).collect();
        (0..).zip(&states).map(|(i, &state)| Self::of(state, states[i / B as usize * B as usize])).collect()
    }

    fn codes(&self) -> RowCodes<'_> {
        RowCodes { k: &self.k, v: &self.v, k_scale: &self.scales[..1], v_scale: &self.scales[1..] }
    }
}

fn store(kind: LayoutKind, config: &PoolConfig) -> Store {
    let geometry = Geometry {
        kind,
        elem: Elem::E4m3fn,
        kv_heads: 1,
        d: 16,
        dv: 4,
        block_size: B,
        blocks: config.blocks,
        slot_pad: 0,
        k_scale: Granularity::Block,
        v_scale: Granularity::Token,
    };
    Store::new(geometry, (&[], &[])).unwrap()
}

impl Trial {
    pub(super) fn new(fault: &ManagerFault, kind: LayoutKind, config: PoolConfig) -> Self {
        Self {
            right: Manager::new(kind, config).unwrap(),
            wrong: Manager::with_fault(kind, config, fault).unwrap(),
            store: store(kind, &config).with_fault(fault),
            rows: BTreeMap::new(),
            evidence: BTreeSet::new(),
        }
    }

    /// Tokens of a row in the model.
    pub(super) fn tokens(&self, row: &str) -> &[u64] {
        self.rows.get(row).map_or(&[], |(tokens, _)| tokens)
    }

    /// Whether the model has the row.
    pub(super) fn is_alive(&self, row: &str) -> bool {
        self.rows.contains_key(row)
    }

    fn note(&mut self, evidence: Evidence, holds: bool) {
        if !holds {
            self.evidence.insert(evidence);
        }
    }

    pub(super) fn apply(&mut self, op: &Op) {
        let before = self.wrong.clone();
        let (right, wrong) = (op.on(&mut self.right), op.on(&mut self.wrong));
        self.note(Evidence::Outcome, right.is_ok() == wrong.is_ok());
        match wrong {
            Ok(placed) => self.carry_out(op, &placed),
            Err(_) => self.note(Evidence::Trace, before.same_state(&self.wrong)),
        }
        self.check();
    }

    fn carry_out(&mut self, op: &Op, placed: &Placed) {
        match op {
            Op::Prefill(row, tokens, salt) => {
                let left = tokens.is_empty() || (placed.cached as usize) < tokens.len();
                self.note(Evidence::NothingToCompute, left);
                self.rows.insert(row, (tokens.clone(), *salt));
            }
            Op::Append(row, token) => self.rows.get_mut(row).unwrap().0.push(*token),
            Op::Fork(parent, child) => {
                self.rows.insert(child, self.rows[parent].clone());
            }
            Op::Free(row) => {
                self.rows.remove(row);
            }
            Op::Pressure(_) => {}
        }
        for &block in &placed.overwritten {
            for slot in block * B..(block + 1) * B {
                self.store.write(slot, &Token::of(u64::MAX - u64::from(slot), 1).codes());
            }
        }
        for copy in &placed.copies {
            self.store.copy(copy);
        }
        if let Op::Prefill(row, ..) | Op::Append(row, _) = op {
            let (tokens, salt) = &self.rows[row];
            let bytes = Token::all(tokens, *salt);
            for write in &placed.writes {
                self.store.write(write.slot, &bytes[write.position as usize].codes());
            }
        }
    }

    fn check(&mut self) {
        if let Err(violation) = self.wrong.check_invariants() {
            self.evidence.insert(Evidence::Invariant(violation.rule));
        }
        self.note(Evidence::Content, self.content_is_right());
        self.note(Evidence::Statistics, self.right.stats() == self.wrong.stats());
        let rows: Vec<RowQuery<'_>> = self.rows.keys().map(|&name| RowQuery { name, q_len: 1 }).collect();
        let launch = |m: &Manager| {
            let left = m.config().window.map_or(UNLIMITED, |window| window - 1);
            Launch::build(m, &self.store, 2, &rows, attention(left), Split::Tokens(8)).ok()
        };
        let Some(wrong) = launch(&self.wrong) else {
            self.evidence.insert(Evidence::Tables);
            return;
        };
        // a prediction must end, whatever the tables say
        predict(&wrong);
        let same_blocks = |name: &&str| match (self.right.row(name), self.wrong.row(name)) {
            (Some(a), Some(b)) => (a.blocks, a.released) == (b.blocks, b.released),
            _ => false,
        };
        let placed_alike = self.rows.keys().all(same_blocks);
        let words_alike = launch(&self.right).is_none_or(|right| right.tables == wrong.tables);
        let agree = self.tables_agree(&wrong.tables);
        self.note(Evidence::Placement, placed_alike);
        self.note(Evidence::Words, words_alike || !placed_alike);
        self.note(Evidence::Tables, agree);
    }

    fn content_is_right(&self) -> bool {
        self.rows.iter().all(|(name, (tokens, salt))| {
            let Some(row) = self.wrong.row(name) else { return false };
            let bytes = Token::all(tokens, *salt);
            row.tokens == tokens
                && (row.released * B..row.len).all(|position| {
                    let block = row.blocks[(position / B) as usize];
                    let codes = bytes[position as usize].codes();
                    block.is_some_and(|block| self.store.holds(block * B + position % B, &codes))
                })
        })
    }

    /// Whether a kernel finds each key of each row once and nothing behind its end, and merges what there is.
    fn tables_agree(&self, tables: &Tables) -> bool {
        let kind = self.wrong.kind();
        let keys = self.rows.keys().zip(0..).all(|(name, r)| {
            let Some(row) = self.wrong.row(name) else { return false };
            (0..row.len.next_multiple_of(B)).all(|position| {
                let block = row.blocks[(position / B) as usize].filter(|_| position < row.len);
                let want: Vec<u32> = block.map(|block| block * B + position % B).into_iter().collect();
                resolve(kind, tables, r, position) == want
            })
        });
        let lengths = groups(tables).into_iter().all(|(g, _)| {
            let all = tables.get(Table::Spans).chunks_exact(8);
            let records = all.skip(g.span_begin as usize).take(g.span_count as usize);
            records.map(|record| record[1]).sum::<u32>() == g.length
        });
        let masks = tables.get(Table::MergeMask);
        keys && lengths && (0..).zip(masks).all(|(row, &mask)| mask_from_groups(tables, row) == Some(mask))
    }
}
