//! What is written, and where.

use super::{Edit, KernelFault, Kind, PAIR_LEN, PAIR_LEN_OF, core, joined, reach};
use crate::cpu::rules::Rules;

const fn outputs(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Outputs, id, says, reach::always, twin, wgsl)
}

const SEES: &str = "return key >= pair_lo[pair] && key < pair_hi[pair];";
const STORE_O: &str = "    outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;";
const STORE_LSE: &str = "    outputs[P.lse_at + out_row(q_row)] = bits;";

pub(super) const FAULTS: &[KernelFault] = &[
    super::fault(
        Kind::Outputs,
        "row-shift",
        "the outputs of a query token are written to the next one, those of the last to the first",
        |p| p.launch.q_tokens > 1,
        |r| r.out_row = |p, q_row, _| Some((q_row + p.q_heads) % (p.q_tokens * p.q_heads)),
        &[joined("    return q_row;\n", "    return (q_row + P.q_heads) % (P.q_tokens * P.q_heads);\n")],
    ),
    outputs(
        "one-head-of-one-row",
        "the last key of the row is left out, in the last query head of the last query token only",
        |r| {
            r.sees = |p, sight, _, key| {
                let last = sight.query.q_row + 1 == p.q_tokens * p.q_heads;
                sight.covers(key) && !(last && key + 1 == sight.query.len)
            }
        },
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            core(
                SEES,
                "let last = pair_q[pair] + 1u == P.q_tokens * P.q_heads;
    return key >= pair_lo[pair] && key < pair_hi[pair] && !(last && key + 1u == pair_len[pair]);",
            ),
        ],
    ),
    outputs(
        "unwritten-last-row",
        "the last query token is not written",
        |r| r.out_row = |p, q_row, _| (q_row / p.q_heads + 1 != p.q_tokens).then_some(q_row),
        &[
            joined(
                STORE_O,
                "    if (q_row / P.q_heads + 1u != P.q_tokens) {
        outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
    }",
            ),
            joined(
                STORE_LSE,
                "    if (q_row / P.q_heads + 1u != P.q_tokens) {
        outputs[P.lse_at + out_row(q_row)] = bits;
    }",
            ),
        ],
    ),
    outputs(
        "unwritten-last-dims",
        "the last four dims of each output are not written",
        |r| r.out_dims = |p| p.dv.saturating_sub(4),
        &[joined(
            STORE_O,
            "    if (c + 4u < P.dv) {
        outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
    }",
        )],
    ),
    outputs("unwritten-lse", "the LSE is not written", |r| r.write_lse = false, &[joined(STORE_LSE, "")]),
    outputs(
        "write-past-end",
        "the word behind the output is written",
        |r| r.stray = |p| Some(p.o_at + p.q_tokens * p.q_heads * p.dv),
        &[joined(
            STORE_O,
            "    outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
    if (q_row == 0u && c == 0u) {
        outputs[P.o_at + P.q_tokens * P.q_heads * P.dv] = 0u;
    }",
        )],
    ),
    outputs(
        "write-before-start",
        "the word before the output is written",
        |r| r.stray = |p| Some(p.o_at - 1),
        &[joined(
            STORE_O,
            "    outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
    if (q_row == 0u && c == 0u) {
        outputs[P.o_at - 1u] = 0u;
    }",
        )],
    ),
    outputs(
        "second-run-differs",
        "every second run loses the keys of the last tile of each query",
        |r| {
            r.sees = |p, sight, tile, key| {
                let lost = p.run % 2 == 1 && tile.start + tile.count >= sight.hi;
                sight.covers(key) && !lost
            }
        },
        &[core(
            SEES,
            "let lost = P.run % 2u == 1u && tile.start + tile.count >= pair_hi[pair];
    return key >= pair_lo[pair] && key < pair_hi[pair] && !lost;",
        )],
    ),
];
