//! What a kernel receives, word for word: the uniforms of `wgsl/params.wgsl`, the storage bindings and the guarded
//! outputs. One [`Problem`] is one `check` of a case in one layout, ready to run on any kernel.

use std::ops::Range;

use attnproof_layouts::launch::{CausalKind, Launch};
use attnproof_layouts::pack::Pools;
use attnproof_layouts::tables::Table;

use crate::dispatch::RunError;

/// Bit pattern that fills outputs and partial results before a run: a NaN payload that no kernel computes.
pub const UNWRITTEN: u32 = 0x7FC0_A77B;

/// Words of [`UNWRITTEN`] before, between and after the output tensors.
pub const GUARD_WORDS: u32 = 64;

/// Storage bindings, in binding order from 1.
pub const STORAGE_BINDINGS: usize = 8;

/// "Unlimited" in [`Params::left`] and [`Params::right`]: more than any position, and an `i32`.
pub(crate) const FAR: u32 = 1 << 30;

pub(crate) const FLAG_CAUSAL: u32 = 1;
pub(crate) const FLAG_TOP_LEFT: u32 = 2;
pub(crate) const FLAG_ALIBI: u32 = 4;
pub(crate) const FLAG_ALIBI_THEN_CAP: u32 = 8;
pub(crate) const FLAG_SINKS: u32 = 16;

/// The uniforms, field by field as `wgsl/params.wgsl` documents them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs)]
pub struct Params {
    pub q_heads: u32,
    pub kv_heads: u32,
    pub group: u32,
    pub heads_per_unit: u32,
    pub d: u32,
    pub dv: u32,
    pub block_size: u32,
    pub pair_tile: u32,
    pub k_base: u32,
    pub k_slot: u32,
    pub k_head: u32,
    pub k_block: u32,
    pub v_base: u32,
    pub v_slot: u32,
    pub v_head: u32,
    pub v_block: u32,
    pub scale: f32,
    pub softcap: f32,
    pub flags: u32,
    pub phase: u32,
    pub left: u32,
    pub right: u32,
    pub split_tokens: u32,
    pub splits: u32,
    pub k_scale: u32,
    pub v_scale: u32,
    pub k_scales_at: u32,
    pub v_scales_at: u32,
    pub slopes_at: u32,
    pub sinks_at: u32,
    pub cu_q_at: u32,
    pub rows_at: u32,
    pub indptr_at: u32,
    pub entries_at: u32,
    pub entries_stride: u32,
    pub groups_at: u32,
    pub members_at: u32,
    pub merge_mask_at: u32,
    pub q_tokens: u32,
    pub o_at: u32,
    pub lse_at: u32,
    pub probe_k_at: u32,
    pub probe_v_at: u32,
    pub probe_tables_at: u32,
    pub probe_side_at: u32,
    pub rows: u32,
    pub longest: u32,
    pub run: u32,
}

impl Params {
    /// Where the partial result of `q_row` in `part` begins: a flag, an LSE and dv elements.
    pub(crate) fn partial_at(&self, part: u32, q_row: u32) -> usize {
        ((part * self.q_tokens * self.q_heads + q_row) * (self.dv + 2)) as usize
    }
}

/// The words of a `f32` slice.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// One attention dispatch: its uniforms and its grid.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// Uniforms.
    pub params: Params,
    /// Workgroups: (head units x pair tiles, rows or groups, splits).
    pub grid: [u32; 3],
}

/// Inputs of one kernel run over one batch, and the shape of its outputs.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The run in logical terms.
    pub launch: Launch,
    /// Queries `[query token, query head, d]`, f32 bits.
    pub q: Vec<u32>,
    /// ALiBi slopes, sinks; f32 bits.
    parameters: Vec<u32>,
    k_scales: u32,
    v_scales: u32,
    slopes: u32,
    pool_words: (u32, u32),
}

impl Problem {
    /// A run of `launch`. `pools` gives the scale tables and the size of the pools; the pools themselves are passed to
    /// the kernels run by run, since only their poison changes. `slopes` and `sinks` have one entry per query head, or
    /// none.
    pub fn new(launch: Launch, q: &[f32], pools: &Pools, slopes: &[f32], sinks: &[f32]) -> Self {
        Self {
            launch,
            q: bits(q),
            parameters: [bits(slopes), bits(sinks)].concat(),
            k_scales: pools.k_scales.len() as u32,
            v_scales: pools.v_scales.len() as u32,
            slopes: slopes.len() as u32,
            pool_words: (pools.k.len() as u32, pools.v.len() as u32),
        }
    }

