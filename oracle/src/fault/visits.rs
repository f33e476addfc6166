//! Which keys a query token visits, in the order of the kernel: splits, tiles, keys.

use std::ops::Range;

use super::{
    Scene,
    tweaks::{Edit, Left, Limit, Loaded, Masked, Position, Prefix, Table, Tweaks, Unit},
};
use crate::{
    rule::position,
    spec::{Causal, Spec},
};

/// How a visited key counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Counts {
    /// By its score.
    Fully,
    /// With this score.
    Score(f64),
    /// With this weight, relative to the running maximum.
    Weight(f64),
}

/// One visit of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) part: usize,
    /// The position that bias and scales see.
    pub(super) key: usize,
    /// The keys of the tile, masked ones included.
    pub(super) tile: (usize, usize),
    /// The keys whose K and V are read.
    pub(super) k_from: usize,
    pub(super) v_from: usize,
    pub(super) counts: Counts,
}

/// The weight of masked keys that should have none.
const SMALL_WEIGHT: f64 = 1.0 / 1_048_576.0;
/// The score of masked keys that should have none.
const SENTINEL: f64 = -1e4;

/// One row of a scene, under one set of tweaks.
pub(super) struct RowRules<'a, 's> {
    pub(super) scene: &'a Scene<'s>,
    pub(super) tweaks: &'a Tweaks,
    pub(super) row: usize,
    pub(super) len: usize,
    pub(super) tokens: usize,
    /// The longest prefix shared with one other row, and with all rows that share any.
    pub(super) prefix: (usize, usize),
}

impl RowRules<'_, '_> {
    fn spec(&self) -> &Spec {
        self.scene.spec
    }

    /// The position of query token `i`.
    pub(super) fn position(&self, i: usize) -> i64 {
        let spec = self.spec();
        let declared = |len: usize| position(spec, i, self.tokens, len);
        let start = self.len as i64 - self.tokens as i64;
        match self.tweaks.position {
            Position::Declared => declared(self.len),
            Position::TopLeft => i as i64,
            Position::BottomRight => start + i as i64,
            Position::OffsetTwice if spec.profile().causal == Causal::TopLeft => i as i64,
            Position::OffsetTwice => 2 * start + i as i64,
            Position::BlockFloor => {
                let block = self.scene.block_size as i64;
                let first = declared(self.len) - i as i64;
                first.div_euclid(block) * block + i as i64
            }
            Position::LongestRow => {
                let lens = self.scene.rows.iter().map(|row| row.k.dim().0);
                declared(lens.max().unwrap_or(0))
            }
        }
    }

    /// The query tokens of the workgroup that serves query token `i` in head `h`.
    pub(super) fn workgroup(&self, i: usize, h: usize) -> Range<usize> {
        let heads = self.scene.heads_per_workgroup;
        let first = (i * heads + h % heads) / self.scene.pairs_per_workgroup * self.scene.pairs_per_workgroup;
        let end = first.saturating_add(self.scene.pairs_per_workgroup);
        first / heads..end.div_ceil(heads).min(self.tokens)
    }

    /// The keys that query token `i` sees.
    pub(super) fn seen(&self, i: usize) -> Range<usize> {
        let (profile, tweaks) = (self.spec().profile(), self.tweaks);
        let p = self.position(i);
        let (limit_by, window_by) = match tweaks.limit {
            Limit::Moved(by) => (by, 0),
            Limit::MovedWithWindow(by) => (by, by),
            Limit::Declared | Limit::Ignored | Limit::Imposed => (0, 0),
        };
        let causal = match tweaks.limit {
            Limit::Ignored => false,
            Limit::Imposed => true,
            _ => profile.causal != Causal::None,
        };
        let windowed = tweaks.left != Left::Ignored;
        let mut hi = self.len as i64;
        if causal {
            hi = hi.min(p + 1 + limit_by);
        }
        if let Some(right) = profile.window.right.filter(|_| windowed) {
            hi = hi.min(p + i64::from(right) + 1 + window_by);
        }
        let hi = hi.max(0);
        let lo =
            profile.window.left.filter(|_| windowed).map_or(0, |left| self.first(i, p - i64::from(left)));
        let lo = lo.clamp(0, hi);
        lo as usize..hi as usize
    }

