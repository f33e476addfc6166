//! Ballot: every visible key has the same weight and votes with a code of +-1 in every dim, so that the output times the
//! number of keys is the sum of the codes that were read, a whole number in every dim.

use std::collections::BTreeSet;
use std::ops::Range;

use ndarray::Axis;

use super::Asked;
use super::keys::{Keys, linear};
use crate::case::Case;
use crate::fill::{AMPLITUDE, Content, REACH};
use crate::replay::CheckRow;
use crate::script::Op;

/// Sums beyond this number cannot be told from their neighbours in a 16-bit output.
const LARGEST: f64 = 96.0;
/// A term this much louder than the codes comes from outside of the row.
const LOUD: f64 = 4.0;

/// The ballots of one row; the look-ups of a KV head are made when the first fault needs them.
pub(super) struct Ballots<'a> {
    case: &'a Case,
    row: &'a CheckRow,
    seed: u64,
    keys: Vec<Option<Keys>>,
}

impl<'a> Ballots<'a> {
    pub(super) fn new(case: &'a Case, row: &'a CheckRow, seed: u64) -> Self {
        Self { case, row, seed, keys: (0..case.shape.kv_heads).map(|_| None).collect() }
    }

    /// The fault that the outputs show.
    pub(super) fn says(&mut self, asked: &Asked<'_>) -> Option<String> {
        let count = Count::new(asked);
        if count.is(asked.visible.len() as f64, &count.sum) {
            return None;
        }
        if asked.o.iter().all(|o| *o == 0.0) {
            return Some("output 0: no key read".to_owned());
        }
        let v = &self.row.v;
        self.keys[asked.kv].get_or_insert_with(|| Keys::new(v, asked.kv));
        let keys = self.keys[asked.kv].as_ref()?;
        let membership = || Membership { asked, count: &count, keys }.says();
        let cause = count.other_head().or_else(|| count.gain()).or_else(membership);
        Some(cause.or_else(|| self.outside(&count, keys)).unwrap_or_else(|| count.unexplained()))
    }

    /// One loud or weak term: what another tenant or nobody wrote, or V under a wrong scale.
    fn outside(&self, count: &Count<'_, '_>, keys: &Keys) -> Option<String> {
        let asked = count.asked;
        let rest: Vec<f64> = count.differences(asked.visible.len() as f64);
        let (least, most) = extremes(&rest);
        let signs: Vec<i64> = rest.iter().map(|x| if *x < 0.0 { -1 } else { 1 }).collect();
        if least > LOUD {
            if let Some(block) =
                (1..=self.foreign_blocks()).find(|tag| self.foreign_signs(*tag, asked.kv) == signs)
            {
                return Some(format!("read from block {block} of another tenant"));
            }
            if signs.iter().all(|sign| *sign == signs[0]) {
                return Some("read from slots that were never written".to_owned());
            }
        }
        let is_even = most - least <= 0.05 * most + 2.0 * count.tolerance(most);
        if !is_even || most <= 2.0 * count.tolerance(0.0) {
            return None;
        }
        let size = f64::midpoint(most, least);
        let hash = linear(signs);
        let find = |hash| keys.with_code(hash).next();
        if let Some(key) = find(hash) {
            return Some(if asked.visible.contains(&key) {
                format!("V of key {key} x {:.3}", 1.0 + size)
            } else {
                format!("key {key} extra ({}), V x {size:.3}", asked.whereabouts(key))
            });
        }
        find(hash.wrapping_neg()).map(|key| format!("V of key {key} x {:.3}", 1.0 - size))
    }

    /// Blocks that another tenant wrote.
    fn foreign_blocks(&self) -> u64 {
        let blocks = |op: &Op| if let Op::Pressure { blocks } = op { u64::from(*blocks) } else { 0 };
        self.case.script.ops.iter().map(blocks).sum()
    }

