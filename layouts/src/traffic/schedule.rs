//! The grid of a run: which (query token, head) pairs a workgroup has and which keys they see.

use std::ops::Range;

use crate::launch::{CausalKind, Launch, LaunchRow, UNLIMITED};
use crate::tables::Table;

/// One dispatch.
pub(super) struct Grid {
    /// Whether this is the phase of the shared prefixes.
    pub(super) shared: bool,
    /// Per y the batch rows whose pairs it has, concatenated: one row, or the members of a group.
    pub(super) rows: Vec<Vec<LaunchRow>>,
    /// Pair tiles of the largest y.
    pub(super) tiles: u64,
}

/// The dispatches: rows, then groups (none in layouts without).
pub(super) fn grids(launch: &Launch) -> [Grid; 2] {
    let rows = launch.rows.iter().map(|&row| vec![row]).collect();
    let members = launch.tables.get(Table::Members);
    let groups = launch.tables.get(Table::Groups).chunks_exact(8).map(|group| {
        let members = members.iter().skip(group[4] as usize).take(group[5] as usize);
        members.filter_map(|&row| launch.rows.get(row as usize).copied()).collect()
    });
    [grid(launch, false, rows), grid(launch, true, groups.collect())]
}

fn grid(launch: &Launch, shared: bool, rows: Vec<Vec<LaunchRow>>) -> Grid {
    let most = rows.iter().map(|members| members.iter().map(|row| pairs(launch, row)).sum()).max();
    Grid { shared, rows, tiles: most.unwrap_or(0u64).div_ceil(u64::from(launch.schedule.pair_tile)) }
}

fn pairs(launch: &Launch, row: &LaunchRow) -> u64 {
    u64::from(row.q_len) * u64::from(launch.schedule.heads_per_group)
}

impl Grid {
    /// The smallest range with all keys that a tile's pairs see; [`None`] if they see nothing.
    pub(super) fn keys(&self, launch: &Launch, y: usize, tile: u64) -> Option<Range<u64>> {
        let pair_tile = u64::from(launch.schedule.pair_tile);
        let wanted = tile * pair_tile..(tile + 1) * pair_tile;
        let mut first = 0;
        let mut seen: Option<Range<u64>> = None;
        for row in &self.rows[y] {
            let end = first + pairs(launch, row);
            for pair in wanted.start.max(first)..wanted.end.min(end) {
                let token = (pair - first) / u64::from(launch.schedule.heads_per_group);
                let keys = visible(launch, row, token as u32);
                if !keys.is_empty() {
                    seen = Some(seen.map_or(keys.clone(), |s| s.start.min(keys.start)..s.end.max(keys.end)));
                }
            }
            first = end;
        }
        seen
    }
}

/// Keys that query token `i` of a row sees.
fn visible(launch: &Launch, row: &LaunchRow, i: u32) -> Range<u64> {
    let attention = &launch.attention;
    let len = i64::from(row.len);
    let position = match attention.causal {
        CausalKind::TopLeft => i64::from(i),
        CausalKind::BottomRight | CausalKind::None => len - i64::from(row.q_len) + i64::from(i),
    };
    let mut end = len;
    if attention.causal != CausalKind::None {
        end = end.min(position + 1);
    }
    if attention.right != UNLIMITED {
        end = end.min(position + i64::from(attention.right) + 1);
    }
    let start = if attention.left == UNLIMITED { 0 } else { position - i64::from(attention.left) };
    start.max(0) as u64..end.max(0) as u64
}
