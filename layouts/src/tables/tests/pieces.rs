//! Where kernels break a row's keys into pieces.

use super::*;
use crate::tables::pieces;

fn of(kind: LayoutKind, tables: &Tables, row: usize) -> Vec<(u32, u32)> {
    pieces(kind, tables, row).iter().map(|piece| (piece.start, piece.part)).collect()
}

#[test]
fn each_layout_has_its_own() {
    let starts = |kind| {
        let mut m = manager(kind, 64, None);
        m.prefill("A", &tok(1, 18), 0).unwrap();
        m.prefill("B", &[tok(1, 9), tok(2, 7)].concat(), 0).unwrap();
        m.append("A", 5).unwrap();
        let tables = lowered(&m, &["A", "B"], UNLIMITED).unwrap();
        (of(kind, &tables, 0), of(kind, &tables, 1), of(kind, &tables, 2), tables)
    };
    for kind in [LayoutKind::ClassicPaged, LayoutKind::PackedBlockTable] {
        let (a, b, none, _) = starts(kind);
        assert_eq!((a, b, none), (vec![(0, 0)], vec![(0, 0)], vec![(0, 0)]));
    }
    let (a, b, _, tables) = starts(LayoutKind::HotTailContiguous);
    let hot = |row: usize| tables.get(Table::Tail)[row * 4 + 1];
    assert!(hot(0) > 0 && hot(1) > 0, "both rows have blocks before their tail");
    assert_eq!((a, b), (vec![(0, 0), (hot(0), 0)], vec![(0, 0), (hot(1), 0)]));
    let (a, b, _, tables) = starts(LayoutKind::VirtualContiguous);
    let records = |row| private(&tables, row).iter().map(|span| (span.logical_start, 0)).collect::<Vec<_>>();
    assert!(records(0).len() > 1, "a shared block and a private one are two records");
    assert_eq!((a, b), (records(0), records(1)));
    let (a, b, none, _) = starts(LayoutKind::HybridPrefixShared);
    assert_eq!((a[0], b[0]), ((0, 1), (0, 1)), "two shared blocks");
    assert_eq!((a[1], b[1]), ((8, 0), (8, 0)), "and the row's own");
    assert_eq!(none, [(0, 0)], "no such row");
}

#[test]
fn parts_are_the_bits_of_the_merge_mask() {
    let (s, d) = (tok(1, 8), tok(2, 8));
    let mut m = manager(LayoutKind::HybridPrefixShared, 256, None);
    for (name, tokens) in [
        ("A", [s.clone(), d.clone(), tok(3, 3)].concat()),
        ("B", [s.clone(), tok(5, 6)].concat()),
        ("C", [s, d, tok(6, 5)].concat()),
    ] {
        m.prefill(name, &tokens, 0).unwrap();
    }
    let tables = lowered(&m, &["A", "B", "C"], UNLIMITED).unwrap();
    for (row, mask) in tables.get(Table::MergeMask).iter().enumerate() {
        let parts = pieces(m.kind(), &tables, row).iter().fold(0, |mask, piece| mask | 1 << piece.part);
        assert_eq!(parts, *mask, "row {row}");
    }
    assert_eq!(of(m.kind(), &tables, 0)[..3], [(0, 1), (8, 2), (16, 0)]);
}
