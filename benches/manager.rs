//! Operations per second of the KV manager in each layout, on a pool as a serving engine keeps it: three quarters of
//! the blocks in use by 64 rows of 2,049 tokens in the mean, the rest cached prefixes of rows that are gone.
//!
//! Items are operations: tokens appended, rows made, forks made and freed again, batches lowered. Each iteration starts
//! from a copy of the same manager; making the copy is not timed.

use attnproof_cases::hash::stream_tokens;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::{Attention, CausalKind, UNLIMITED};
use attnproof_layouts::manager::{Manager, PoolConfig};
use attnproof_layouts::tables::{RowQuery, lower};
use attnproof_oracle::{Elem, Granularity};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

const POOL: PoolConfig = PoolConfig {
    blocks: 8192,
    block_size: 16,
    first_block: 0,
    window: None,
    release: false,
    extent_tokens: 64,
};
const ROWS: usize = 64;
/// Requests served before the measurement: the pool has been used several times over.
const SERVED: usize = 512;
/// Tokens that each row grows between two arrivals.
const STEP: usize = 8;
/// Tokens of a system prompt, and how many of these there are.
const SYSTEM: usize = 512;
const SYSTEMS: usize = 4;

fn main() {
    divan::main();
}

/// The manager in the middle of its work, and the names of its rows.
struct Served {
    manager: Manager,
    rows: Vec<String>,
}

impl Served {
    /// Requests arrive one by one; each arrival ends the oldest of 64 rows, and all rows grow in between.
    fn new(kind: LayoutKind) -> Self {
        let mut served =
            Self { manager: Manager::new(kind, POOL).expect("the pool is valid"), rows: Vec::new() };
        for request in 0..SERVED {
            served.arrive(request);
        }
        served
    }

    fn arrive(&mut self, request: usize) {
        if self.rows.len() == ROWS {
            let gone = self.rows.remove(0);
            self.manager.free(&gone).expect("the row lives");
        }
        let name = format!("request-{request:03}");
        self.manager.prefill(&name, &prompt(request), 0).expect("the pool is large enough");
        self.rows.push(name);
        for _ in 0..STEP {
            decode(&mut self.manager, &self.rows);
        }
    }
}

/// One of four system prompts, then 768 to 1,791 tokens of the request's own.
fn prompt(request: usize) -> Vec<u64> {
    let own = 768 + request * 389 % 1024;
    let mut tokens = stream_tokens(&format!("system-{}", request % SYSTEMS), SYSTEM);
    tokens.extend(stream_tokens(&format!("request-{request}"), own));
    tokens
}

/// Every row grows by one token. Which token does not matter: the prompts differ.
fn decode(manager: &mut Manager, rows: &[String]) {
    for row in rows {
        manager.append(row, 1).expect("the pool is large enough");
    }
}

/// Sixteen decode steps of all rows, so that each row enters a new block once.
#[divan::bench(args = LayoutKind::ALL, sample_size = 1)]
fn append(bencher: Bencher<'_, '_>, kind: LayoutKind) {
    let Served { manager, rows } = Served::new(kind);
    let steps = POOL.block_size as usize;
    bencher
        .counter(ItemsCount::new(ROWS * steps))
        .with_inputs(|| manager.clone())
        .bench_local_refs(|manager| (0..steps).for_each(|_| decode(manager, &rows)));
}

/// One append that needs a block, where the free blocks lie singly and hold no cached prefix: the worst case of the
/// search for contiguous room.
#[divan::bench(args = LayoutKind::ALL, sample_size = 1)]
fn append_scattered(bencher: Bencher<'_, '_>, kind: LayoutKind) {
    let mut manager = Manager::new(kind, POOL).expect("the pool is valid");
    let partial = vec![1; POOL.block_size as usize - 1];
    for row in 0..POOL.blocks {
        manager.prefill(&row.to_string(), &partial, 0).expect("one block each");
    }
    for row in (2..POOL.blocks).step_by(3) {
        manager.free(&row.to_string()).expect("the row lives");
    }
    manager.append("0", 1).expect("its block has room");
    bencher
        .counter(ItemsCount::new(1usize))
        .with_inputs(|| manager.clone())
        .bench_local_refs(|manager| manager.append("0", 1));
}

/// A prompt of 1,536 tokens that nobody has sent before.
#[divan::bench(args = LayoutKind::ALL, sample_size = 1)]
fn prefill_miss(bencher: Bencher<'_, '_>, kind: LayoutKind) {
    prefill(bencher, kind, &stream_tokens("new", 1536), 0);
}

/// A prompt of 1,536 tokens of which the first 512 are a system prompt in use.
#[divan::bench(args = LayoutKind::ALL, sample_size = 1)]
fn prefill_hit(bencher: Bencher<'_, '_>, kind: LayoutKind) {
    let mut tokens = stream_tokens("system-0", SYSTEM);
    tokens.extend(stream_tokens("new", 1024));
    prefill(bencher, kind, &tokens, SYSTEM as u32);
}

fn prefill(bencher: Bencher<'_, '_>, kind: LayoutKind, tokens: &[u64], hits: u32) {
    let manager = Served::new(kind).manager;
    let placed = manager.clone().prefill("new", tokens, 0).expect("the pool is large enough");
    assert_eq!(placed.cached, hits, "the bench measures what it says");
    bencher
        .counter(ItemsCount::new(1usize))
        .with_inputs(|| manager.clone())
        .bench_local_refs(|manager| manager.prefill("new", black_box(tokens), 0));
}

/// Each row is forked and the child freed again.
#[divan::bench(args = LayoutKind::ALL, sample_size = 1)]
fn fork_free(bencher: Bencher<'_, '_>, kind: LayoutKind) {
    let Served { manager, rows } = Served::new(kind);
    bencher.counter(ItemsCount::new(ROWS)).with_inputs(|| manager.clone()).bench_local_refs(|manager| {
        for row in &rows {
            manager.fork(row, "child").expect("the pool is large enough");
            manager.free("child").expect("the child lives");
        }
    });
}

/// The tables of a decode batch of all rows.
#[divan::bench(args = LayoutKind::ALL)]
fn lower_batch(bencher: Bencher<'_, '_>, kind: LayoutKind) {
    let Served { manager, rows } = Served::new(kind);
    let batch: Vec<_> = rows.iter().map(|name| RowQuery { name, q_len: 1 }).collect();
    let attention = Attention {
        scale: 0.125,
        causal: CausalKind::BottomRight,
        left: UNLIMITED,
        right: UNLIMITED,
        softcap: 0.0,
        alibi_then_cap: false,
        alibi: false,
        sinks: false,
    };
    let scales = (Granularity::None, Granularity::None);
    bencher
        .counter(ItemsCount::new(1usize))
        .bench_local(|| lower(black_box(&manager), &batch, &attention, scales, Elem::F32));
}
