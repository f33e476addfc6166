//! The library as a whole: every fault is seen, harmless ones do no harm, and the invariants name what they promise.

use std::collections::BTreeSet;

use super::trial::{Evidence, Op, Trial};
use super::walk::{tok, walk};
use crate::fault::{Flaw, Kind, ManagerFault, library};
use crate::kind::LayoutKind;
use crate::manager::PoolConfig;
use crate::tables::tests::B;

/// Walks until a fault shows.
const SEEDS: u64 = 40;

fn entry(id: &str) -> &'static ManagerFault {
    library().iter().find(|fault| fault.id == id).unwrap()
}

/// All evidence of the first walks.
fn survey(fault: &ManagerFault, kind: LayoutKind, seeds: u64) -> BTreeSet<Evidence> {
    (0..seeds).flat_map(|seed| walk(fault, kind, seed).evidence).collect()
}

/// Faults that need a script of their own.
fn is_scripted(fault: &ManagerFault) -> bool {
    matches!(fault.flaw, Flaw::SlotCut | Flaw::CopyOneLong)
}

#[test]
fn entries_have_distinct_names_and_every_kind_has_some() {
    let ids: BTreeSet<&str> = library().iter().map(|fault| fault.id).collect();
    assert_eq!(ids.len(), library().len());
    let order: Vec<usize> = library().iter().map(|fault| fault.flaw as usize).collect();
    assert!(order.into_iter().eq(0..library().len()), "each flaw has one entry, in order");
    let kinds: Vec<Kind> = library().iter().map(|fault| fault.kind).collect();
    let mut distinct = kinds.clone();
    distinct.dedup();
    assert_eq!(distinct, Kind::ALL, "entries are grouped by kind");
    let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    assert!(library().iter().all(|fault| !fault.layouts.is_empty()));
}

#[test]
fn every_fault_is_seen() {
    let by_walk = |fault: &&ManagerFault| {
        fault.equivalent.is_none() && !is_scripted(fault) && fault.kind != Kind::Statistics
    };
    for fault in library().iter().filter(by_walk) {
        for &kind in fault.layouts {
            let is_seen = |seed| walk(fault, kind, seed).evidence.iter().any(|e| e.is_serious());
            assert!((0..SEEDS).any(is_seen), "{} in {kind} is never seen", fault.id);
        }
    }
}

#[test]
fn harmless_faults_change_only_what_they_may() {
    let harmless = |fault: &&ManagerFault| fault.equivalent.is_some() || fault.kind == Kind::Statistics;
    for fault in library().iter().filter(harmless) {
        for &kind in fault.layouts {
            let evidence = survey(fault, kind, 8);
            assert!(!evidence.iter().any(|e| e.is_serious()), "{} in {kind}: {evidence:?}", fault.id);
            assert!(is_scripted(fault) || !evidence.is_empty(), "{} in {kind} changes nothing", fault.id);
        }
    }
}

#[test]
fn a_fault_outside_its_layouts_changes_nothing() {
    for fault in library() {
        for kind in LayoutKind::ALL.into_iter().filter(|kind| !fault.layouts.contains(kind)) {
            assert_eq!(survey(fault, kind, 2), BTreeSet::new(), "{} in {kind}", fault.id);
        }
    }
}

/// What the manager's own invariants say, in the layout named, and what they cannot know.
#[test]
fn invariants_report_what_they_promise() {
    use LayoutKind::{ClassicPaged, HotTailContiguous, VirtualContiguous};
    for (kind, id, rule) in [
        (ClassicPaged, "shared-block-written-in-place", "I12"),
        (ClassicPaged, "copy-only-with-three-owners", "I12"),
        (HotTailContiguous, "fork-keeps-tail-start", "I15"),
        (ClassicPaged, "fork-claims-ignored", "count"),
        (ClassicPaged, "freed-by-one-owner", "I3"),
        (ClassicPaged, "last-block-freed-twice", "I4"),
        (ClassicPaged, "last-block-leaks", "I3"),
        (VirtualContiguous, "growth-room-leaks", "I4"),
        (ClassicPaged, "released-block-leaks", "I3"),
        (ClassicPaged, "hit-without-reference", "I3"),
        (ClassicPaged, "hit-references-another-copy", "I3"),
        (VirtualContiguous, "growth-room-shared-by-fork", "I12"),
        (ClassicPaged, "key-without-parent", "I8"),
        (ClassicPaged, "key-without-salt", "I8"),
        (ClassicPaged, "polynomial-hash-trusted", "I8"),
        (ClassicPaged, "low-byte-trusted", "I8"),
        (ClassicPaged, "partial-block-keyed", "I6"),
        (ClassicPaged, "entry-outlives-block", "I7"),
        (ClassicPaged, "one-block-per-key", "I7"),
        (ClassicPaged, "hits-referenced-late", "I5"),
        (ClassicPaged, "block-in-use-evicted", "I9"),
        (VirtualContiguous, "growth-room-given-twice", "I3"),
        (VirtualContiguous, "grows-over-neighbour", "I9"),
        (HotTailContiguous, "tail-start-kept", "I15"),
        (ClassicPaged, "released-one-block-early", "I13"),
        (ClassicPaged, "released-for-the-next-query", "I13"),
        (ClassicPaged, "released-while-shared", "I3"),
        (ClassicPaged, "refused-prompt-keeps-references", "I3"),
        (ClassicPaged, "released-entry-left", "I13"),
    ] {
        let evidence = survey(entry(id), kind, SEEDS / 2);
        assert!(evidence.contains(&Evidence::Invariant(rule)), "{id} in {kind}: {evidence:?}");
    }
    // sound states, but not the ones asked for: only what was refused or counted tells
    for id in ["never-released", "prefix-never-hit", "refused-prompt-evicts"] {
        let evidence = survey(entry(id), ClassicPaged, SEEDS / 2);
        assert!(!evidence.iter().any(|e| matches!(e, Evidence::Invariant(_))), "{id}: {evidence:?}");
    }
}

#[test]
fn a_cut_slot_shows_in_a_large_pool() {
    let config = PoolConfig {
        blocks: 0x1_0000 / B + 8,
        block_size: B,
        first_block: 0x1_0000 / B - 1,
        window: None,
        release: false,
        extent_tokens: B,
    };
    let fault = entry("slot-cut-to-16-bits");
    for &kind in fault.layouts {
        let mut trial = Trial::new(fault, kind, config);
        trial.apply(&Op::Prefill("A", tok(1, u64::from(B), 0), 0));
        assert_eq!(trial.evidence, BTreeSet::new(), "{kind}: the last block below the cut");
        trial.apply(&Op::Append("A", 7));
        assert_eq!(trial.evidence, BTreeSet::from([Evidence::Content]), "{kind}");
    }
}
