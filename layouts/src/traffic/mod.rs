//! Predicted reads of one run, as integers, from the [`Launch`] alone: every load that the read schedule asks for, in
//! words, and the distinct words, 32-byte sectors and 128-byte lines behind them.
//!
//! The schedule, one workgroup per (head unit, pair tile) x row or group x split:
//! set-up words of the row; the keys that its pairs see, cut to the split; tiles of at most 64 keys, each with its table
//! words, its scales, and all of K and V of its keys once. This module shares no code with the kernels, which are
//! written to the same schedule.

mod bytes;
mod schedule;
#[cfg(test)]
mod tests;
mod touch;
mod walk;

use crate::launch::Launch;
use bytes::Bytes;
use schedule::{Grid, grids};
use touch::Binding;
use walk::Walk;

/// Reads of the four bindings over all phases of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// The K pool, front guard included in word numbers.
    pub k: Touched,
    /// The V pool, likewise.
    pub v: Touched,
    /// The tables.
    pub tables: Touched,
    /// The scale tables: K's, then V's.
    pub scales: Touched,
}

/// Reads of one binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Words requested; a load that all lanes of a workgroup share counts once.
    pub loads: u64,
    /// Distinct words.
    pub words: u64,
    /// Distinct 32-byte sectors, counted from the start of the binding.
    pub sectors: u64,
    /// Distinct 128-byte lines, likewise.
    pub lines: u64,
}

/// Predicts the reads of `launch`. Words outside a binding, which only a stale table can ask for, count as loads but
/// are no words of the binding.
pub fn predict(launch: &Launch) -> Reads {
    let mut bytes = Bytes::new(launch);
    let mut tables = Binding::new(launch.tables.words.len() as u64);
    let units = launch.q_heads / launch.schedule.heads_per_group;
    for grid in grids(launch) {
        for y in 0..grid.rows.len() {
            for unit in 0..units {
                for tile in 0..grid.tiles {
                    for split in 0..launch.schedule.splits {
                        workgroup(launch, &grid, Place { unit, tile, y, split }, &mut bytes, &mut tables);
                    }
                }
            }
        }
    }
    bytes.reads(&tables)
}

/// Where a workgroup is in its grid.
#[derive(Clone, Copy)]
struct Place {
    unit: u32,
    tile: u64,
    y: usize,
    split: u32,
}

fn workgroup(launch: &Launch, grid: &Grid, at: Place, bytes: &mut Bytes<'_>, tables: &mut Binding) {
    let kv_head = at.unit * launch.schedule.heads_per_group / (launch.q_heads / launch.kv_heads);
    let mut walk = Walk::open(launch, grid.shared, at.y, tables);
    if grid.shared {
        walk.find_pairs(at.tile, tables);
    }
    let Some(keys) = grid.keys(launch, at.y, at.tile).and_then(|keys| walk.cut(&keys, at.split)) else {
        return;
    };
    bytes.fixed_scales(kv_head);
    walk.enter(&keys, tables);
    let mut t = keys.start;
    while t < keys.end {
        let Some(tile) = walk.next_tile(t, keys.end, tables) else { break };
        bytes.keys(&tile.runs, kv_head);
        t = tile.end;
    }
}