    /// The first key of a window that should begin at `first`.
    fn first(&self, i: usize, first: i64) -> i64 {
        let floor = |unit: usize| first.max(0) / unit as i64 * unit as i64;
        match self.tweaks.left {
            Left::Wider(by) => first - by,
            Left::BlockFloor => floor(self.scene.block_size),
            Left::TileFloor => floor(self.scene.tile),
            Left::PreviousToken => first - i64::from(i > 0),
            Left::FirstTokenIgnored if i == 0 && self.tokens > 1 => 0,
            Left::Declared | Left::Ignored | Left::FirstTokenIgnored => first,
        }
    }

    /// What any of some query tokens sees, in whole blocks where the kernel reads whole blocks.
    pub(super) fn read(&self, tokens: Range<usize>) -> Range<usize> {
        let mut seen = tokens.map(|i| self.seen(i)).filter(|seen| !seen.is_empty());
        let Some(first) = seen.next() else { return 0..0 };
        let all = seen.fold(first, |all, seen| all.start.min(seen.start)..all.end.max(seen.end));
        let grain = if self.scene.whole_blocks { self.scene.block_size } else { 1 };
        all.start / grain * grain..all.end.next_multiple_of(grain)
    }

    /// The keys a unit stands for in this row.
    pub(super) fn unit(&self, unit: Unit) -> Range<usize> {
        let split = self.scene.split_tokens;
        match unit {
            Unit::Key(j) => j..j + 1,
            Unit::Block(b) => b * self.scene.block_size..(b + 1) * self.scene.block_size,
            Unit::Split(s) => s * split..(s + 1) * split,
            Unit::Tile(s, t) => {
                let read = self.read(0..self.tokens);
                let mut tile = self.tile(&read, read.start.max(s * split));
                for _ in 0..t {
                    tile = self.tile(&read, tile.1);
                }
                let end = (s + 1) * split;
                tile.0.min(end)..tile.1.min(end)
            }
        }
    }

    /// First key and end of the tile that holds `key`.
    fn tile(&self, read: &Range<usize>, key: usize) -> (usize, usize) {
        let (size, split) = (self.scene.tile, self.scene.split_tokens);
        let pieces = &self.scene.rows[self.row].pieces;
        let after = pieces.partition_point(|piece| piece.start <= key);
        let piece = after.checked_sub(1).map_or(0, |at| pieces[at].start);
        let piece_end = pieces.get(after).map_or(usize::MAX, |piece| piece.start);
        let base = read.start.max(key / split * split).max(piece).min(key);
        let start = base + (key - base) / size * size;
        let end = (start + size).min((key / split + 1) * split).min(piece_end);
        (start, end.min(read.end.max(key + 1)))
    }

    /// The partial result that a key goes to.
    fn part(&self, key: usize) -> usize {
        self.scene.rows[self.row].part(key) * self.scene.splits + key / self.scene.split_tokens
    }

    /// Whether a key belongs to the shared prefix.
    pub(super) fn in_prefix(&self, prefix: Prefix, key: usize) -> bool {
        match prefix {
            Prefix::Longest => key < self.prefix.0,
            Prefix::Common => key < self.prefix.1,
            Prefix::Parts => self.scene.rows[self.row].part(key) > 0,
        }
    }

    /// The visits of query token `i` in a workgroup with the query tokens `with`; `None` if they read slots that the scene
    /// does not hold.
    pub(super) fn visits(&self, i: usize, with: Range<usize>, edit: Edit) -> Option<Vec<Visit>> {
        let seen = self.seen(i);
        let read = self.read(with);
        let (masked, counts) = match self.tweaks.masked {
            Masked::LeftOut => (0..0, Counts::Fully),
            Masked::MinusCap(loaded) => {
                let cap = self.spec().profile().softcap.map_or(f64::INFINITY, f64::from);
                (self.loaded(loaded, &read), Counts::Score(-cap))
            }
            Masked::SmallWeight(loaded) => (self.loaded(loaded, &read), Counts::Weight(SMALL_WEIGHT)),
            Masked::Sentinel(loaded) => (self.loaded(loaded, &read), Counts::Score(SENTINEL)),
        };
        let from = if masked.is_empty() { seen.clone() } else { masked };
        let keys = from.start.min(seen.start)..from.end.max(seen.end);
        let read =
            if read.is_empty() { keys.clone() } else { read.start.min(keys.start)..read.end.max(keys.end) };
        let mut visits = Vec::with_capacity(keys.len() + 1);
        for key in keys {
            let counts = if seen.contains(&key) { Counts::Fully } else { counts };
            visits.push(self.visit(&read, key, counts));
        }
        visits.sort_by_key(|visit| visit.part);
        self.edit(&mut visits, edit, &seen);
        let held = match self.tweaks.table {
            Table::Own => self.len,
            Table::NextRow => self.scene.next_row(self.row).k.dim().0,
        };
        visits.iter().all(|visit| visit.k_from.max(visit.v_from) < held).then_some(visits)
    }

