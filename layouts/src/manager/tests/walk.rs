//! Random walks of all five managers with a hash that collides all the time.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A step before it is matched with the rows that are alive.
#[derive(Clone, Debug)]
enum Step {
    /// Prompt: `shared` tokens of a common stream, then `own` private ones.
    Prefill {
        row: usize,
        stream: u64,
        shared: usize,
        own: usize,
        salt: u64,
    },
    Append {
        row: usize,
        count: usize,
        branch: u64,
    },
    Fork {
        parent: usize,
        child: usize,
    },
    Free {
        row: usize,
    },
    Preempt {
        row: usize,
    },
    Resume {
        row: usize,
    },
    Pressure {
        blocks: u32,
    },
}

const ROWS: [&str; 5] = ["A", "B", "C", "D", "E"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let row = || 0..ROWS.len();
    vec(
        prop_oneof![
            4 => (row(), 0..2_u64, 0..22_usize, 0..6_usize, 0..10_u64).prop_map(
                |(row, stream, shared, own, salt)| Step::Prefill { row, stream, shared, own, salt: salt / 9 }
            ),
            6 => (row(), 1..9_usize, 0..3_u64).prop_map(|(row, count, branch)| Step::Append { row, count, branch }),
            3 => (row(), row()).prop_map(|(parent, child)| Step::Fork { parent, child }),
            3 => row().prop_map(|row| Step::Free { row }),
            1 => row().prop_map(|row| Step::Preempt { row }),
            2 => row().prop_map(|row| Step::Resume { row }),
            1 => (1..6_u32).prop_map(|blocks| Step::Pressure { blocks }),
        ],
        1..50,
    )
}

fn configs() -> impl Strategy<Value = PoolConfig> {
    (6..26_u32, prop_oneof![Just(1_u32), Just(2), Just(4)], 0..6_u32, 0..3_u32, 1..14_u32, 1..4_u32).prop_map(
        |(blocks, block_size, first_block, mode, window, extent)| PoolConfig {
            blocks,
            block_size,
            first_block,
            window: (mode > 0).then_some(window),
            release: mode > 1,
            extent_tokens: extent * block_size,
        },
    )
}

fn walk(config: PoolConfig, steps: &[Step]) {
    let mut lab = Lab::with_hash(config, weak_hash);
    let mut waiting: BTreeMap<&str, (Vec<u64>, u64)> = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Prefill { row, stream, shared, own, salt } => {
                // Part of the prompts repeats what decoding rows may already have written.
                let prompt = [tok(stream, shared), tok(5 + row as u64 % 2, own)].concat();
                lab.apply(&Op::Prefill(ROWS[row].into(), prompt, salt));
            }
            Step::Append { row, count, branch } => {
                for _ in 0..count {
                    let len = lab.0[0].rows.get(ROWS[row]).map_or(0, |(tokens, _)| tokens.len());
                    // Branch 0 continues stream 0: decoding then meets blocks that prompts made, and the reverse.
                    let token = tok(branch, len + 1)[len];
                    lab.apply(&Op::Append(ROWS[row].into(), token));
                }
            }
            Step::Fork { parent, child } => {
                lab.apply(&Op::Fork(ROWS[parent].into(), ROWS[child].into()));
            }
            Step::Free { row } => {
                lab.apply(&Op::Free(ROWS[row].into()));
            }
            Step::Preempt { row } => {
                if let Some(kept) = lab.0[0].rows.get(ROWS[row]).cloned() {
                    lab.free(ROWS[row]);
                    waiting.insert(ROWS[row], kept);
                }
            }
            Step::Resume { row } => {
                if let Some((tokens, salt)) = waiting.get(ROWS[row]).cloned()
                    && lab.apply(&Op::Prefill(ROWS[row].into(), tokens, salt))
                {
                    waiting.remove(ROWS[row]);
                }
            }
            Step::Pressure { blocks } => {
                lab.apply(&Op::Pressure(blocks));
            }
        }
    }
    for name in ROWS {
        if lab.0[0].rows.contains_key(name) {
            lab.free(name);
        }
    }
    assert_eq!(lab.each(Manager::available), [u64::from(config.blocks); 5], "blocks leaked");
    lab.pressure(config.blocks);
    assert_eq!(lab.each(|m| m.index.entries().count()), [0; 5], "keys outlive their blocks");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn random_walks_keep_content_invariants_and_agreement(config in configs(), steps in steps()) {
        walk(config, &steps);
    }
}
