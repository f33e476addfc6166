//! One kernel run in logical terms: what to compute, where the bytes lie and how the work is split. A kernel turns it
//! into uniforms, [`crate::traffic`] predicts its reads from it.

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;

use crate::kind::LayoutKind;
use crate::manager::Manager;
use crate::pack::{Geometry, Store};
use crate::tables::{LowerError, RowQuery, Tables, lower};

/// "Unlimited" in [`Attention::left`] and [`Attention::right`].
pub const UNLIMITED: u32 = u32::MAX;

/// Query rows of one workgroup at most, and elements of its accumulators (rows x head dim) at most.
const MAX_PAIR_TILE: u32 = 16;
const MAX_TILE_ELEMENTS: u32 = 1024;

/// Keys of one split unless forced: the partition of vLLM's paged kernel, and the shorter one of the kernels that serve
/// a whole head group per workgroup.
const CLASSIC_SPLIT: u32 = 512;
const GROUPED_SPLIT: u32 = 256;

/// Everything a kernel needs for one batch, except the bytes of Q, K, V, scales and other parameters.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Layout of pools and tables.
    pub kind: LayoutKind,
    /// Format of K and V elements.
    pub elem: Elem,
    /// Query heads.
    pub q_heads: u32,
    /// KV heads; divides `q_heads`.
    pub kv_heads: u32,
    /// Dims of a query and of a key.
    pub d: u32,
    /// Dims of a value.
    pub dv: u32,
    /// Tokens per block, a power of two.
    pub block_size: u32,
    /// Blocks in the pools.
    pub blocks: u32,
    /// Where elements lie in the pools.
    pub addressing: Addressing,
    /// What is computed.
    pub attention: Attention,
    /// What shares one K scale.
    pub k_scale: Granularity,
    /// What shares one V scale.
    pub v_scale: Granularity,
    /// How the work is split over workgroups.
    pub schedule: Schedule,
    /// The tables of the layout.
    pub tables: Tables,
    /// The batch, in order.
    pub rows: Vec<LaunchRow>,
    /// Query tokens of the batch.
    pub q_tokens: u32,
}

/// One row of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchRow {
    /// Keys.
    pub len: u32,
    /// Query tokens.
    pub q_len: u32,
    /// First query token in the batch.
    pub q_begin: u32,
}

/// Element strides of the pools. Slot-major layouts: `base + slot * k_slot + head * k_head + dim`. Classic:
/// `base + block * k_block + head * k_head` plus the place in `K[D/x][B][x]` or `V[Dv][B]`, x = 16 bytes of elements.
/// Strides that a layout does not use are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addressing {
    /// K elements before slot 0 (the front guard).
    pub k_base: u32,
    /// V elements before slot 0.
    pub v_base: u32,
    /// K elements from slot to slot (slot-major).
    pub k_slot: u32,
    /// V elements from slot to slot (slot-major).
    pub v_slot: u32,
    /// K elements from KV head to KV head.
    pub k_head: u32,
    /// V elements from KV head to KV head.
    pub v_head: u32,
    /// K elements from block to block (classic).
    pub k_block: u32,
    /// V elements from block to block (classic).
    pub v_block: u32,
}

/// How query positions align with keys under the causal mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CausalKind {
    /// The last query sees the last key: position of query token i = len - `q_len` + i.
    BottomRight,
    /// The first query sees the first key only: position of query token i = i.
    TopLeft,
    /// Not causal; positions as bottom-right.
    None,
}

/// The attention function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Factor of q . k.
    pub scale: f32,
    /// Causal mask.
    pub causal: CausalKind,
    /// Keys visible to the left of the query's position, excluding its own; [`UNLIMITED`] = all.
    pub left: u32,
    /// Keys visible to the right, excluding its own; [`UNLIMITED`] = all that the causal mask allows.
    pub right: u32,
    /// Cap c of c * tanh(x / c), 0 = none.
    pub softcap: f32,
    /// Whether the `ALiBi` bias is added before the cap instead of after it.
    pub alibi_then_cap: bool,
    /// Whether there is an `ALiBi` bias.
    pub alibi: bool,
    /// Whether there are sinks.
    pub sinks: bool,
}

impl Attention {
    /// Position of the first query token of a row; negative if the row has more queries than keys.
    pub fn first_position(&self, len: u32, q_len: u32) -> i64 {
        if self.causal == CausalKind::TopLeft { 0 } else { i64::from(len) - i64::from(q_len) }
    }

    /// First key that a query at `position` may see.
    pub fn first_key(&self, position: i64) -> u32 {
        if self.left == UNLIMITED { 0 } else { (position - i64::from(self.left)).max(0) as u32 }
    }
}

