//! Small batches whose words are written by hand.

use super::*;
use crate::span::{NONE, RESERVED, SEALED, Sharing, stamp};

/// A of 6 tokens, Z of none, C of 4: blocks 0 1, none, 2.
fn three_rows(kind: LayoutKind) -> Tables {
    let mut m = manager(kind, 16, None);
    m.prefill("A", &tok(1, 6), 0).unwrap();
    m.prefill("Z", &[], 0).unwrap();
    m.prefill("C", &tok(2, 4), 0).unwrap();
    lowered(&m, &["A", "Z", "C"], UNLIMITED).unwrap()
}

#[test]
fn classic_pads_rows_to_the_longest() {
    let tables = three_rows(LayoutKind::ClassicPaged);
    let none = u32::MAX;
    let words = [vec![0, 1, 2, 3], vec![0, 1, none, none, 2, none], vec![6, 0, 4], vec![1, 1, 1]].concat();
    assert_eq!(tables.words, words);
    let names: Vec<Table> = tables.parts.iter().map(|(t, _)| *t).collect();
    assert_eq!(names, [Table::CuQ, Table::BlockTable, Table::SeqLens, Table::MergeMask]);
    assert_eq!((tables.at(Table::SeqLens), tables.at(Table::Tail)), (10, 0));
    assert_eq!((tables.merge_mask.clone(), tables.groups, tables.levels), (13..16, 0, 0));
}

#[test]
fn packed_says_b_at_exact_multiples_and_0_without_blocks() {
    let tables = three_rows(LayoutKind::PackedBlockTable);
    assert_eq!(tables.get(Table::Indptr), [0, 2, 2, 3]);
    assert_eq!(tables.get(Table::Indices), [0, 1, 2]);
    assert_eq!(tables.get(Table::LastLen), [2, 0, 4]);
}

#[test]
fn hot_tail_splits_rows_at_the_start_of_their_extent() {
    let tables = three_rows(LayoutKind::HotTailContiguous);
    assert_eq!(tables.get(Table::Indptr), [0, 1, 1, 2]);
    assert_eq!(tables.get(Table::Indices), [0, 2]);
    assert_eq!(tables.get(Table::LastLen), [4, 0, 4]);
    let token_scale = 4 << 8;
    let tail = Sharing::Tail as u32 | token_scale;
    assert_eq!(tables.get(Table::Tail), [4, 4, 2, tail, 0, 0, 0, tail, 0, 4, 0, tail]);
}

#[test]
fn hot_tail_grows_without_moving_and_shows_no_reserve() {
    let mut m = manager(LayoutKind::HotTailContiguous, 16, None);
    m.prefill("A", &tok(1, 6), 0).unwrap();
    for token in tok(2, 3) {
        m.append("A", token).unwrap();
    }
    let tables = lowered(&m, &["A"], UNLIMITED).unwrap();
    let flags = Sharing::Tail as u32 | 4 << 8 | RESERVED;
    assert_eq!(tables.get(Table::Indices), [0]);
    assert_eq!(tables.get(Table::Tail), [4, 4, 5, flags]);
    assert!(m.row("A").unwrap().blocks.len() > 3, "there is growth room that the table must not show");
}

#[test]
fn virtual_records_are_maximal_runs_of_equal_flags() {
    let mut m = manager(LayoutKind::VirtualContiguous, 16, None);
    m.prefill("A", &tok(1, 10), 0).unwrap();
    let tables = lowered(&m, &["A"], 7).unwrap();
    assert_eq!(tables.get(Table::SeqDesc), [0, 2, 10, 0, 1, 8, NONE, 0]);
    let flags = 4 << 8;
    let check = stamp(1, 0) ^ stamp(1, 1);
    let sealed = [0, 8, 0, Sharing::CachedRo as u32 | SEALED | flags, 0, 0, NONE, check];
    let tail = [8, 2, 8, Sharing::Tail as u32 | flags, 8, 0, NONE, stamp(1, 2)];
    assert_eq!(tables.get(Table::Spans), [sealed, tail].concat());
}

#[test]
fn scale_rows_of_a_record_are_blocks_or_slots() {
    let mut m = manager(LayoutKind::VirtualContiguous, 16, None);
    m.prefill("X", &tok(1, 4), 0).unwrap();
    m.prefill("A", &tok(2, 6), 0).unwrap();
    let rows = [RowQuery { name: "A", q_len: 1 }];
    let of = |scale| {
        let tables =
            lower(&m, &rows, &attention(UNLIMITED), (scale, Granularity::None), Elem::E4m3fn).unwrap();
        private(&tables, 0).iter().map(|s| (s.scale_index, s.scale_stride_log2)).collect::<Vec<_>>()
    };
    assert_eq!(of(Granularity::Head), [(0, 31), (0, 31)]);
    assert_eq!(of(Granularity::Block), [(1, 2), (2, 2)]);
    assert_eq!(of(Granularity::Token), [(4, 0), (8, 0)]);
}

#[test]
fn several_queries_fill_cu_q_and_the_merge_mask() {
    let mut m = manager(LayoutKind::PackedBlockTable, 16, None);
    m.prefill("A", &tok(1, 6), 0).unwrap();
    m.prefill("B", &tok(2, 3), 0).unwrap();
    let rows = [RowQuery { name: "A", q_len: 3 }, RowQuery { name: "B", q_len: 2 }];
    let tables =
        lower(&m, &rows, &attention(UNLIMITED), (Granularity::None, Granularity::None), Elem::F32).unwrap();
    assert_eq!(tables.get(Table::CuQ), [0, 3, 5]);
    assert_eq!(tables.get(Table::MergeMask), [1; 5]);
}

#[test]
fn bad_batches_are_refused() {
    let mut m = manager(LayoutKind::ClassicPaged, 16, None);
    m.prefill("A", &tok(1, 6), 0).unwrap();
    assert_eq!(lowered(&m, &["A", "B"], 0), Err(LowerError::UnknownRow("B".to_owned())));
    let rows = [RowQuery { name: "A", q_len: u32::MAX }, RowQuery { name: "A", q_len: 1 }];
    let none = (Granularity::None, Granularity::None);
    assert_eq!(lower(&m, &rows, &attention(0), none, Elem::F32), Err(LowerError::TooManyQueries));
}
