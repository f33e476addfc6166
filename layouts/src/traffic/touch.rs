//! Counting loads of one binding: how many words are asked for, and which.

use super::Touched;

/// Words of a 32-byte sector and of a 128-byte line.
const SECTOR_WORDS: u32 = 8;
const LINE_WORDS: u32 = 32;

/// Loads so far, with one bit per word.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    loads: u64,
    words: u64,
    seen: Vec<u64>,
}

impl Binding {
    /// A binding of so many words, none loaded yet.
    pub(super) fn new(words: u64) -> Self {
        Self { loads: 0, words, seen: vec![0; words.div_ceil(64) as usize] }
    }

    /// Loads `count` consecutive words from word `first`.
    pub(super) fn load(&mut self, first: u64, count: u64) {
        self.loads += count;
        let end = (first + count).min(self.words);
        let mut at = first;
        while at < end {
            let (cell, bit) = (at / 64, at % 64);
            let n = (end - at).min(64 - bit);
            self.seen[cell as usize] |= (u64::MAX >> (64 - n)) << bit;
            at += n;
        }
    }

    /// The totals.
    pub(super) fn touched(&self) -> Touched {
        let pieces = |words: u32| -> u64 {
            let mask = u64::MAX >> (64 - words);
            let shifts = || (0..64 / words).map(move |i| i * words);
            self.seen.iter().map(|cell| shifts().filter(|s| cell >> s & mask != 0).count() as u64).sum()
        };
        Touched {
            loads: self.loads,
            words: self.seen.iter().map(|cell| u64::from(cell.count_ones())).sum(),
            sectors: pieces(SECTOR_WORDS),
            lines: pieces(LINE_WORDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Binding, Touched};

    #[test]
    fn repeated_loads_count_again_but_are_the_same_words() {
        let mut binding = Binding::new(200);
        binding.load(60, 8);
        binding.load(62, 4);
        binding.load(199, 1);
        assert_eq!(binding.touched(), Touched { loads: 13, words: 9, sectors: 3, lines: 3 });
    }

    #[test]
    fn words_outside_are_loads_only() {
        let mut binding = Binding::new(70);
        binding.load(69, 3);
        binding.load(1 << 40, 2);
        assert_eq!(binding.touched(), Touched { loads: 5, words: 1, sectors: 1, lines: 1 });
    }
}
