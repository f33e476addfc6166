//! The twin's bindings: every load is bounds-checked and counted, as `wgsl/probe/on.wgsl` counts them.

use attnproof_layouts::pack::Pools;

use crate::abi::Problem;
use crate::dispatch::RunError;
use crate::results::ProbeLog;

const K: usize = 0;
const V: usize = 1;
const TABLES: usize = 2;
const SIDE: usize = 3;
const NAMES: [&str; 4] = ["k", "v", "tables", "side"];

/// The read-only bindings and the probe.
pub(super) struct Memory<'a> {
    bindings: [&'a [u32]; 4],
    log: ProbeLog,
}

impl<'a> Memory<'a> {
    pub(super) fn new(problem: &'a Problem, pools: &'a Pools, side: &'a [u32]) -> Self {
        let log = ProbeLog { loads: [0; 4], bitmaps: problem.bitmap_words().map(|w| vec![0; w as usize]) };
        Self { bindings: [&pools.k, &pools.v, &problem.launch.tables.words, side], log }
    }

    fn peek(&self, binding: usize, word: u32) -> Result<u32, RunError> {
        let words = self.bindings[binding];
        words.get(word as usize).copied().ok_or(RunError::OutOfBounds {
            binding: NAMES[binding],
            word,
            words: words.len(),
        })
    }

    fn load(&mut self, binding: usize, word: u32) -> Result<u32, RunError> {
        let value = self.peek(binding, word)?;
        self.log.loads[binding] += 1;
        self.log.bitmaps[binding][word as usize / 32] |= 1 << (word % 32);
        Ok(value)
    }

    pub(super) fn k(&mut self, word: u32) -> Result<u32, RunError> {
        self.load(K, word)
    }

    pub(super) fn v(&mut self, word: u32) -> Result<u32, RunError> {
        self.load(V, word)
    }

    pub(super) fn table(&mut self, word: u32) -> Result<u32, RunError> {
        self.load(TABLES, word)
    }

    pub(super) fn scale(&mut self, word: u32) -> Result<f32, RunError> {
        self.load(SIDE, word).map(f32::from_bits)
    }

    /// A word of the tables that the probe does not count.
    pub(super) fn uncounted_table(&self, word: u32) -> Result<u32, RunError> {
        self.peek(TABLES, word)
    }

    /// `count` parameters of the model (slopes or sinks), which the probe does not count.
    pub(super) fn parameters(&self, at: u32, count: u32) -> Result<&[f32], RunError> {
        let words = self.bindings[SIDE];
        let range = at as usize..at as usize + count as usize;
        let out = RunError::OutOfBounds { binding: NAMES[SIDE], word: at + count, words: words.len() };
        words.get(range).map(bytemuck::cast_slice).ok_or(out)
    }

    pub(super) fn into_log(self) -> ProbeLog {
        self.log
    }
}
