//! From the words back to the manager's slots, for every layout, over scripts and random walks.

use proptest::prelude::*;

use super::*;

/// Why a row's words do not say what the manager means.
fn disagreement(m: &Manager, tables: &Tables, names: &[&str]) -> Option<String> {
    for (r, name) in names.iter().enumerate() {
        let row = m.row(name)?;
        for position in 0..row.len {
            let block = row.blocks[(position / B) as usize];
            let want: Vec<u32> = block.map(|block| block * B + position % B).into_iter().collect();
            let got = resolve(m.kind(), tables, r, position);
            if got != want {
                return Some(format!("{} row {name} position {position}: {got:?}, not {want:?}", m.kind()));
            }
        }
    }
    None
}

/// Records are in order, maximal and as few as their blocks allow.
fn untidy(tables: &Tables, rows: usize) -> bool {
    (0..rows).any(|row| {
        private(tables, row).windows(2).any(|pair| {
            let end = |s: &SpanRec| (s.logical_start + s.length, s.phys_slot + s.length);
            pair[1].logical_start < end(&pair[0]).0
                || (end(&pair[0]), pair[0].flags)
                    == ((pair[1].logical_start, pair[1].phys_slot), pair[1].flags)
        })
    })
}

fn check(m: &Manager, left: u32) {
    let names: Vec<&str> = m.row_names().collect();
    let tables = lowered(m, &names, left).unwrap();
    assert_eq!(disagreement(m, &tables, &names), None);
    for (row, &mask) in (0..).zip(tables.get(Table::MergeMask)) {
        assert_eq!(mask_from_groups(&tables, row), Some(mask));
    }
    if m.kind().has_spans() {
        assert!(!untidy(&tables, names.len()), "{:?}", tables.get(Table::Spans));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Prefill(usize, usize, usize),
    Append(usize, usize),
    Fork(usize, usize),
    Free(usize),
    Pressure(u32),
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn apply(m: &mut Manager, op: &Op) {
    match *op {
        Op::Prefill(row, shared, own) => {
            let tokens = [&tok(1, 24)[..shared], &tok(2 + row as u64, own)].concat();
            let _ = m.prefill(NAMES[row], &tokens, 0);
        }
        Op::Append(row, count) => {
            for token in tok(50, count) {
                let _ = m.append(NAMES[row], token);
            }
        }
        Op::Fork(parent, child) => {
            let _ = m.fork(NAMES[parent], NAMES[child]);
        }
        Op::Free(row) => {
            let _ = m.free(NAMES[row]);
        }
        Op::Pressure(blocks) => {
            let _ = m.pressure(blocks);
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..5usize, 0..=24usize, 0..12usize).prop_map(|(r, s, o)| Op::Prefill(r, s, o)),
        4 => (0..5usize, 1..12usize).prop_map(|(r, n)| Op::Append(r, n)),
        2 => (0..5usize, 0..5usize).prop_map(|(p, c)| Op::Fork(p, c)),
        1 => (0..5usize).prop_map(Op::Free),
        1 => (0..6u32).prop_map(Op::Pressure),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn words_resolve_to_the_managers_slots(
        ops in prop::collection::vec(op(), 1..24),
        window in prop::option::of(5..40u32),
        release: bool,
        blocks in 12..40u32,
    ) {
        for kind in LayoutKind::ALL {
            let mut m = manager(kind, blocks, window.filter(|_| release));
            for op in &ops {
                apply(&mut m, op);
                check(&m, window.map_or(UNLIMITED, |w| w - 1));
            }
        }
    }
}

#[test]
fn every_entry_matters() {
    for kind in LayoutKind::ALL {
        let mut m = manager(kind, 40, None);
        for op in [Op::Prefill(0, 12, 7), Op::Prefill(1, 12, 5), Op::Append(0, 9), Op::Prefill(2, 0, 8)] {
            apply(&mut m, &op);
        }
        let names = ["a", "b", "c"];
        let good = lowered(&m, &names, UNLIMITED).unwrap();
        assert_eq!(disagreement(&m, &good, &names), None);
        let slots: Vec<usize> = match kind {
            LayoutKind::ClassicPaged => {
                good.parts[1].1.clone().filter(|&w| good.words[w] != u32::MAX).collect()
            }
            LayoutKind::PackedBlockTable => good.parts[2].1.clone().collect(),
            LayoutKind::HotTailContiguous => {
                good.parts[2].1.clone().chain(good.parts[4].1.clone().step_by(4).take(2)).collect()
            }
            _ => good.parts[1].1.clone().skip(2).step_by(8).collect(),
        };
        assert!(slots.len() > 3);
        for word in slots {
            let mut bad = good.clone();
            bad.words[word] ^= 1;
            assert!(disagreement(&m, &bad, &names).is_some(), "{kind}: word {word} has no effect");
        }
    }
}
