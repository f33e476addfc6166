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
    pub(super) tile: usize,
    /// The position that bias and scales see.
    pub(super) key: usize,
    /// The first key of the tile.
    pub(super) tile_start: usize,
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

    /// What any query token of the row sees.
    fn union(&self) -> Range<usize> {
        let mut seen = (0..self.tokens).map(|i| self.seen(i)).filter(|seen| !seen.is_empty());
        let Some(first) = seen.next() else { return 0..0 };
        seen.fold(first, |all, seen| all.start.min(seen.start)..all.end.max(seen.end))
    }

    /// The keys a unit stands for in this row.
    pub(super) fn unit(&self, unit: Unit) -> Range<usize> {
        let split = self.scene.split_tokens;
        match unit {
            Unit::Key(j) => j..j + 1,
            Unit::Block(b) => b * self.scene.block_size..(b + 1) * self.scene.block_size,
            Unit::Split(s) => s * split..(s + 1) * split,
            Unit::Tile(s, t) => {
                let start = self.union().start.max(s * split) + t * self.scene.tile;
                start..(start + self.scene.tile).min((s + 1) * split).max(start)
            }
        }
    }

    /// The length of the shared prefix.
    pub(super) fn prefix(&self, prefix: Prefix) -> usize {
        match prefix {
            Prefix::Longest => self.prefix.0,
            Prefix::Common => self.prefix.1,
        }
    }

    /// The visits of query token `i`; `None` if they read slots that the scene does not hold.
    pub(super) fn visits(&self, i: usize, edit: Edit) -> Option<Vec<Visit>> {
        let seen = self.seen(i);
        let union = self.union();
        let (masked, counts) = match self.tweaks.masked {
            Masked::LeftOut => (0..0, Counts::Fully),
            Masked::MinusCap(loaded) => {
                let cap = self.spec().profile().softcap.map_or(f64::INFINITY, f64::from);
                (self.loaded(loaded, &union), Counts::Score(-cap))
            }
            Masked::SmallWeight(loaded) => (self.loaded(loaded, &union), Counts::Weight(SMALL_WEIGHT)),
            Masked::Sentinel(loaded) => (self.loaded(loaded, &union), Counts::Score(SENTINEL)),
        };
        let start = if masked.is_empty() { union.start } else { union.start.min(masked.start) };
        let mut visits = Vec::with_capacity(seen.len().max(masked.len()) + 1);
        let from = if masked.is_empty() { seen.clone() } else { masked };
        for key in from.start.min(seen.start)..from.end.max(seen.end) {
            let counts = if seen.contains(&key) { Counts::Fully } else { counts };
            visits.push(self.visit(start, key / self.scene.split_tokens, key, counts));
        }
        self.edit(&mut visits, edit, &seen);
        let held = match self.tweaks.table {
            Table::Own => self.len,
            Table::NextRow => self.scene.next_row(self.row).k.dim().0,
        };
        visits.iter().all(|visit| visit.k_from.max(visit.v_from) < held).then_some(visits)
    }

    fn loaded(&self, loaded: Loaded, union: &Range<usize>) -> Range<usize> {
        let block = self.scene.block_size;
        match loaded {
            Loaded::Union => union.clone(),
            Loaded::Blocks => union.start / block * block..union.end.next_multiple_of(block).min(self.len),
            Loaded::Row => 0..self.len,
        }
    }

    fn visit(&self, start: usize, part: usize, key: usize, counts: Counts) -> Visit {
        let start = start.max(part * self.scene.split_tokens);
        let tile = (key - start) / self.scene.tile;
        let tile_start = start + tile * self.scene.tile;
        Visit { part, tile, key, tile_start, k_from: key, v_from: key, counts }
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
            Edit::DropPrefix(prefix) => visits.retain(|visit| visit.key >= self.prefix(prefix)),
            Edit::Duplicate(j) => duplicate(visits, j),
            Edit::DuplicateMiddle => duplicate(visits, len / 2),
            Edit::NextV(j) => self.next_v(visits, j),
            Edit::NextVMiddle => self.next_v(visits, len / 2),
            Edit::ShiftedV => visits.iter_mut().for_each(|visit| visit.v_from = visit.key.saturating_sub(1)),
            Edit::SwappedBlocks => {
                for visit in visits.iter_mut().filter(|visit| visit.key < 2 * block && len > block) {
                    let from = if visit.key < block { visit.key + block } else { visit.key - block };
                    (visit.k_from, visit.v_from) = (from, from);
                }
            }
            Edit::PageOfTileV => {
                for visit in visits {
                    visit.v_from = visit.tile_start / block * block + visit.key % block;
                }
            }
            Edit::SplitGap => {
                visits.retain(|visit| !((visit.key + 1).is_multiple_of(split) && visit.key + 1 < seen.end));
            }
            Edit::SplitOverlap => {
                let firsts: Vec<Visit> = visits
                    .iter()
                    .filter(|visit| visit.key.is_multiple_of(split) && visit.part > 0)
                    .map(|visit| self.visit(visits[0].key, visit.part - 1, visit.key, visit.counts))
                    .collect();
                visits.extend(firsts);
                visits.sort_by_key(|visit| (visit.part, visit.key));
            }
            Edit::HalfTiles => {
                visits.retain(|visit| visit.key - visit.tile_start < self.scene.tile.div_ceil(2));
            }
            Edit::SkipSingles => {
                let end = self.union().end;
                let keys = |visit: &Visit| {
                    let tile_end = (visit.tile_start + self.scene.tile).min((visit.part + 1) * split);
                    tile_end.min(end).saturating_sub(visit.tile_start)
                };
                visits.retain(|visit| keys(visit) != 1);
            }
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