    /// Signs of V of such a block.
    fn foreign_signs(&self, tag: u64, kv: usize) -> Vec<i64> {
        let dv = self.case.shape.dv;
        let codes = Content::new(self.case, self.seed).foreign(tag).v;
        let sign = |code: &u32| if self.case.kv.decode(*code) < 0.0 { -1 } else { 1 };
        codes[kv * dv..(kv + 1) * dv].iter().map(sign).collect()
    }
}

/// The smallest and the largest magnitude.
fn extremes(x: &[f64]) -> (f64, f64) {
    x.iter().map(|x| x.abs()).fold((f64::INFINITY, 0.0), |(least, most), x| (least.min(x), most.max(x)))
}

/// One output row in units of the codes.
struct Count<'a, 'r> {
    asked: &'a Asked<'r>,
    /// The outputs over the codes' magnitude: the sum of the codes read over the sum of the weights.
    mean: Vec<f64>,
    /// The sum of the codes of all visible keys.
    sum: Vec<i64>,
    /// The sink's weight, in units of a key's.
    sink: f64,
}

impl<'a, 'r> Count<'a, 'r> {
    fn new(asked: &'a Asked<'r>) -> Self {
        Self {
            asked,
            mean: asked.o.iter().map(|o| o / AMPLITUDE).collect(),
            sum: sum(asked, asked.kv),
            sink: asked.sink.map_or(0.0, libm::exp),
        }
    }

    /// How far a sum of about `x` may be from a whole number: roundings of weights and outputs to bf16, and a sum of so
    /// many equal weights that all round the same way.
    fn tolerance(&self, x: f64) -> f64 {
        let keys = self.asked.visible.len() as f64;
        (0.02 + x.abs() / 256.0 + keys / 131_072.0).min(0.45)
    }

    /// The sums of the codes read, if so many keys were.
    fn sums(&self, keys: f64) -> impl Iterator<Item = f64> {
        self.mean.iter().map(move |mean| mean * (keys + self.sink))
    }

    /// What the sums of so many keys have beyond those of the visible keys.
    fn differences(&self, keys: f64) -> Vec<f64> {
        self.sums(keys).zip(&self.sum).map(|(got, sum)| got - *sum as f64).collect()
    }

    /// Whether the outputs are this sum over so many keys.
    fn is(&self, keys: f64, sum: &[i64]) -> bool {
        self.sums(keys).zip(sum).all(|(got, sum)| (got - *sum as f64).abs() <= self.tolerance(*sum as f64))
    }

    /// What was read beyond the visible keys, in codes, if so many keys were read. All codes are odd, so that each sum
    /// is as odd as the number of keys.
    fn extra(&self, keys: usize) -> Option<Vec<i64>> {
        let mut extra = Vec::with_capacity(self.sum.len());
        let mut is_zero = true;
        for (got, sum) in self.sums(keys as f64).zip(&self.sum) {
            let whole = got.round();
            let is_sum = got.abs() <= LARGEST && (got - whole).abs() <= self.tolerance(got);
            if !is_sum || (whole as i64 - keys as i64) % 2 != 0 {
                return None;
            }
            is_zero &= whole == 0.0;
            extra.push(whole as i64 - sum);
        }
        (!is_zero).then_some(extra)
    }

    fn other_head(&self) -> Option<String> {
        let asked = self.asked;
        let keys = asked.visible.len() as f64;
        let read = asked.other_heads().find(|kv| self.is(keys, &sum(asked, *kv)))?;
        Some(format!("KV head {} read as {read}", asked.kv))
    }

    /// All sums too large or too small by one factor.
    fn gain(&self) -> Option<String> {
        let keys = self.asked.visible.len() as f64;
        let square: i64 = self.sum.iter().map(|sum| sum * sum).sum();
        let product: f64 = self.sums(keys).zip(&self.sum).map(|(got, sum)| got * *sum as f64).sum();
        let gain = product / square as f64;
        let fits = |(got, sum): (f64, &i64)| {
            let expected = gain * *sum as f64;
            (got - expected).abs() <= self.tolerance(expected)
        };
        (square > 0 && gain != 0.0 && self.sums(keys).zip(&self.sum).all(fits))
            .then(|| format!("gain {gain:.4}"))
    }

