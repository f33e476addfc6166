//! Where the stretches begin that a kernel reads without a break: an online softmax takes no tile across these places.

use super::{Table, Tables};
use crate::kind::LayoutKind;
use crate::span::{GroupDesc, SeqDesc, SpanRec};

/// One stretch of a row's keys; it ends where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// Position of its first key.
    pub start: u32,
    /// Which partial result its keys go to: bit of [`Table::MergeMask`], 0 = the row's own.
    pub part: u32,
}

/// The pieces of one row of the batch, by position: the tail and what lies before it, or the span records of the row and
/// of its groups. One piece where a layout has nothing but block entries.
pub fn pieces(kind: LayoutKind, tables: &Tables, row: usize) -> Vec<Piece> {
    let mut pieces = match kind {
        LayoutKind::ClassicPaged | LayoutKind::PackedBlockTable => Vec::new(),
        LayoutKind::HotTailContiguous => {
            let tail = tables.get(Table::Tail).get(row * 4 + 1);
            [0].iter().chain(tail).map(|&start| Piece { start, part: 0 }).collect()
        }
        LayoutKind::VirtualContiguous | LayoutKind::HybridPrefixShared => spans(tables, row),
    };
    if pieces.is_empty() {
        pieces.push(Piece { start: 0, part: 0 });
    }
    pieces.sort_unstable();
    pieces.dedup();
    pieces
}

/// The span records of a row and of the groups it is a member of.
fn spans(tables: &Tables, row: usize) -> Vec<Piece> {
    let all: Vec<SpanRec> = records(tables, Table::Spans);
    let rows: Vec<SeqDesc> = records(tables, Table::SeqDesc);
    let groups: Vec<GroupDesc> = records(tables, Table::Groups);
    let members = tables.get(Table::Members);
    let is_member = |group: &&GroupDesc| {
        let of_group = members.iter().skip(group.member_begin as usize).take(group.member_count as usize);
        of_group.into_iter().any(|&member| member as usize == row)
    };
    let own = rows.get(row).map(|row| (row.span_begin, row.span_count, 0));
    let shared = groups.iter().filter(is_member).map(|g| (g.span_begin, g.span_count, 1 + g.level));
    let runs = own.into_iter().chain(shared);
    runs.flat_map(|(begin, count, part)| {
        let spans = all.iter().skip(begin as usize).take(count as usize);
        spans.map(move |span| Piece { start: span.logical_start, part })
    })
    .collect()
}

/// A table as records of whole words.
fn records<T: bytemuck::Pod>(tables: &Tables, table: Table) -> Vec<T> {
    let words = tables.get(table).chunks_exact(size_of::<T>() / 4);
    words.map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words))).collect()
}
