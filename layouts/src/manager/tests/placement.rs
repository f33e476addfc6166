//! What distinguishes the layouts: which blocks they take.

use super::*;
use LayoutKind::{ClassicPaged, HotTailContiguous, HybridPrefixShared, PackedBlockTable, VirtualContiguous};

fn world(kind: LayoutKind, config: PoolConfig) -> World {
    World::new(kind, config, chain_hash)
}

fn prefill(world: &mut World, row: &str, tokens: &[u64]) -> Placed {
    world.apply(&Op::Prefill(row.into(), tokens.to_vec(), 0)).unwrap()
}

fn append(world: &mut World, row: &str, count: u64) {
    for token in 0..count {
        world.apply(&Op::Append(row.into(), 900 + token)).unwrap();
    }
}

fn blocks(world: &World, row: &str) -> Vec<u32> {
    world.manager.row(row).unwrap().blocks.iter().map(|b| b.unwrap()).collect()
}

/// Two rows freed tail-first leave the queue 2, 1, 0, 5, 4, 3 behind the never used blocks.
fn used_pool(kind: LayoutKind) -> World {
    let mut world = world(kind, config(6, 4));
    prefill(&mut world, "X", &tok(1, 12));
    prefill(&mut world, "Y", &tok(2, 12));
    world.apply(&Op::Free("X".into())).unwrap();
    world.apply(&Op::Free("Y".into())).unwrap();
    world
}

#[test]
fn classic_reuses_blocks_descending_and_packed_sorts_them() {
    for (kind, want) in [(ClassicPaged, [2, 1, 0, 5]), (PackedBlockTable, [0, 1, 2, 5])] {
        let mut world = used_pool(kind);
        prefill(&mut world, "A", &tok(3, 16));
        assert_eq!(blocks(&world, "A"), want, "{kind}");
    }
}

#[test]
fn virtual_evicts_up_to_its_length_for_a_run() {
    let mut world = used_pool(VirtualContiguous);
    prefill(&mut world, "A", &tok(3, 12));
    assert_eq!(blocks(&world, "A"), [0, 1, 2]);
    assert_eq!(world.manager.stats().evictions, 3);
}

#[test]
fn best_fit_takes_the_smallest_run_without_evicting() {
    let mut world = world(VirtualContiguous, config(16, 4));
    for (row, tokens) in [("A", 12), ("B", 4), ("C", 8), ("D", 4)] {
        prefill(&mut world, row, &tok(u64::from(row.as_bytes()[0]), tokens - 1));
    }
    world.apply(&Op::Free("A".into())).unwrap();
    world.apply(&Op::Free("C".into())).unwrap();
    prefill(&mut world, "E", &tok(9, 1));
    assert_eq!(blocks(&world, "E"), [2], "one free unkeyed block is the smallest run");
    prefill(&mut world, "F", &tok(10, 8));
    assert_eq!(blocks(&world, "F"), [7, 8], "the fresh end of the pool needs no eviction");
}

#[test]
fn every_layout_starts_at_the_first_block() {
    for kind in LayoutKind::ALL {
        let mut world = world(kind, PoolConfig { first_block: 10, ..config(16, 4) });
        prefill(&mut world, "A", &tok(1, 15));
        assert_eq!(blocks(&world, "A"), [10, 11, 12, 13], "{kind}");
    }
    let mut wraps = world(ClassicPaged, PoolConfig { first_block: 14, ..config(16, 4) });
    prefill(&mut wraps, "A", &tok(1, 15));
    assert_eq!(blocks(&wraps, "A"), [14, 15, 0, 1]);
}