    fn unexplained(&self) -> String {
        let keys = self.asked.visible.len();
        let says = if (1..=2 * keys).any(|keys| self.extra(keys).is_some()) {
            "the sum of other keys than the visible ones"
        } else if self.sums(keys as f64).any(|sum| sum.abs() > LARGEST) {
            "sum too large: weights unequal, or many keys missing or repeated"
        } else {
            "sum not an integer: weights unequal"
        };
        says.to_owned()
    }
}

/// The sum of the codes of all visible keys in a KV head.
fn sum(asked: &Asked<'_>, kv: usize) -> Vec<i64> {
    let v = asked.row.v.index_axis(Axis(1), kv);
    let mut sum = vec![0_i64; v.ncols()];
    for key in asked.visible.clone() {
        for (sum, v) in sum.iter_mut().zip(v.row(key)) {
            *sum += if *v < 0.0 { -1 } else { 1 };
        }
    }
    sum
}

/// The search for keys that are missing, extra or taken for others.
struct Membership<'a, 'r> {
    asked: &'a Asked<'r>,
    count: &'a Count<'a, 'r>,
    keys: &'a Keys,
}

impl Membership<'_, '_> {
    /// For each number of keys that may have been read, the most likely first, what was read beyond the visible ones.
    /// Over many keys most numbers give the same sums, which are looked up once; what is found must fit its own number.
    fn says(&self) -> Option<String> {
        let keys = self.asked.visible.len();
        let by_lse = libm::exp(self.asked.lse.min(44.0)) - self.count.sink;
        let likely = (by_lse.is_finite() && by_lse >= 0.5).then(|| (by_lse.round() as usize).min(2 * keys));
        let near = (0..=keys).flat_map(|step| [keys.checked_sub(step), Some(keys + step)]).flatten();
        let mut seen = BTreeSet::new();
        for read in likely.into_iter().chain(near).filter(|read| *read > 0) {
            let Some(extra) = self.count.extra(read) else { continue };
            if !seen.insert(extra.clone()) {
                continue;
            }
            let hash = linear(extra.iter().copied());
            let found = self
                .one(hash, &extra)
                .or_else(|| self.run(hash, &extra))
                .or_else(|| self.two(hash, &extra))
                .or_else(|| self.block(hash, &extra))
                .or_else(|| self.stranger(&extra));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether the outputs are the sum of the visible keys and `extra`, over `more` keys than the visible ones.
    fn fits(&self, extra: &[i64], more: i64) -> bool {
        let sum: Vec<i64> = self.count.sum.iter().zip(extra).map(|(sum, extra)| sum + extra).collect();
        self.count.is((self.asked.visible.len() as i64 + more) as f64, &sum)
    }

    fn sees(&self, key: usize) -> bool {
        self.asked.visible.contains(&key)
    }

    /// One key missing, extra or counted twice.
    fn one(&self, hash: u64, extra: &[i64]) -> Option<String> {
        if self.fits(extra, -1)
            && let Some(key) = self.keys.with_code(hash.wrapping_neg()).find(|key| self.sees(*key))
        {
            return Some(format!("key {key} missing"));
        }
        let key = self.keys.with_code(hash).next().filter(|_| self.fits(extra, 1))?;
        Some(if self.sees(key) {
            format!("key {key} counted twice")
        } else {
            format!("key {key} extra ({})", self.asked.whereabouts(key))
        })
    }

    /// A run of keys missing, extra or counted twice.
    fn run(&self, hash: u64, extra: &[i64]) -> Option<String> {
        let visible = &self.asked.visible;
        let is_seen = |run: &Range<usize>| visible.start <= run.start && run.end <= visible.end;
        let missing = |run: &Range<usize>| is_seen(run) && self.fits(extra, -(run.len() as i64));
        if let Some(run) = self.keys.runs(hash.wrapping_neg()).find(missing) {
            return Some(format!("keys {}..{} missing", run.start, run.end));
        }
        let run = self.keys.runs(hash).find(|run| self.fits(extra, run.len() as i64))?;
        let (start, end) = (run.start, run.end);
        Some(if is_seen(&run) {
            format!("keys {start}..{end} counted twice")
        } else if end <= visible.start || start >= visible.end {
            format!("keys {start}..{end} extra ({})", self.asked.whereabouts(start))
        } else {
            format!("keys {start}..{end} extra")
        })
    }

    /// Two keys: one for the other, or both missing, or both extra.
    fn two(&self, hash: u64, extra: &[i64]) -> Option<String> {
        let codes = &self.keys.codes;
        if self.fits(extra, 0) {
            let replaced = self.asked.visible.clone().find_map(|key| {
                let read = self.keys.with_code(hash.wrapping_add(codes[key]));
                // A neighbour is the likeliest.
                read.min_by_key(|read| read.abs_diff(key)).map(|read| (key, read))
            });
            if let Some((key, read)) = replaced {
                return Some(format!("V of key {key} read as that of key {read}"));
            }
        }
        if self.fits(extra, -2) {
            let missing = self.asked.visible.clone().find_map(|key| {
                let other = self.keys.with_code(hash.wrapping_add(codes[key]).wrapping_neg());
                other.filter(|other| self.sees(*other) && *other > key).map(|other| (key, other)).next()
            });
            if let Some((key, other)) = missing {
                return Some(format!("keys {key} and {other} missing"));
            }
        }
        if self.fits(extra, 2) {
            let twice = (0..codes.len()).find_map(|key| {
                let other = self.keys.with_code(hash.wrapping_sub(codes[key]));
                other.filter(|other| *other >= key).map(|other| (key, other)).next()
            });
            if let Some((key, other)) = twice {
                return Some(format!("keys {key} and {other} counted once too often"));
            }
        }
        None
    }

    /// The keys of one block, as far as they are visible, replaced by those in the same slots of another.
    fn block(&self, hash: u64, extra: &[i64]) -> Option<String> {
        if !self.fits(extra, 0) {
            return None;
        }
        let (size, visible) = (self.asked.case.block_size as usize, &self.asked.visible);
        let len = self.asked.row.len;
        let at = |block: usize, slots: &Range<usize>| block * size + slots.start..block * size + slots.end;
        let mut whole: Vec<_> =
            (0..len / size).map(|block| (self.keys.sum(&at(block, &(0..size))), block)).collect();
        whole.sort_unstable();
        (visible.start / size..visible.end.div_ceil(size)).find_map(|block| {
            let slots = visible.start.max(block * size) - block * size
                ..visible.end.min((block + 1) * size) - block * size;
            let wanted = hash.wrapping_add(self.keys.sum(&at(block, &slots)));
            let read = if slots == (0..size) {
                let place = whole.partition_point(|(sum, _)| *sum < wanted);
                whole.get(place).filter(|(sum, _)| *sum == wanted).map(|(_, read)| *read)
            } else {
                // Blocks visible in part are the first and the last one at most.
                let fits = |read: &usize| self.keys.sum(&at(*read, &slots)) == wanted;
                (0..len.div_ceil(size)).filter(|read| at(*read, &slots).end <= len).find(fits)
            };
            read.filter(|read| *read != block).map(|read| format!("block {block} replaced by block {read}"))
        })
    }

    /// One key that is not in this row, in place of one that is or besides all of them.
    fn stranger(&self, extra: &[i64]) -> Option<String> {
        if extra.iter().all(|x| x.abs() == 1) && self.fits(extra, 1) {
            return Some("one key extra that this row does not have".to_owned());
        }
        if !self.fits(extra, 0) {
            return None;
        }
        let is_code = |key: &usize| {
            let own = self.asked.v(*key, self.asked.kv);
            extra.iter().zip(own).all(|(x, v)| (x + if *v < 0.0 { -1 } else { 1 }).abs() == 1)
        };
        let key = self.asked.visible.clone().find(is_code)?;
        Some(format!("key {key} replaced by one that this row does not have"))
    }
}

// Sums of runs are small only because the codes keep to their reach.
const _: () = assert!(4.0 * REACH as f64 <= LARGEST);
