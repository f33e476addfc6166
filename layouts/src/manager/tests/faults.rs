//! Every invariant check must be able to fail: each fault is planted in a sound state and must be named.

use super::*;

fn sound() -> Manager {
    let config = PoolConfig { window: Some(8), release: true, ..config(24, 4) };
    let mut m = Manager::new(LayoutKind::VirtualContiguous, config).unwrap();
    m.prefill("A", &tok(1, 10), 0).unwrap();
    m.fork("A", "B").unwrap();
    m.append("B", 5).unwrap();
    m.append("B", 6).unwrap();
    m.append("B", 7).unwrap();
    m.prefill("X", &tok(2, 9), 0).unwrap();
    m.free("X").unwrap();
    m.check_invariants().unwrap();
    m
}

fn breaks(plant: impl FnOnce(&mut Manager)) -> &'static str {
    let mut m = sound();
    plant(&mut m);
    m.check_invariants().expect_err("the fault must be found").rule
}

fn cached(m: &Manager) -> u32 {
    m.pool.cached().next().unwrap()
}

#[test]
fn each_rule_reports_its_fault() {
    let block = |m: &Manager, row: &str, i: usize| m.rows[row].blocks[i].unwrap();
    assert_eq!(breaks(|m| m.rows.get_mut("A").unwrap().blocks[1] = Some(99)), "I2");
    assert_eq!(breaks(|m| m.pool.block_mut(block(m, "A", 0)).refs += 1), "I3");
    assert_eq!(breaks(|m| m.pool.push_back(block(m, "A", 0))), "I4");
    assert_eq!(breaks(|m| m.pool.block_mut(cached(m)).node = None), "I4");
    assert_eq!(breaks(|m| m.rows.get_mut("A").unwrap().blocks[1] = Some(block(m, "A", 0))), "I5");
    assert_eq!(breaks(|m| m.pool.block_mut(cached(m)).filled = 3), "I6");
    assert_eq!(
        breaks(|m| {
            let (id, node) = (cached(m), m.pool.block(cached(m)).node.unwrap());
            m.index.leave(node, id);
        }),
        "I7"
    );
    assert_eq!(
        breaks(|m| {
            let node = m.pool.block(cached(m)).node.unwrap();
            m.index.join(node, block(m, "A", 0));
        }),
        "I7"
    );
    assert_eq!(breaks(|m| m.rows.get_mut("A").unwrap().tokens[2] = 77), "I8");
    assert_eq!(breaks(|m| m.rows.get_mut("A").unwrap().salt = 77), "I8");
    assert_eq!(breaks(|m| m.pool.block_mut(block(m, "A", 2)).epoch += 1), "I9");
    assert_eq!(
        breaks(|m| {
            let row = m.rows.get_mut("A").unwrap();
            row.tokens.extend([1, 2, 3, 4]);
        }),
        "I12"
    );
    assert_eq!(breaks(|m| m.pool.block_mut(block(m, "B", 3)).filled += 1), "I12");
    assert_eq!(breaks(|m| m.rows.get_mut("B").unwrap().released += 1), "I13");
    assert_eq!(breaks(|m| m.rows.get_mut("B").unwrap().blocks[2] = None), "I13");
    assert_eq!(breaks(|m| m.rows.get_mut("A").unwrap().hot_start = 6), "I15");
    assert_eq!(
        breaks(|m| {
            let row = m.rows.get_mut("B").unwrap();
            row.hot_start = row.released * 4;
        }),
        "I15"
    );
    assert_eq!(breaks(|m| m.reserve += 1), "count");
    assert_eq!(breaks(|m| m.claims += 1), "count");
}

/// A live block and a cached one with the same content would make sharing depend on evictions.
#[test]
fn a_cached_twin_of_a_live_block_is_reported() {
    assert_eq!(
        breaks(|m| {
            let live = m.rows["A"].blocks[0].unwrap();
            let node = m.pool.block(live).node.unwrap();
            let twin = cached(m);
            if let Some(old) = m.pool.block_mut(twin).node.replace(node) {
                m.index.leave(old, twin);
            }
            m.index.join(node, twin);
        }),
        "I7"
    );
}

/// The bench itself must notice wrong bytes.
#[test]
#[should_panic(expected = "row A position 1")]
fn the_content_check_notices_an_overwritten_slot() {
    let mut world = World::new(LayoutKind::ClassicPaged, config(8, 4), chain_hash);
    world.apply(&Op::Prefill("A".into(), tok(1, 6), 0)).unwrap();
    world.slots[1] = FOREIGN;
    world.check("now");
}