#[test]
fn contiguous_layouts_grow_by_extents_in_place_where_they_can() {
    for kind in [HotTailContiguous, VirtualContiguous, HybridPrefixShared] {
        let mut world = world(kind, config(32, 4));
        prefill(&mut world, "A", &tok(1, 8));
        append(&mut world, "A", 1);
        assert_eq!(blocks(&world, "A"), [0, 1, 2, 3, 4, 5], "{kind}: four blocks at once");
        assert_eq!(world.manager.row("A").unwrap().hot_start, 8);
        prefill(&mut world, "B", &tok(2, 4));
        append(&mut world, "A", 16);
        let view = world.manager.row("A").unwrap();
        assert_eq!(view.hot_start, 24, "{kind}: B sits behind the old extent, a new tail starts");
        assert_eq!(view.blocks[6], Some(7));
    }
}

#[test]
fn growth_room_is_given_back_before_anything_is_evicted() {
    for kind in LayoutKind::ALL {
        let mut world = world(kind, config(6, 4));
        prefill(&mut world, "C", &tok(1, 8));
        world.apply(&Op::Free("C".into())).unwrap();
        prefill(&mut world, "A", &tok(2, 3));
        append(&mut world, "A", 2);
        prefill(&mut world, "B", &tok(3, 8));
        let stats = world.manager.stats();
        let extents = kind.has_spans() || kind == HotTailContiguous;
        assert_eq!((stats.evictions, stats.reclaimed), (0, if extents { 2 } else { 0 }), "{kind}");
    }
}

#[test]
fn hybrid_copies_the_matched_head_of_one_more_block() {
    let mut world = world(HybridPrefixShared, config(64, 16));
    prefill(&mut world, "A", &[tok(1, 39), tok(2, 20)].concat());
    let placed = prefill(&mut world, "B", &[tok(1, 39), tok(3, 11)].concat());
    assert_eq!(placed.cached, 39);
    let (a, b) = (blocks(&world, "A"), blocks(&world, "B"));
    assert_eq!(a[..2], b[..2]);
    assert_eq!(placed.copies.len(), 1);
    assert_eq!((placed.copies[0].from, placed.copies[0].to), (a[2] * 16, b[2] * 16));
    assert_eq!(placed.copies[0].count, 7);
    assert_eq!(world.manager.stats().mid_block_tokens, 7);
}

#[test]
fn hybrid_does_not_copy_from_the_block_it_is_about_to_take() {
    let mut world = world(HybridPrefixShared, config(2, 4));
    prefill(&mut world, "A", &tok(1, 8));
    world.apply(&Op::Free("A".into())).unwrap();
    let placed = prefill(&mut world, "B", &[tok(1, 2), tok(2, 5)].concat());
    assert_eq!(placed.cached, 0, "both blocks are needed");
    world.apply(&Op::Free("B".into())).unwrap();
    prefill(&mut world, "C", &[tok(1, 2), tok(3, 1)].concat());
    assert_eq!(world.manager.stats().mid_block_tokens, 2, "one block to spare");
}

#[test]
fn hot_tail_copies_at_the_fork_and_turns_whole_blocks_cold() {
    let mut world = world(HotTailContiguous, config(32, 4));
    prefill(&mut world, "A", &tok(1, 4));
    append(&mut world, "A", 6);
    assert_eq!(world.manager.row("A").unwrap().hot_start, 4);
    let placed = world.apply(&Op::Fork("A".into(), "B".into())).unwrap();
    assert_eq!(placed.copies.len(), 1);
    assert_eq!(placed.copies[0].count, 2);
    for row in ["A", "B"] {
        assert_eq!(world.manager.row(row).unwrap().hot_start, 8, "{row}");
    }
    assert_ne!(blocks(&world, "A")[2], blocks(&world, "B")[2]);
}

#[test]
fn hybrid_evicts_a_chain_from_its_leaf() {
    let mut world = world(HybridPrefixShared, config(5, 4));
    prefill(&mut world, "A", &tok(1, 16));
    world.apply(&Op::Free("A".into())).unwrap();
    prefill(&mut world, "B", &tok(2, 8));
    let cached: Vec<u32> = (0..5).filter(|&id| world.manager.block(id).keyed).collect();
    let placed = prefill(&mut world, "C", &tok(1, 5));
    assert!(placed.cached >= 4, "the root of the chain outlives its leaves: {cached:?}");
}
