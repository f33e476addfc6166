//! Shares of the bound, counted: histograms of fixed size whose merges are exact, so that a table depends on the rows
//! alone and never on the order in which they came.

use std::collections::BTreeMap;

/// Buckets per power of two.
const PER_OCTAVE: u64 = 8;
/// The first bucket ends at 2^-40; what is below is in it, and so is a share of 0.
const LOWEST_EXPONENT: i64 = -40;
/// Shares from 2^8 on, infinite ones and NaN are in the last bucket.
const HIGHEST_EXPONENT: i64 = 8;
/// Buckets of a histogram.
pub const BUCKETS: usize = ((HIGHEST_EXPONENT - LOWEST_EXPONENT) as u64 * PER_OCTAVE) as usize + 2;
/// Mantissa bits below those that choose a bucket.
const UNUSED_BITS: u32 = 52 - PER_OCTAVE.trailing_zeros();

/// The largest of several shares; infinite if one is NaN.
pub fn largest(shares: impl Iterator<Item = f64>) -> f64 {
    shares.fold(0.0, |most, share| {
        if share <= most {
            most
        } else if share.is_nan() {
            f64::INFINITY
        } else {
            share
        }
    })
}

/// Shares of one tensor's bound: a histogram on a log scale with 8 buckets per power of two, and the largest share.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    counts: Vec<u64>,
    /// The largest share; infinite where a value has the wrong class. NaN counts as infinite.
    pub max: f64,
    /// Index of the drawn case that has the largest share.
    pub max_at: u64,
}

impl Default for Shares {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], max: 0.0, max_at: 0 }
    }
}

impl Shares {
    /// Counts one share, found in the drawn case `at`.
    pub fn add(&mut self, share: f64, at: u64) {
        let share = largest([share].into_iter());
        self.counts[bucket(share)] += 1;
        self.lead(share, at);
    }

    /// Adds everything `other` counted. Of equal largest shares the one of the first case is kept.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.lead(other.max, other.max_at);
    }

    fn lead(&mut self, share: f64, at: u64) {
        if share > self.max || share == self.max && at < self.max_at {
            (self.max, self.max_at) = (share, at);
        }
    }

    /// An upper bound, within an eighth of a power of two, on the share that a part `part` of the rows does not exceed;
    /// `None` if nothing was counted.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let rank = ((part * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(upper_edge(found).min(self.max))
    }

    /// The buckets that are not empty: index and count.
    pub fn sparse(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// The inverse of [`Shares::sparse`]; `None` if a bucket does not exist.
    pub fn from_sparse(buckets: &[(usize, u64)], max: f64, max_at: u64) -> Option<Self> {
        let mut shares = Self { max, max_at, ..Self::default() };
        for &(index, count) in buckets {
            *shares.counts.get_mut(index)? += count;
        }
        Some(shares)
    }
}

/// From exponent and leading mantissa bits, so that it is the same on every machine.
fn bucket(share: f64) -> usize {
    let lowest = lowest_code();
    let code = share.to_bits() >> UNUSED_BITS;
    (code.saturating_sub(lowest) + u64::from(code >= lowest)).min(BUCKETS as u64 - 1) as usize
}

/// The least value above every share of the bucket.
fn upper_edge(bucket: usize) -> f64 {
    if bucket + 1 == BUCKETS {
        return f64::INFINITY;
    }
    f64::from_bits((lowest_code() + bucket as u64) << UNUSED_BITS)
}

const fn lowest_code() -> u64 {
    ((1023 + LOWEST_EXPONENT) as u64) * PER_OCTAVE
}

/// What was found of one kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stat {
    /// Output rows judged, each one query token and head.
    pub rows: u64,
    /// Rows not judged: no finite bound holds for them, or the harness cannot put them to the kernel.
    pub no_guarantee: u64,
    /// Rows over the bound; a case that fails in another way counts as one.
    pub violations: u64,
    /// Largest share over the elements of a row of o.
    pub o: Shares,
    /// Share of the LSE.
    pub lse: Shares,
}