    /// The `side` binding: scales of K and of V as in `pools`, then slopes and sinks.
    pub fn side(&self, pools: &Pools) -> Vec<u32> {
        let mut side = bits(&pools.k_scales);
        side.extend(bits(&pools.v_scales));
        side.extend_from_slice(&self.parameters);
        side
    }

    /// Rows of the output: query tokens x query heads.
    pub fn q_rows(&self) -> u32 {
        self.launch.q_tokens * self.launch.q_heads
    }

    /// Words of the output buffer: guard, o `[query token, query head, dv]`, guard, lse `[query token, query head]`, guard.
    pub fn output_words(&self) -> u32 {
        3 * GUARD_WORDS + self.q_rows() * (self.launch.dv + 1)
    }

    /// Where o lies in the output buffer.
    pub fn o_range(&self) -> Range<usize> {
        let at = GUARD_WORDS as usize;
        at..at + (self.q_rows() * self.launch.dv) as usize
    }

    /// Where lse lies in the output buffer.
    pub fn lse_range(&self) -> Range<usize> {
        let at = self.o_range().end + GUARD_WORDS as usize;
        at..at + self.q_rows() as usize
    }

    /// Parts a query row may have: its own splits and, per level of shared groups, theirs.
    pub fn parts(&self) -> u32 {
        self.launch.schedule.splits * (1 + self.launch.tables.levels)
    }

    /// Refuses a batch whose partial results or outputs could not be addressed in 32 bits.
    ///
    /// # Errors
    /// [`RunError::Limit`].
    pub fn check_size(&self) -> Result<(), RunError> {
        let launch = &self.launch;
        let rows = u64::from(launch.q_tokens) * u64::from(launch.q_heads);
        let parts = u64::from(launch.schedule.splits) * (1 + u64::from(launch.tables.levels));
        let need = rows.saturating_mul(parts.saturating_mul(u64::from(launch.dv) + 2));
        let allowed = u64::from(u32::MAX) / 4;
        let what = "words of partial results";
        if need > allowed { Err(RunError::Limit { what, need, allowed }) } else { Ok(()) }
    }

    /// Words of the buffer of partial results: per part and query row a flag, an LSE and dv elements.
    pub fn partial_words(&self) -> u32 {
        (self.parts() * self.q_rows() * (self.launch.dv + 2)).max(1)
    }

    /// Word counts of the bitmaps of the probe: K, V, tables, side.
    pub fn bitmap_words(&self) -> [u32; 4] {
        let side = self.k_scales + self.v_scales + self.parameters.len() as u32;
        [self.pool_words.0, self.pool_words.1, self.launch.tables.words.len() as u32, side]
            .map(|w| w.div_ceil(32))
    }

    /// Words of the probe buffer: four counters, then the four bitmaps.
    pub fn probe_words(&self) -> u32 {
        4 + self.bitmap_words().iter().sum::<u32>()
    }

    /// The attention dispatches in order: the rows, then the groups that share a prefix, if any.
    pub fn phases(&self) -> Vec<Phase> {
        let launch = &self.launch;
        let heads = launch.schedule.heads_per_group;
        let units = launch.q_heads / heads;
        let tiles = |pairs: u32| pairs.div_ceil(launch.schedule.pair_tile);
        let row_pairs = launch.rows.iter().map(|r| r.q_len * heads).max().unwrap_or(0);
        let mut phases = vec![Phase {
            params: self.params(0),
            grid: [units * tiles(row_pairs), launch.rows.len() as u32, launch.schedule.splits],
        }];
        if launch.tables.groups > 0 {
            phases.push(Phase {
                params: self.params(1),
                grid: [
                    units * tiles(self.group_pairs() * heads),
                    launch.tables.groups,
                    launch.schedule.splits,
                ],
            });
        }
        phases
    }

