//! Lifecycle scripts that broke real managers: each runs on all five layouts with every check after every step.

use super::*;

#[test]
fn three_owners_free_the_middle() {
    let mut lab = Lab::new(config(8, 16));
    lab.prefill("A", &tok(1, 42));
    lab.fork("A", "B");
    lab.fork("B", "C");
    lab.free("B");
    lab.append("C", 4);
    lab.pressure(3);
    lab.free("A");
    lab.pressure(5);
    lab.pressure(5);
    lab.append("C", 8);
}

#[test]
fn window_starts_in_mid_block_and_the_row_resumes() {
    let mut lab = Lab::new(PoolConfig { window: Some(24), ..config(12, 16) });
    lab.prefill("A", &tok(1, 70));
    lab.append("A", 7);
    let tokens = lab.0[0].rows["A"].0.clone();
    lab.free("A");
    lab.pressure(12);
    lab.prefill("W", &tok(2, 30));
    lab.prefill("A", &tokens);
    assert_eq!(lab.each(|m| m.stats().hit_tokens), [0; 5]);
    lab.append("A", 1);
}

#[test]
fn window_release_keeps_what_the_fork_still_owns() {
    let mut lab = Lab::new(PoolConfig { window: Some(36), release: true, ..config(14, 16) });
    lab.prefill("A", &tok(1, 38));
    lab.fork("A", "S");
    lab.append("A", 62);
    assert_eq!(lab.each(|m| m.row("A").unwrap().released), [4; 5]);
    assert_eq!(lab.each(|m| m.row("S").unwrap().released), [0; 5]);
    assert_eq!(lab.each(|m| m.stats().released_blocks), [4; 5]);
    lab.pressure(4);
    lab.prefill("C", &tok(3, 52));
    lab.append("A", 16);
}

#[test]
fn an_evicted_prefix_misses_and_a_refused_prefill_leaks_nothing() {
    let mut lab = Lab::new(config(12, 16));
    lab.prefill("A", &tok(1, 52));
    lab.free("A");
    lab.pressure(12);
    assert!(!lab.apply(&Op::Prefill("H".into(), tok(2, 400), 0)));
    lab.prefill("B", &tok(1, 52));
    assert_eq!(lab.each(|m| m.stats().hit_tokens), [0; 5]);
    assert_eq!(lab.each(|m| m.stats().evictions), [3; 5]);
}

#[test]
fn a_hit_revives_freed_blocks_of_a_full_pool() {
    let mut lab = Lab::new(config(16, 16));
    lab.prefill("A", &tok(1, 50));
    lab.prefill("X", &tok(2, 20));
    lab.prefill("W", &tok(3, 150));
    lab.free("A");
    lab.free("X");
    let prompt = [tok(1, 48), tok(4, 40)].concat();
    lab.prefill("B", &prompt);
    assert_eq!(lab.each(|m| m.stats().hit_blocks), [3; 5]);
    assert!(!lab.apply(&Op::Pressure(1)));
    lab.free("W");
    lab.prefill("D", &tok(5, 60));
}

#[test]
fn a_wholly_cached_prompt_still_computes_its_last_token() {
    let mut lab = Lab::new(config(64, 16));
    lab.prefill("A", &tok(1, 64));
    lab.append("A", 3);
    lab.prefill("B", &tok(1, 64));
    assert_eq!(lab.each(|m| m.stats().hit_blocks), [3; 5]);
    assert_eq!(lab.each(|m| m.stats().mid_block_tokens), [0, 0, 0, 0, 15]);
    lab.append("B", 2);
}

#[test]
fn keys_have_parents_and_salts() {
    let piece = |stream| tok(stream, 16);
    let mut lab = Lab::with_hash(config(64, 16), |_, _, _| 0);
    lab.prefill("A", &[piece(1), piece(2), piece(9)].concat());
    lab.prefill("A2", &[piece(3), piece(4), piece(9)].concat());
    lab.prefill("B", &[piece(3), piece(2), piece(8)].concat());
    assert_eq!(lab.each(|m| m.stats().hit_blocks), [1; 5]);
    assert!(lab.apply(&Op::Prefill("S".into(), [piece(1), piece(2), piece(9)].concat(), 1)));
    assert_eq!(lab.each(|m| m.stats().hit_blocks), [1; 5]);
    assert!(lab.apply(&Op::Prefill("S2".into(), [piece(1), piece(2), piece(7)].concat(), 1)));
    assert_eq!(lab.each(|m| m.stats().hit_blocks), [3; 5]);
}