impl Stat {
    /// Counts one row by its shares, found in the drawn case `at`. Says whether it is over its bound.
    pub fn add(&mut self, [o, lse]: [f64; 2], at: u64) -> bool {
        // negated, so that NaN is over
        let over = !(o <= 1.0 && lse <= 1.0);
        self.rows += 1;
        self.violations += u64::from(over);
        self.o.add(o, at);
        self.lse.add(lse, at);
        over
    }

    /// Adds everything `other` counted.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.no_guarantee += other.no_guarantee;
        self.violations += other.violations;
        self.o.merge(&other.o);
        self.lse.merge(&other.lse);
    }
}

/// What was found of every kernel, by its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(pub BTreeMap<String, Stat>);

impl Table {
    /// The kernel's entry, made when first asked for.
    pub fn of(&mut self, kernel: &str) -> &mut Stat {
        self.0.entry(kernel.to_owned()).or_default()
    }

    /// Adds everything `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (kernel, stat) in &other.0 {
            self.of(kernel).merge(stat);
        }
    }

    /// The same with the kernels' names changed; kernels that get one name are added up.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(&str) -> Option<String>) -> Self {
        let mut table = Self::default();
        for (kernel, stat) in &self.0 {
            if let Some(name) = name(kernel) {
                table.of(&name).merge(stat);
            }
        }
        table
    }

    /// All kernels together.
    pub fn total(&self) -> Stat {
        let mut total = Stat::default();
        self.0.values().for_each(|stat| total.merge(stat));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_lies_in_its_bucket() {
        for share in [0.0, 1e-300, 1e-12, 9.5e-13, 0.1, 0.999, 1.0, 1.0001, 255.9, 256.0, f64::INFINITY] {
            let bucket = bucket(share);
            assert!(bucket < BUCKETS && (share < upper_edge(bucket) || share == f64::INFINITY), "{share}");
            assert!(bucket < 2 || upper_edge(bucket - 1) <= share, "{share}");
        }
        assert!((0..BUCKETS - 1).all(|b| upper_edge(b) < upper_edge(b + 1)));
    }

    #[test]
    fn quantiles_are_near_and_never_below() {
        let mut shares = Shares::default();
        assert_eq!(shares.quantile(0.5), None);
        (1..=1000).for_each(|i| shares.add(f64::from(i) / 1000.0, u64::from(1000_u32 - i as u32)));
        for (part, exact) in [(0.5, 0.5), (0.999, 0.999), (1.0, 1.0)] {
            let found = shares.quantile(part).expect("something was counted");
            assert!((exact..=exact * 1.125).contains(&found), "{part}: {found}");
        }
        assert_eq!((shares.max, shares.max_at), (1.0, 0));
    }

    #[test]
    fn merges_are_exact_in_any_order() {
        let parts: Vec<Stat> = (0..4_u32)
            .map(|part| {
                let mut stat = Stat::default();
                for i in 0..50 {
                    stat.add([f64::from(part * i) / 100.0, f64::from(i) / 70.0], u64::from(part));
                }
                stat
            })
            .collect();
        let merged = |order: [usize; 4]| {
            let mut all = Stat::default();
            for i in order {
                all.merge(&parts[i]);
            }
            all
        };
        assert_eq!(merged([0, 1, 2, 3]), merged([3, 1, 0, 2]));
        let all = merged([0, 1, 2, 3]);
        let sparse: Vec<_> = all.o.sparse().collect();
        assert_eq!(Shares::from_sparse(&sparse, all.o.max, all.o.max_at).as_ref(), Some(&all.o));
    }

    #[test]
    fn nan_and_what_exceeds_one_is_over() {
        let mut stat = Stat::default();
        let over = [[0.5, 1.0], [1.0_f64.next_up(), 0.0], [0.0, f64::NAN], [f64::INFINITY, 0.0]];
        assert_eq!(over.map(|shares| stat.add(shares, 0)), [false, true, true, true]);
        assert_eq!((stat.rows, stat.violations, stat.lse.max), (4, 3, f64::INFINITY));
    }
}