/// How a run is split over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Query heads that a workgroup serves: 1 in the classic layout, the group size otherwise.
    pub heads_per_group: u32,
    /// (query token, head) pairs of one workgroup: at most 16, and at most 1024 accumulated elements.
    pub pair_tile: u32,
    /// Keys of one split, a multiple of the block size.
    pub split_tokens: u32,
    /// Splits.
    pub splits: u32,
    /// Whether whole blocks are read (classic) or single keys.
    pub whole_blocks: bool,
}

/// How the keys are split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// At the layout's own length.
    #[default]
    Own,
    /// Into so many splits, evenly up to whole blocks; 0 counts as 1.
    Count(u32),
    /// After so many keys, rounded up to whole blocks; 0 counts as 1.
    Tokens(u32),
}

impl Schedule {
    /// The schedule of a batch whose longest row has `max_len` keys. `group` = query heads per KV head.
    pub fn new(geometry: &Geometry, group: u32, max_len: u32, split: Split) -> Self {
        let classic = geometry.kind == LayoutKind::ClassicPaged;
        let block = geometry.block_size.max(1);
        let (tokens, splits) = match split {
            Split::Own => (if classic { CLASSIC_SPLIT } else { GROUPED_SPLIT }, None),
            Split::Count(n) => (max_len.div_ceil(n.max(1)).max(1), Some(n.max(1))),
            Split::Tokens(tokens) => (tokens.max(1), None),
        };
        let split_tokens = tokens.div_ceil(block).saturating_mul(block);
        let widest = geometry.d.max(geometry.dv).max(1);
        Self {
            heads_per_group: if classic { 1 } else { group },
            pair_tile: (MAX_TILE_ELEMENTS / widest).clamp(1, MAX_PAIR_TILE),
            split_tokens,
            splits: splits.unwrap_or_else(|| max_len.div_ceil(split_tokens).max(1)),
            whole_blocks: classic,
        }
    }
}

