//! Counter-based hashing: every input is a function of names and indices, never of a running state.
//!
//! The mixer is the finaliser of `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
//! Generators, OOPSLA 2014). Names become 64-bit keys through SHA-256, so that the generator is the
//! same on every machine and in every version of the standard library.

use sha2::{Digest, Sha256};

/// The odd increment of `SplitMix64`: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Finaliser of `SplitMix64`: a bijection of 64-bit words with full avalanche.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Folds `next` into `state`; the order of the folded words matters.
pub(crate) fn fold(state: u64, next: u64) -> u64 {
    mix(state.wrapping_add(GOLDEN) ^ mix(next.wrapping_add(GOLDEN)))
}

/// Word number `counter` of the stream `key`.
pub(crate) fn word(key: u64, counter: u64) -> u64 {
    mix(key.wrapping_add(GOLDEN.wrapping_mul(counter.wrapping_add(1))))
}

/// A real in [-1, 1) with 20 bits, a multiple of 2^-19: exact in f32, with room for small factors.
pub(crate) fn signed_unit(word: u64) -> f64 {
    ((word >> 44) as f64 - 524_288.0) / 524_288.0
}

/// A nearly normal real of mean 0 and variance 1: the sum of twelve uniform ones less 6. A multiple of 2^-16 in
/// [-6, 6), exact in f32.
pub(crate) fn normal(key: u64, counter: u64) -> f64 {
    let quarters = (0..3).map(|part| {
        let word = word(key, 3 * counter + part);
        (word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48)
    });
    // Each 16-bit uniform is half a step low on average; twelve of them six steps.
    (quarters.sum::<u64>() + 6) as f64 / 65_536.0 - 6.0
}

/// A 64-bit key from a list of names, by SHA-256 with separators between the names.
pub(crate) fn key(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |acc, byte| (acc << 8) | u64::from(*byte))
}

/// The first `n` token ids of the named stream: two prompts that name one stream share its tokens.
pub fn stream_tokens(stream: &str, n: usize) -> Vec<u64> {
    let key = key(&[b"stream", stream.as_bytes()]);
    (0..n as u64).map(|index| word(key, index)).collect()
}

/// The token id that row `row` generates at absolute position `position`: forks of one parent have
/// different names and so diverge.
pub fn generated_token(row: &str, position: usize) -> u64 {
    word(key(&[b"generated", row.as_bytes()]), position as u64)
}
