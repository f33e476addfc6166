//! Lowering against hand-written words, and round trips: what a kernel resolves from the words alone is what the
//! manager meant.

mod groups;
mod pieces;
mod round_trip;
mod words;

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;

use super::{LowerError, RowQuery, Table, Tables, lower};
use crate::kind::LayoutKind;
use crate::launch::{Attention, CausalKind, UNLIMITED};
use crate::manager::{Manager, PoolConfig};
use crate::span::{GroupDesc, SeqDesc, SpanRec};

/// Block size of all managers here.
pub(crate) const B: u32 = 4;

fn manager(kind: LayoutKind, blocks: u32, window: Option<u32>) -> Manager {
    let release = window.is_some();
    let config = PoolConfig { blocks, block_size: B, first_block: 0, window, release, extent_tokens: 2 * B };
    Manager::new(kind, config).unwrap()
}

fn tok(stream: u64, count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| stream * 1000 + i).collect()
}

pub(crate) fn attention(left: u32) -> Attention {
    Attention {
        scale: 1.0,
        causal: CausalKind::BottomRight,
        left,
        right: 0,
        softcap: 0.0,
        alibi_then_cap: false,
        alibi: false,
        sinks: false,
    }
}

fn lowered(m: &Manager, names: &[&str], left: u32) -> Result<Tables, LowerError> {
    let rows: Vec<RowQuery<'_>> = names.iter().map(|&name| RowQuery { name, q_len: 1 }).collect();
    lower(m, &rows, &attention(left), (Granularity::Token, Granularity::None), Elem::F32)
}

pub(crate) fn records<T: bytemuck::Pod>(tables: &Tables, table: Table) -> Vec<T> {
    let words = size_of::<T>() / 4;
    tables
        .get(table)
        .chunks_exact(words)
        .map(|w| bytemuck::pod_read_unaligned(bytemuck::cast_slice(w)))
        .collect()
}

fn spans(tables: &Tables, begin: u32, count: u32) -> Vec<SpanRec> {
    records(tables, Table::Spans)[begin as usize..(begin + count) as usize].to_vec()
}

/// The private records of a row.
fn private(tables: &Tables, row: usize) -> Vec<SpanRec> {
    let desc: SeqDesc = records(tables, Table::SeqDesc)[row];
    spans(tables, desc.span_begin, desc.span_count)
}

/// Groups with their members.
pub(crate) fn groups(tables: &Tables) -> Vec<(GroupDesc, Vec<u32>)> {
    let members = tables.get(Table::Members);
    let with_members = |g: GroupDesc| {
        let begin = g.member_begin as usize;
        (g, members[begin..begin + g.member_count as usize].to_vec())
    };
    records(tables, Table::Groups).into_iter().map(with_members).collect()
}

/// Parts of a row's result: its merge mask, if it has one level per group that it is a member of.
pub(crate) fn mask_from_groups(tables: &Tables, row: u32) -> Option<u32> {
    groups(tables).iter().filter(|(_, members)| members.contains(&row)).try_fold(1, |mask, (group, _)| {
        let bit = 2 << group.level;
        (mask & bit == 0).then_some(mask | bit)
    })
}

/// Every slot at which a kernel finds the key `position` of a row, from the words alone.
pub(crate) fn resolve(kind: LayoutKind, tables: &Tables, row: usize, position: u32) -> Vec<u32> {
    let block_slot = |entry: u32| (entry != u32::MAX).then(|| entry * B + position % B);
    let packed = |len: u32| -> Option<u32> {
        let first = tables.get(Table::Indptr)[row];
        let entry = tables.get(Table::Indices).get((first + position / B) as usize);
        if position < len { block_slot(*entry?) } else { None }
    };
    match kind {
        LayoutKind::ClassicPaged => {
            let rows = tables.get(Table::SeqLens).len();
            let table = tables.get(Table::BlockTable);
            let entry = table.get(row * (table.len() / rows) + (position / B) as usize);
            let slot = entry.and_then(|&entry| block_slot(entry));
            slot.filter(|_| position < tables.get(Table::SeqLens)[row]).into_iter().collect()
        }
        LayoutKind::PackedBlockTable => {
            let indptr = tables.get(Table::Indptr);
            let blocks = indptr[row + 1] - indptr[row];
            let len = if blocks == 0 { 0 } else { (blocks - 1) * B + tables.get(Table::LastLen)[row] };
            packed(len).into_iter().collect()
        }
        LayoutKind::HotTailContiguous => {
            let [slot, start, len] = [0, 1, 2].map(|word| tables.get(Table::Tail)[row * 4 + word]);
            let hot = (start..start + len).contains(&position).then(|| slot + position - start);
            if position < start { packed(start) } else { hot }.into_iter().collect()
        }
        LayoutKind::VirtualContiguous | LayoutKind::HybridPrefixShared => {
            let mut all = private(tables, row);
            for (group, members) in groups(tables) {
                if members.contains(&(row as u32)) {
                    all.extend(spans(tables, group.span_begin, group.span_count));
                }
            }
            let hit = |s: &&SpanRec| (s.logical_start..s.logical_start + s.length).contains(&position);
            all.iter().filter(hit).map(|s| s.phys_slot + position - s.logical_start).collect()
        }
    }
}