#[test]
fn whoever_writes_first_to_a_shared_partial_block_copies() {
    let mut lab = Lab::new(config(64, 16));
    lab.prefill("A", &tok(1, 30));
    lab.append("A", 7);
    lab.fork("A", "B");
    lab.append("A", 1);
    assert_eq!(lab.each(|m| m.stats().copies), [1; 5], "at the write, or at the fork in hot-tail");
    lab.append("B", 1);
    assert_eq!(lab.each(|m| m.stats().copies), [1; 5], "the last owner writes in place");
    lab.append("A", 1);
    lab.append("B", 4);
    lab.append("A", 12);
    lab.append("B", 10);
}

#[test]
fn a_fork_at_a_block_boundary_copies_nothing() {
    let mut lab = Lab::new(config(64, 16));
    lab.prefill("A", &tok(1, 48));
    lab.fork("A", "B");
    lab.append("B", 3);
    lab.append("A", 2);
    assert_eq!(lab.each(|m| m.stats().copies), [0; 5]);
}

#[test]
fn empty_rows_grow_and_fork() {
    let mut lab = Lab::new(config(8, 4));
    lab.prefill("Z", &[]);
    lab.fork("Z", "Y");
    lab.append("Z", 5);
    lab.append("Y", 1);
    lab.free("Z");
    lab.free("Y");
    assert_eq!(lab.each(Manager::available), [8; 5]);
}

#[test]
fn a_claimed_block_cannot_be_taken_by_others() {
    let mut lab = Lab::new(config(4, 4));
    lab.prefill("A", &tok(1, 6));
    lab.fork("A", "B");
    assert!(!lab.apply(&Op::Pressure(2)));
    lab.pressure(1);
    lab.prefill("X", &tok(2, 3));
    lab.append("B", 2);
    lab.append("A", 2);
    assert!(!lab.apply(&Op::Fork("X".into(), "Y".into())), "no block for the copy");
    assert!(!lab.apply(&Op::Append("A".into(), 1)));
}

#[test]
fn blocks_in_use_behind_a_released_prefix_are_not_shared() {
    let mut lab = Lab::new(PoolConfig { window: Some(4), release: true, ..config(16, 4) });
    lab.prefill("A", &tok(1, 8));
    lab.append("A", 2);
    assert_eq!(lab.each(|m| m.row("A").unwrap().released), [1; 5]);
    lab.prefill("B", &tok(1, 12));
    assert_eq!(
        lab.each(|m| m.stats().hit_blocks),
        [1; 5],
        "the released block is cached; the next is in use"
    );
}

#[test]
fn misuse_is_refused_by_name() {
    let mut lab = Lab::new(config(8, 4));
    lab.prefill("A", &tok(1, 5));
    for op in [
        Op::Prefill("A".into(), vec![1], 0),
        Op::Append("B".into(), 1),
        Op::Fork("B".into(), "C".into()),
        Op::Fork("A".into(), "A".into()),
        Op::Free("B".into()),
        Op::Pressure(9),
    ] {
        assert!(!lab.apply(&op), "{op:?}");
    }
    let error = lab.0[0].manager.pressure(9).unwrap_err();
    assert_eq!(error.to_string(), "out of blocks: 9 needed, 6 available");
    let refused = |config| Manager::new(LayoutKind::ClassicPaged, config).unwrap_err().to_string();
    assert_eq!(refused(config(4, 3)), "pool config: block_size = 3 (a power of two)");
    assert!(refused(config(0, 4)).contains("blocks = 0"));
    assert!(refused(config(1 << 20, 1 << 12)).contains("32 bits"));
    assert!(refused(PoolConfig { first_block: 4, ..config(4, 4) }).contains("first_block"));
    assert!(refused(PoolConfig { window: Some(0), ..config(4, 4) }).contains("window"));
    assert!(refused(PoolConfig { release: true, ..config(4, 4) }).contains("release"));
}
