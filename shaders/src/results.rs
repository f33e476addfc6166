//! What comes back from a kernel: the guarded outputs, and what the probe counted.

use std::ops::Range;

use crate::abi::{Problem, UNWRITTEN};

/// The raw output buffer of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    words: Vec<u32>,
    o: Range<usize>,
    lse: Range<usize>,
}

impl Outputs {
    /// Every word as it is before a run.
    pub fn unwritten(problem: &Problem) -> Vec<u32> {
        vec![UNWRITTEN; problem.output_words() as usize]
    }

    /// The outputs of `problem` in `words`.
    ///
    /// # Panics
    /// If there are not [`Problem::output_words`] words: a fault of the kernel's runner.
    pub fn new(problem: &Problem, words: Vec<u32>) -> Self {
        assert_eq!(
            words.len(),
            problem.output_words() as usize,
            "an output buffer has the size its problem asks for"
        );
        Self { words, o: problem.o_range(), lse: problem.lse_range() }
    }

    /// f32 bits of o `[query token, query head, dv]`.
    pub fn o(&self) -> &[u32] {
        &self.words[self.o.clone()]
    }

    /// f32 bits of lse `[query token, query head]`.
    pub fn lse(&self) -> &[u32] {
        &self.words[self.lse.clone()]
    }

    /// The guard words around both tensors; each is [`UNWRITTEN`] unless the kernel wrote out of bounds.
    pub fn guards(&self) -> Vec<u32> {
        [&self.words[..self.o.start], &self.words[self.o.end..self.lse.start], &self.words[self.lse.end..]]
            .concat()
    }
}

/// What the probe counted in one run: words requested, and the distinct words of each binding as a bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeLog {
    /// Words requested of K, V, tables and scales.
    pub loads: [u64; 4],
    /// One bitmap per binding: K, V, tables, side.
    pub bitmaps: [Vec<u32>; 4],
}

impl ProbeLog {
    /// Reads the probe buffer of `problem`.
    pub fn new(problem: &Problem, words: &[u32]) -> Self {
        let mut at = 4;
        let bitmaps = problem.bitmap_words().map(|len| {
            let bitmap = words[at..at + len as usize].to_vec();
            at += len as usize;
            bitmap
        });
        Self { loads: [0, 1, 2, 3].map(|i| u64::from(words[i])), bitmaps }
    }

    /// Distinct words, 32-byte sectors and 128-byte lines touched in each binding.
    pub fn distinct(&self) -> [[u64; 3]; 4] {
        self.bitmaps.each_ref().map(|bitmap| {
            let bytes = || bitmap.iter().flat_map(|w| w.to_le_bytes());
            [
                bitmap.iter().map(|w| u64::from(w.count_ones())).sum(),
                bytes().filter(|b| *b != 0).count() as u64,
                bitmap.iter().filter(|w| **w != 0).count() as u64,
            ]
        })
    }
}