    fn loaded(&self, loaded: Loaded, read: &Range<usize>) -> Range<usize> {
        let block = self.scene.block_size;
        match loaded {
            Loaded::Read => read.clone(),
            Loaded::Blocks => read.start / block * block..read.end.next_multiple_of(block).min(self.len),
            Loaded::Row => 0..self.len,
        }
    }

    /// The visit of a key in a kernel that reads the whole row.
    pub(super) fn whole(&self, key: usize) -> Visit {
        self.visit(&(0..self.len), key, Counts::Fully)
    }

    fn visit(&self, read: &Range<usize>, key: usize, counts: Counts) -> Visit {
        Visit { part: self.part(key), key, tile: self.tile(read, key), k_from: key, v_from: key, counts }
    }

    /// Applies an edit to the list of visits.
    fn edit(&self, visits: &mut Vec<Visit>, edit: Edit, seen: &Range<usize>) {
        let (block, split, len) = (self.scene.block_size, self.scene.split_tokens, self.len);
        match edit {
            Edit::None => {}
            Edit::Drop(unit) => {
                let range = self.unit(unit);
                visits.retain(|visit| !range.contains(&visit.key));
            }
            Edit::DropLast => visits.retain(|visit| visit.key + 1 != len),
            Edit::DropMiddle => visits.retain(|visit| visit.key != len / 2),
            Edit::DropLastBlock => visits.retain(|visit| visit.key < len.saturating_sub(1) / block * block),
            Edit::DropPrefix(prefix) => visits.retain(|visit| !self.in_prefix(prefix, visit.key)),
            Edit::Duplicate(j) => duplicate(visits, j),
            Edit::DuplicateMiddle => duplicate(visits, len / 2),
            Edit::NextV(j) => self.next_v(visits, j),
            Edit::NextVMiddle => self.next_v(visits, len / 2),
            Edit::ShiftedV => visits.iter_mut().for_each(|visit| visit.v_from = visit.key.saturating_sub(1)),
            Edit::SwappedBlocks => {
                let own = |key: usize| self.scene.rows[self.row].part(key);
                for visit in visits.iter_mut().filter(|visit| visit.key < 2 * block && len > block) {
                    let from = if visit.key < block { visit.key + block } else { visit.key - block };
                    // A prefix that several rows share is read through a table of its own.
                    if own(from) == 0 && own(visit.key) == 0 {
                        (visit.k_from, visit.v_from) = (from, from);
                    }
                }
            }
            Edit::PageOfTileV => {
                for visit in visits {
                    visit.v_from = visit.tile.0 / block * block + visit.key % block;
                }
            }
            Edit::SplitGap => {
                visits.retain(|visit| !((visit.key + 1).is_multiple_of(split) && visit.key + 1 < seen.end));
            }
            Edit::SplitGapAtEnd => visits.retain(|visit| {
                let next = (visit.key + 1) / split;
                !((visit.key + 1).is_multiple_of(split) && next < self.scene.splits)
            }),
            Edit::SplitOverlap => {
                let is_first = |visit: &&Visit| visit.key > 0 && visit.key.is_multiple_of(split);
                let firsts: Vec<Visit> = visits.iter().filter(is_first).copied().collect();
                visits.extend(firsts);
                visits.sort_by_key(|visit| (visit.part, visit.key));
            }
            Edit::HalfTiles => {
                visits.retain(|visit| visit.key - visit.tile.0 < self.scene.tile.div_ceil(2));
            }
            Edit::SkipSingles => visits.retain(|visit| visit.tile.1 - visit.tile.0 != 1),
        }
    }

    fn next_v(&self, visits: &mut [Visit], j: usize) {
        for visit in visits.iter_mut().filter(|visit| visit.key == j && j + 1 < self.len) {
            visit.v_from = j + 1;
        }
    }
}

fn duplicate(visits: &mut Vec<Visit>, j: usize) {
    if let Some(at) = visits.iter().position(|visit| visit.key == j) {
        visits.insert(at, visits[at]);
    }
}
