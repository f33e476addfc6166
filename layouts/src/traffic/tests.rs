//! Reads of small launches, counted by hand.

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;

use super::{Reads, Touched, predict};
use crate::kind::LayoutKind;
use crate::launch::{Attention, CausalKind, Launch, Split, UNLIMITED};
use crate::manager::{Manager, PoolConfig};
use crate::pack::{Geometry, Store};
use crate::tables::RowQuery;

/// One KV head of 4 dims in f32: one key is 4 words of K and 4 of V. Blocks of 4 tokens.
fn geometry(kind: LayoutKind) -> Geometry {
    Geometry {
        kind,
        elem: Elem::F32,
        kv_heads: 1,
        d: 4,
        dv: 4,
        block_size: 4,
        blocks: 16,
        slot_pad: 0,
        k_scale: Granularity::None,
        v_scale: Granularity::None,
    }
}

fn attention(left: u32) -> Attention {
    Attention {
        scale: 1.0,
        causal: CausalKind::BottomRight,
        left,
        right: UNLIMITED,
        softcap: 0.0,
        alibi_then_cap: false,
        alibi: false,
        sinks: false,
    }
}

/// `rows` = (tokens, queries); rows with the same token at a place share it.
fn launch(
    g: Geometry,
    q_heads: u32,
    rows: &[(Vec<u64>, u32)],
    attention: Attention,
    splits: Option<u32>,
) -> Launch {
    let config = PoolConfig {
        blocks: g.blocks,
        block_size: g.block_size,
        first_block: 0,
        window: None,
        release: false,
        extent_tokens: 8,
    };
    let mut m = Manager::new(g.kind, config).unwrap();
    let names: Vec<String> = (0..rows.len()).map(|i| format!("r{i}")).collect();
    for (name, (tokens, _)) in names.iter().zip(rows) {
        m.prefill(name, tokens, 0).unwrap();
    }
    let queries: Vec<RowQuery<'_>> =
        names.iter().zip(rows).map(|(name, (_, q_len))| RowQuery { name, q_len: *q_len }).collect();
    let fixed = |granularity| match granularity {
        Granularity::Tensor => vec![1.0],
        Granularity::Head => vec![1.0; g.kv_heads as usize],
        _ => vec![],
    };
    let store = Store::new(g, (&fixed(g.k_scale), &fixed(g.v_scale))).unwrap();
    Launch::build(&m, &store, q_heads, &queries, attention, splits.map_or(Split::Own, Split::Count)).unwrap()
}

fn touched(loads: u64, words: u64, sectors: u64, lines: u64) -> Touched {
    Touched { loads, words, sectors, lines }
}

/// One row of 6 keys in blocks 0 and 1, two query heads.
fn six_keys(kind: LayoutKind) -> Reads {
    predict(&launch(geometry(kind), 2, &[((0..6).collect(), 1)], attention(UNLIMITED), None))
}

#[test]
fn classic_reads_whole_blocks_per_query_head() {
    // Two workgroups: cu_q 2, seq_lens 1, entries 2 each; 8 keys each.
    let reads = six_keys(LayoutKind::ClassicPaged);
    let pool = touched(64, 32, 4, 1);
    assert_eq!(reads, Reads { k: pool, v: pool, tables: touched(10, 5, 1, 1), scales: Touched::default() });
}

#[test]
fn packed_reads_keys_once_for_the_head_group() {
    // One workgroup: cu_q 2, indptr 2, last_len 1, entries 2; 6 keys in words 64..88.
    let reads = six_keys(LayoutKind::PackedBlockTable);
    let pool = touched(24, 24, 3, 1);
    assert_eq!(reads, Reads { k: pool, v: pool, tables: touched(7, 7, 1, 1), scales: Touched::default() });
}

#[test]
fn hot_tail_reads_a_cold_tile_and_a_hot_one() {
    // cu_q 2, tail start and len, indptr 1, tail slot, one entry. Words: cu_q 0 1, indptr 2, entry 4, tail 6 7 8.
    let reads = six_keys(LayoutKind::HotTailContiguous);
    let pool = touched(24, 24, 3, 1);
    assert_eq!(reads, Reads { k: pool, v: pool, tables: touched(7, 7, 2, 1), scales: Touched::default() });
}

#[test]
fn virtual_walks_its_records() {
    // Descriptor 5; tile 1: bounds and slot of record 0; tile 2: bounds of 0, bounds and slot of 1.
    let reads = six_keys(LayoutKind::VirtualContiguous);
    let pool = touched(24, 24, 3, 1);
    assert_eq!(reads, Reads { k: pool, v: pool, tables: touched(13, 11, 3, 1), scales: Touched::default() });
}

