//! Random walks by seed: small pools, shared prefixes, forks, releases, refusals.

use super::trial::{Op, Trial};
use crate::fault::ManagerFault;
use crate::kind::LayoutKind;
use crate::manager::{PoolConfig, chain_hash};
use crate::tables::tests::B;

const ROWS: [&str; 5] = ["A", "B", "C", "D", "E"];
/// Operations of one walk.
const STEPS: u64 = 60;

/// The `i`-th of a seed's numbers, below `end`.
fn number(seed: u64, i: &mut u64, end: u64) -> u64 {
    *i += 1;
    chain_hash(seed, &[*i], 0) % end
}

/// `count` tokens of a stream. Another `variant` has the same polynomial of base 31.
pub(super) fn tok(stream: u64, count: u64, variant: u64) -> Vec<u64> {
    let at = |i: u64| match i {
        0 => variant,
        1 => 1000 - 31 * variant,
        _ => i,
    };
    (0..count).map(|i| stream * 100_000 + at(i)).collect()
}

fn config(seed: u64, i: &mut u64) -> PoolConfig {
    let mode = number(seed, i, 4);
    PoolConfig {
        blocks: 6 + number(seed, i, 26) as u32,
        block_size: B,
        first_block: number(seed, i, 6) as u32,
        window: (mode > 0).then_some(1 + number(seed, i, 14) as u32),
        release: mode > 1,
        extent_tokens: B * (1 + number(seed, i, 4) as u32),
    }
}

/// One step; several appends at once, so that rows grow.
fn step(trial: &Trial, seed: u64, i: &mut u64) -> Vec<Op> {
    let first = number(seed, i, 5) as usize;
    let rows = || ROWS.into_iter().cycle().skip(first).take(5);
    // now and then a row that must be refused
    let careless = number(seed, i, 16) == 0;
    let live = rows().find(|row| careless || trial.is_alive(row)).unwrap_or(ROWS[first]);
    let unused = rows().find(|row| careless || !trial.is_alive(row)).unwrap_or(ROWS[first]);
    match number(seed, i, 20) {
        0..5 => {
            // some prompts are empty: the row then writes as its own what others have as a prompt
            let longest = if number(seed, i, 6) == 0 { [1, 1] } else { [22, 6] };
            let (stream, shared) = ([1, 1, 2][number(seed, i, 3) as usize], number(seed, i, longest[0]));
            let own = tok(5 + number(seed, i, 2), number(seed, i, longest[1]), 0);
            let prompt = [tok(stream, shared, number(seed, i, 6) / 5), own].concat();
            vec![Op::Prefill(unused, prompt, number(seed, i, 8) / 7)]
        }
        5..11 => {
            // most rows go on with their stream: they then write what others have as a prompt, and the reverse
            let own = trial.tokens(live).first().map_or(1, |token| token / 100_000);
            let stream = if number(seed, i, 4) > 0 { own } else { 1 + number(seed, i, 3) };
            let (len, count) = (trial.tokens(live).len() as u64, 1 + number(seed, i, 6));
            tok(stream, len + count, 0).into_iter().skip(len as usize).map(|t| Op::Append(live, t)).collect()
        }
        11..14 => vec![Op::Fork(live, unused)],
        14..19 => vec![Op::Free(live)],
        _ => vec![Op::Pressure(1 + number(seed, i, 6) as u32)],
    }
}

/// The walk of one seed.
pub(super) fn walk(fault: &ManagerFault, kind: LayoutKind, seed: u64) -> Trial {
    let mut i = 0;
    let mut trial = Trial::new(fault, kind, config(seed, &mut i));
    for _ in 0..STEPS {
        for op in step(&trial, seed, &mut i) {
            trial.apply(&op);
        }
    }
    trial
}