    /// The largest number of query tokens that the members of one group have together.
    fn group_pairs(&self) -> u32 {
        let tables = &self.launch.tables;
        let (groups, members) = (tables.at(Table::Groups) as usize, tables.at(Table::Members) as usize);
        let tokens = |group: u32| -> u32 {
            let at = groups + group as usize * 8;
            let (first, count) = (tables.words[at + 4] as usize, tables.words[at + 5] as usize);
            let rows = &tables.words[members + first..members + first + count];
            rows.iter().map(|&row| self.launch.rows[row as usize].q_len).sum()
        };
        (0..tables.groups).map(tokens).max().unwrap_or(0)
    }

    fn params(&self, phase: u32) -> Params {
        let launch = &self.launch;
        let (tables, a, attention) = (&launch.tables, &launch.addressing, &launch.attention);
        let mut flags = 0;
        for (set, flag) in [
            (attention.causal != CausalKind::None, FLAG_CAUSAL),
            (attention.causal == CausalKind::TopLeft, FLAG_TOP_LEFT),
            (attention.alibi, FLAG_ALIBI),
            (attention.alibi_then_cap, FLAG_ALIBI_THEN_CAP),
            (attention.sinks, FLAG_SINKS),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let first = |names: &[Table]| names.iter().map(|&t| tables.at(t)).find(|&at| at > 0).unwrap_or(0);
        let bitmaps = self.bitmap_words();
        let slopes_at = self.k_scales + self.v_scales;
        let o_at = GUARD_WORDS;
        Params {
            q_heads: launch.q_heads,
            kv_heads: launch.kv_heads,
            group: launch.q_heads / launch.kv_heads,
            heads_per_unit: launch.schedule.heads_per_group,
            d: launch.d,
            dv: launch.dv,
            block_size: launch.block_size,
            pair_tile: launch.schedule.pair_tile,
            k_base: a.k_base,
            k_slot: a.k_slot,
            k_head: a.k_head,
            k_block: a.k_block,
            v_base: a.v_base,
            v_slot: a.v_slot,
            v_head: a.v_head,
            v_block: a.v_block,
            scale: attention.scale,
            softcap: attention.softcap,
            flags,
            phase,
            left: attention.left.min(FAR),
            right: attention.right.min(FAR),
            split_tokens: launch.schedule.split_tokens,
            splits: launch.schedule.splits,
            k_scale: launch.k_scale.code(),
            v_scale: launch.v_scale.code(),
            k_scales_at: 0,
            v_scales_at: self.k_scales,
            slopes_at,
            sinks_at: slopes_at + self.slopes,
            cu_q_at: tables.at(Table::CuQ),
            rows_at: self.rows_at(),
            indptr_at: tables.at(Table::Indptr),
            entries_at: first(&[Table::BlockTable, Table::Indices, Table::Spans]),
            entries_stride: self.block_table_columns(),
            groups_at: tables.at(Table::Groups),
            members_at: tables.at(Table::Members),
            merge_mask_at: tables.merge_mask.start as u32,
            q_tokens: launch.q_tokens,
            o_at,
            lse_at: self.lse_range().start as u32,
            probe_k_at: 4,
            probe_v_at: 4 + bitmaps[0],
            probe_tables_at: 4 + bitmaps[0] + bitmaps[1],
            probe_side_at: 4 + bitmaps[0] + bitmaps[1] + bitmaps[2],
            rows: launch.rows.len() as u32,
            longest: launch.rows.iter().map(|row| row.len).max().unwrap_or(0),
            run: 0,
        }
    }

    fn rows_at(&self) -> u32 {
        use attnproof_layouts::kind::LayoutKind as Kind;
        self.launch.tables.at(match self.launch.kind {
            Kind::ClassicPaged => Table::SeqLens,
            Kind::PackedBlockTable => Table::LastLen,
            Kind::HotTailContiguous => Table::Tail,
            Kind::VirtualContiguous | Kind::HybridPrefixShared => Table::SeqDesc,
        })
    }

    fn block_table_columns(&self) -> u32 {
        let tables = &self.launch.tables;
        let words = tables.parts.iter().find(|(t, _)| *t == Table::BlockTable).map_or(0, |(_, r)| r.len());
        (words / self.launch.rows.len().max(1)) as u32
    }
}