#[test]
fn hybrid_reads_a_shared_block_once() {
    let rows = [(vec![0, 1, 2, 3, 10, 11], 1), (vec![0, 1, 2, 3, 20, 21, 22], 1)];
    let reads =
        predict(&launch(geometry(LayoutKind::HybridPrefixShared), 2, &rows, attention(UNLIMITED), None));
    // Private: 2 x (descriptor 5, bounds and slot of one record), 2 + 3 keys.
    // Shared: group 6 and its level; of 16 lanes 2 stop at the first member (4 words), 2 at the second (6), 12 find no pair (4);
    // one record; 4 keys.
    let tables = 2 * 8 + 7 + 2 * 4 + 2 * 6 + 12 * 4 + 3;
    assert_eq!(reads.tables.loads, tables);
    assert_eq!(reads.tables.words, 2 * 5 + 3 * 3 + 7 + 2);
    assert_eq!((reads.k.loads, reads.k.words), (36, 36));
    assert_eq!(reads.v, reads.k);
}

#[test]
fn splits_windows_and_scales() {
    // 20 keys, the last 10 visible; splits at 12; two heads of one query head each; e4m3fn: K 1 word, V 2 words a key.
    let g = Geometry {
        elem: Elem::E4m3fn,
        kv_heads: 2,
        dv: 8,
        k_scale: Granularity::Token,
        v_scale: Granularity::Head,
        ..geometry(LayoutKind::PackedBlockTable)
    };
    let launch = launch(g, 2, &[((0..20).collect(), 1)], attention(9), Some(2));
    assert_eq!((launch.schedule.split_tokens, launch.schedule.splits), (12, 2));
    let reads = predict(&launch);
    assert_eq!(reads.tables.loads, 2 * (2 * 5 + 1 + 2));
    assert_eq!((reads.k.loads, reads.k.words), (20, 20));
    assert_eq!((reads.v.loads, reads.v.words), (40, 40));
    assert_eq!((reads.scales.loads, reads.scales.words), (20 + 4, 20 + 2));
}

#[test]
fn block_scales_are_loaded_per_key_and_shared_by_a_block() {
    let g = Geometry {
        k_scale: Granularity::Block,
        v_scale: Granularity::Tensor,
        ..geometry(LayoutKind::ClassicPaged)
    };
    let reads = predict(&launch(g, 1, &[((0..6).collect(), 1)], attention(UNLIMITED), None));
    assert_eq!(reads.scales, touched(8 + 1, 2 + 1, 2, 1));
}

#[test]
fn pair_tiles_read_what_their_queries_see() {
    // 18 queries in tiles of 16: keys 0..16 and 0..18. Top-left and the window move both ends.
    let reads = |attention| {
        let launch =
            launch(geometry(LayoutKind::PackedBlockTable), 1, &[((0..18).collect(), 18)], attention, None);
        predict(&launch).k.loads / 4
    };
    assert_eq!(reads(attention(UNLIMITED)), 16 + 18);
    // Queries 16 and 17 with left 3 see keys 13..18.
    assert_eq!(reads(attention(3)), 16 + 5);
    assert_eq!(reads(Attention { causal: CausalKind::None, ..attention(UNLIMITED) }), 18 + 18);
    assert_eq!(reads(Attention { causal: CausalKind::None, right: 1, ..attention(UNLIMITED) }), 17 + 18);
}

#[test]
fn top_left_queries_see_the_first_keys() {
    let top_left = Attention { causal: CausalKind::TopLeft, ..attention(UNLIMITED) };
    let launch =
        launch(geometry(LayoutKind::VirtualContiguous), 1, &[((0..18).collect(), 2)], top_left, None);
    assert_eq!(predict(&launch).k.loads, 2 * 4);
}

#[test]
fn an_empty_row_reads_tables_only() {
    for (kind, loads) in LayoutKind::ALL.into_iter().zip([2 + 1, 2 + 2, 2 + 2, 5, 5]) {
        let reads = predict(&launch(geometry(kind), 1, &[(vec![], 1)], attention(UNLIMITED), None));
        assert_eq!((reads.k, reads.tables.loads), (Touched::default(), loads), "{kind}");
    }
}

#[test]
fn a_tile_has_64_keys() {
    // 130 keys in blocks of 4: virtual walks 64 + 64 keys of the sealed record and the tail of 2.
    let g = Geometry { blocks: 64, ..geometry(LayoutKind::VirtualContiguous) };
    let reads = predict(&launch(g, 1, &[((0..130).collect(), 1)], attention(UNLIMITED), None));
    assert_eq!(reads.tables.loads, 5 + 3 + 3 + 2 + 3);
    assert_eq!(reads.k.loads, 130 * 4);
}