impl Launch {
    /// The run of `rows` (in that order) over the manager's present state and the store that followed it.
    ///
    /// # Errors
    /// [`LowerError`]: an unknown row, heads that do not divide, a store of another pool, or too many query tokens or
    /// group levels.
    pub fn build(
        manager: &Manager,
        store: &Store,
        q_heads: u32,
        rows: &[RowQuery<'_>],
        attention: Attention,
        split: Split,
    ) -> Result<Self, LowerError> {
        let geometry = store.geometry();
        let config = manager.config();
        if (geometry.kind, geometry.block_size, geometry.blocks)
            != (manager.kind(), config.block_size, config.blocks)
        {
            return Err(LowerError::OtherPool);
        }
        if q_heads == 0 || !q_heads.is_multiple_of(geometry.kv_heads) {
            return Err(LowerError::Heads { q_heads, kv_heads: geometry.kv_heads });
        }
        let scales = (geometry.k_scale, geometry.v_scale);
        let tables = lower(manager, rows, &attention, scales, geometry.elem)?;
        let rows = launch_rows(manager, rows)?;
        let max_len = rows.iter().map(|row| row.len).max().unwrap_or(0);
        Ok(Self {
            kind: geometry.kind,
            elem: geometry.elem,
            q_heads,
            kv_heads: geometry.kv_heads,
            d: geometry.d,
            dv: geometry.dv,
            block_size: geometry.block_size,
            blocks: geometry.blocks,
            addressing: store.addressing(),
            attention,
            k_scale: geometry.k_scale,
            v_scale: geometry.v_scale,
            schedule: Schedule::new(geometry, q_heads / geometry.kv_heads, max_len, split),
            tables,
            q_tokens: rows.last().map_or(0, |row| row.q_begin + row.q_len),
            rows,
        })
    }
}

/// Lengths and query ranges of the batch.
///
/// # Errors
/// [`LowerError::UnknownRow`]; [`LowerError::TooManyQueries`] if the query tokens do not fit u32.
pub fn launch_rows(manager: &Manager, rows: &[RowQuery<'_>]) -> Result<Vec<LaunchRow>, LowerError> {
    let mut q_begin = 0u32;
    rows.iter()
        .map(|row| {
            let view = manager.row(row.name).ok_or_else(|| LowerError::UnknownRow(row.name.to_owned()))?;
            let here = LaunchRow { len: view.len, q_len: row.q_len, q_begin };
            q_begin = q_begin.checked_add(row.q_len).ok_or(LowerError::TooManyQueries)?;
            Ok(here)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::PoolConfig;

    fn geometry(kind: LayoutKind, d: u32, dv: u32) -> Geometry {
        let none = Granularity::None;
        let (elem, kv_heads, block_size, blocks) = (Elem::F32, 2, 16, 8);
        Geometry {
            kind,
            elem,
            kv_heads,
            d,
            dv,
            block_size,
            blocks,
            slot_pad: 0,
            k_scale: none,
            v_scale: none,
        }
    }

    fn attention() -> Attention {
        Attention {
            scale: 0.125,
            causal: CausalKind::BottomRight,
            left: UNLIMITED,
            right: UNLIMITED,
            softcap: 0.0,
            alibi_then_cap: false,
            alibi: false,
            sinks: false,
        }
    }

    #[test]
    fn schedules_follow_layout_and_head_dim() {
        let classic = Schedule::new(&geometry(LayoutKind::ClassicPaged, 64, 64), 4, 1021, Split::Own);
        assert_eq!((classic.heads_per_group, classic.pair_tile, classic.whole_blocks), (1, 16, true));
        assert_eq!((classic.split_tokens, classic.splits), (512, 2));
        let packed = Schedule::new(&geometry(LayoutKind::PackedBlockTable, 80, 256), 4, 1021, Split::Own);
        assert_eq!((packed.heads_per_group, packed.pair_tile, packed.whole_blocks), (4, 4, false));
        assert_eq!((packed.split_tokens, packed.splits), (256, 4));
        let huge = Schedule::new(&geometry(LayoutKind::PackedBlockTable, 2048, 64), 1, 0, Split::Own);
        assert_eq!((huge.pair_tile, huge.splits), (1, 1));
    }

    #[test]
    fn forced_splits_are_whole_blocks() {
        let g = geometry(LayoutKind::ClassicPaged, 64, 64);
        let of = |len, n| {
            let schedule = Schedule::new(&g, 1, len, Split::Count(n));
            (schedule.split_tokens, schedule.splits)
        };
        assert_eq!(of(1, 4), (16, 4));
        assert_eq!(of(0, 4), (16, 4));
        assert_eq!(of(100, 3), (48, 3));
        assert_eq!(of(100, 0), (112, 1));
        let short = Schedule::new(&g, 1, 100, Split::Tokens(20));
        assert_eq!((short.split_tokens, short.splits), (32, 4));
    }

    #[test]
    fn windows_and_alignments_give_positions() {
        let bottom_right = attention();
        assert_eq!((bottom_right.first_position(5, 2), bottom_right.first_position(1, 3)), (3, -2));
        let top_left = Attention { causal: CausalKind::TopLeft, left: 4, ..attention() };
        assert_eq!(top_left.first_position(5, 2), 0);
        assert_eq!([-2, 3, 4, 9].map(|p| top_left.first_key(p)), [0, 0, 0, 5]);
        assert_eq!(bottom_right.first_key(9), 0);
    }

    #[test]
    fn a_launch_is_built_from_one_pool() {
        let config = |blocks| PoolConfig {
            blocks,
            block_size: 16,
            first_block: 0,
            window: None,
            release: false,
            extent_tokens: 64,
        };
        let kind = LayoutKind::HotTailContiguous;
        let mut m = Manager::new(kind, config(8)).unwrap();
        m.prefill("A", &[1; 20], 0).unwrap();
        m.prefill("B", &[2; 3], 0).unwrap();
        let store = Store::new(geometry(kind, 64, 64), (&[], &[])).unwrap();
        let rows = [RowQuery { name: "B", q_len: 2 }, RowQuery { name: "A", q_len: 1 }];
        let launch = Launch::build(&m, &store, 4, &rows, attention(), Split::Own).unwrap();
        let want = [LaunchRow { len: 3, q_len: 2, q_begin: 0 }, LaunchRow { len: 20, q_len: 1, q_begin: 2 }];
        assert_eq!((&launch.rows[..], launch.q_tokens), (&want[..], 3));
        assert_eq!(launch.schedule.heads_per_group, 2);
        assert_eq!(launch.addressing, store.addressing());

        let error =
            |m: &Manager, q_heads| Launch::build(m, &store, q_heads, &rows, attention(), Split::Own).err();
        let heads = |q_heads| Some(LowerError::Heads { q_heads, kv_heads: 2 });
        assert_eq!((error(&m, 3), error(&m, 0)), (heads(3), heads(0)));
        let other = Manager::new(kind, config(9)).unwrap();
        assert_eq!(error(&other, 4), Some(LowerError::OtherPool));
        let empty = Manager::new(kind, config(8)).unwrap();
        assert_eq!(error(&empty, 4), Some(LowerError::UnknownRow("B".to_owned())));
    }
}
