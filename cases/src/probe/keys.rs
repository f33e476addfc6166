//! Sums of ballot codes as 64-bit numbers: a linear hash turns "which keys have this sum" into look-ups.

use std::ops::Range;

use ndarray::Array3;

use crate::hash;

/// `sum_d x_d r_d` modulo 2^64 with fixed odd `r_d`: the hash of a sum of vectors is the sum of their hashes, and
/// different vectors have different hashes but for one pair in 2^64.
pub(super) fn linear(x: impl IntoIterator<Item = i64>) -> u64 {
    let key = hash::key(&[b"ballot"]);
    let terms = x.into_iter().enumerate();
    terms.fold(0, |sum, (dim, x)| {
        let r = hash::word(key, dim as u64) | 1;
        sum.wrapping_add((x as u64).wrapping_mul(r))
    })
}

/// Hashes of one KV head's codes and of their partial sums.
pub(super) struct Keys {
    /// Of each key.
    pub(super) codes: Vec<u64>,
    /// Of the sum of the first `i` keys, `len + 1` of them.
    pub(super) sums: Vec<u64>,
    by_code: Vec<(u64, usize)>,
    by_sum: Vec<(u64, usize)>,
}

impl Keys {
    /// The codes are the signs of V `[key, kv head, dv]` in KV head `kv`.
    pub(super) fn new(v: &Array3<f64>, kv: usize) -> Self {
        let key = hash::key(&[b"ballot"]);
        let (len, _, dv) = v.dim();
        let factors: Vec<u64> = (0..dv).map(|dim| hash::word(key, dim as u64) | 1).collect();
        let code = |key: usize| {
            factors.iter().enumerate().fold(0_u64, |sum, (dim, r)| {
                if v[[key, kv, dim]] < 0.0 { sum.wrapping_sub(*r) } else { sum.wrapping_add(*r) }
            })
        };
        let codes: Vec<u64> = (0..len).map(code).collect();
        let mut sums = vec![0_u64];
        sums.extend(codes.iter().scan(0_u64, |sum, code| {
            *sum = sum.wrapping_add(*code);
            Some(*sum)
        }));
        let sorted = |hashes: &[u64]| {
            let mut sorted: Vec<_> = hashes.iter().copied().zip(0..).collect();
            sorted.sort_unstable();
            sorted
        };
        let (by_code, by_sum) = (sorted(&codes), sorted(&sums));
        Self { codes, sums, by_code, by_sum }
    }

    /// The keys with this code, in order.
    pub(super) fn with_code(&self, code: u64) -> impl Iterator<Item = usize> {
        equal(&self.by_code, code)
    }

    /// Runs of keys with this sum, each as a range that is not empty.
    pub(super) fn runs(&self, sum: u64) -> impl Iterator<Item = Range<usize>> {
        self.sums.iter().enumerate().flat_map(move |(start, before)| {
            let ends = equal(&self.by_sum, before.wrapping_add(sum));
            ends.filter(move |end| *end > start).map(move |end| start..end)
        })
    }

    /// The sum of a run.
    pub(super) fn sum(&self, run: &Range<usize>) -> u64 {
        self.sums[run.end].wrapping_sub(self.sums[run.start])
    }
}

/// The indices with this hash.
fn equal(sorted: &[(u64, usize)], hash: u64) -> impl Iterator<Item = usize> {
    let first = sorted.partition_point(|(other, _)| *other < hash);
    sorted[first..].iter().take_while(move |(other, _)| *other == hash).map(|(_, index)| *index)
}
