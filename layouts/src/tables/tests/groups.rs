//! Shared prefixes of the hybrid layout.

use super::*;
use crate::span::{NONE, Sharing};

/// Rows by (name, tokens), prefilled in that order.
fn hybrid(rows: &[(&str, Vec<u64>)]) -> Manager {
    let mut m = manager(LayoutKind::HybridPrefixShared, 256, None);
    for (name, tokens) in rows {
        m.prefill(name, tokens, 0).unwrap();
    }
    m
}

fn shape(tables: &Tables) -> Vec<(u32, u32, u32, u32, Vec<u32>)> {
    groups(tables).into_iter().map(|(g, m)| (g.logical_start, g.length, g.level, g.parent, m)).collect()
}

#[test]
fn nested_prefixes_of_scattered_rows() {
    let (s, d) = (tok(1, 8), tok(2, 8));
    let m = hybrid(&[
        ("A", [s.clone(), d.clone(), tok(3, 3)].concat()),
        ("X", tok(4, 7)),
        ("B", [s.clone(), tok(5, 6)].concat()),
        ("C", [s.clone(), d.clone(), tok(6, 5)].concat()),
        ("Y", tok(7, 9)),
        ("D", [s, d, tok(8, 1)].concat()),
    ]);
    let tables = lowered(&m, &["A", "X", "B", "C", "Y", "D"], UNLIMITED).unwrap();
    assert_eq!(shape(&tables), [(0, 8, 0, NONE, vec![0, 2, 3, 5]), (8, 8, 1, 0, vec![0, 3, 5])]);
    assert_eq!((tables.groups, tables.levels), (2, 2));
    assert_eq!(tables.get(Table::MergeMask), [7, 1, 3, 7, 1, 7]);
    let deepest: Vec<u32> = records::<SeqDesc>(&tables, Table::SeqDesc).iter().map(|d| d.group_id).collect();
    assert_eq!(deepest, [1, NONE, 0, 1, NONE, 1]);
    let private: Vec<u32> = private(&tables, 3).iter().map(|s| s.logical_start).collect();
    assert_eq!(private, [16, 20], "C's own block in full, then its tail");
    for (index, (group, _)) in (0..).zip(groups(&tables)) {
        for span in spans(&tables, group.span_begin, group.span_count) {
            assert_eq!((span.group_id, Sharing::of(span.flags)), (index, Sharing::SharedRo));
        }
    }
}

#[test]
fn a_block_outside_a_members_window_is_private_to_the_others() {
    let s = tok(1, 16);
    let m = hybrid(&[("A", [s.clone(), tok(2, 2)].concat()), ("B", [s, tok(3, 13)].concat())]);
    // First visible keys: A 17 - 15 = 2, B 28 - 15 = 13.
    let tables = lowered(&m, &["A", "B"], 15).unwrap();
    assert_eq!(shape(&tables), [(12, 4, 0, NONE, vec![0, 1])]);
    let starts = |row| private(&tables, row).iter().map(|s| (s.logical_start, s.length)).collect::<Vec<_>>();
    assert_eq!(starts(0), [(0, 12), (16, 2)]);
    assert_eq!(starts(1), [(0, 12), (16, 12), (28, 1)]);
    // The first of several queries decides.
    let rows = [RowQuery { name: "A", q_len: 1 }, RowQuery { name: "B", q_len: 11 }];
    let tables = lower(&m, &rows, &attention(15), (Granularity::None, Granularity::None), Elem::F32).unwrap();
    assert_eq!(shape(&tables), [(0, 16, 0, NONE, vec![0, 1])]);
}

/// Windows can make segments overlap without nesting: a b see block 0, a b m block 1, m c block 2.
#[test]
fn levels_of_one_row_never_collide() {
    let s = tok(1, 12);
    let m = hybrid(&[
        ("m", [s.clone(), tok(2, 2)].concat()),
        ("a", [&s[..8], &tok(3, 1)].concat()),
        ("b", [&s[..8], &tok(4, 2)].concat()),
        ("c", [s.clone(), tok(5, 6)].concat()),
    ]);
    let tables = lowered(&m, &["a", "b", "m", "c"], 8).unwrap();
    assert_eq!(
        shape(&tables),
        [(0, 4, 0, NONE, vec![0, 1]), (4, 4, 1, NONE, vec![0, 1, 2]), (8, 4, 2, NONE, vec![2, 3])]
    );
    assert_eq!(tables.get(Table::MergeMask), [7, 7, 13, 9]);
}

#[test]
fn a_shared_partial_block_is_not_grouped() {
    let mut m = hybrid(&[("A", tok(1, 6))]);
    m.fork("A", "B").unwrap();
    let tables = lowered(&m, &["A", "B"], UNLIMITED).unwrap();
    assert_eq!(shape(&tables), [(0, 4, 0, NONE, vec![0, 1])]);
    assert_eq!(private(&tables, 1).len(), 1);
}

#[test]
fn rows_without_queries_join_no_group() {
    let m = hybrid(&[("A", tok(1, 6)), ("B", tok(1, 7))]);
    let rows = [RowQuery { name: "A", q_len: 1 }, RowQuery { name: "B", q_len: 0 }];
    let none = (Granularity::None, Granularity::None);
    assert_eq!(lower(&m, &rows, &attention(UNLIMITED), none, Elem::F32).unwrap().groups, 0);
}

#[test]
fn nesting_beyond_the_merge_mask_is_refused() {
    let s = tok(1, 200);
    let names: Vec<String> = (0..34).map(|i| format!("r{i}")).collect();
    let nested = |deep: usize| {
        let rows = names.iter().zip(1..=deep);
        let own = |i: usize| [&s[..4 * i], &tok(100 + i as u64, 1)].concat();
        let m = hybrid(&rows.clone().map(|(name, i)| (name.as_str(), own(i))).collect::<Vec<_>>());
        let names: Vec<&str> = rows.map(|(name, _)| name.as_str()).collect();
        lowered(&m, &names, UNLIMITED).map(|tables| tables.levels)
    };
    assert_eq!(nested(32), Ok(31));
    assert_eq!(nested(33), Err(LowerError::TooManyLevels { levels: 32, limit: 31 }));
}
