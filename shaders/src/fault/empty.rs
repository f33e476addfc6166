//! Rows and splits without keys.

use super::{Edit, KernelFault, Kind, joined, reach};
use crate::abi::UNWRITTEN;
use crate::cpu::rules::Rules;

const fn row(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Empty, id, says, reach::empty_rows, twin, wgsl)
}

const fn split(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Empty, id, says, reach::always, twin, wgsl)
}

const LSE: &str = "select(NEGATIVE_INFINITY, bitcast<u32>(sink), sinks)";
const NO_O: Edit = joined("            store_o(q_row, c, 0u);\n", "");
const NO_LSE: Edit =
    joined("            store_lse(q_row, select(NEGATIVE_INFINITY, bitcast<u32>(sink), sinks));\n", "");
const ALL_PARTS: Edit = joined("& 1u) != 0u && partials[partial_at(part, q_row)] != 0u;", "& 1u) != 0u;");
const ZERO_VALUE: Edit = joined(
    "bitcast<f32>(partials[partial_at(part, q_row) + 2u + c]);",
    "select(bitcast<f32>(partials[partial_at(part, q_row) + 2u + c]), 0.0, partials[partial_at(part, q_row)] == 0u);",
);
const PART_LSE: &str = "    return bitcast<f32>(partials[partial_at(part, q_row) + 1u]);\n";

pub(super) const FAULTS: &[KernelFault] = &[
    row(
        "empty-row-nan",
        "the output of a row without keys and without a sink is 0 / 0",
        |r| {
            r.empty = |sink| {
                let o = if sink.is_some() { 0.0 } else { f32::NAN };
                Some((o, sink.unwrap_or(f32::NEG_INFINITY)))
            }
        },
        &[joined("store_o(q_row, c, 0u);", "store_o(q_row, c, select(0x7fc00000u, 0u, sinks));")],
    ),
    row(
        "empty-row-plus-inf",
        "the LSE of a row without keys is +inf",
        |r| r.empty = |sink| Some((0.0, sink.unwrap_or(f32::INFINITY))),
        &[joined(LSE, "select(0x7f800000u, bitcast<u32>(sink), sinks)")],
    ),
    row(
        "empty-row-unwritten",
        "nothing is written for a row without keys",
        |r| r.empty = |_| None,
        &[NO_O, NO_LSE],
    ),
    row(
        "empty-row-zero-lse",
        "the LSE of a row without keys is 0",
        |r| r.empty = |sink| Some((0.0, sink.unwrap_or(0.0))),
        &[joined(LSE, "select(0u, bitcast<u32>(sink), sinks)")],
    ),
    row(
        "empty-rows-skipped",
        "query tokens without keys take no place in the output, so that those after them move up",
        |r| {
            r.out_row = |p, q_row, empty| {
                let before = (0..q_row / p.q_heads).filter(|token| empty(token * p.q_heads)).count() as u32;
                (!empty(q_row)).then_some(q_row - before * p.q_heads)
            }
        },
        &[
            NO_O,
            NO_LSE,
            joined(
                "fn out_row(q_row: u32) -> u32 {\n    return q_row;\n",
                "fn out_row(q_row: u32) -> u32 {
    var to = q_row;
    for (var token = 0u; token < q_row / P.q_heads; token++) {
        let mask = tables[P.merge_mask_at + token];
        var seen = false;
        for (var part = 0u; part < (32u - countLeadingZeros(mask)) * P.splits; part++) {
            seen = seen || part_seen(mask, part, token * P.q_heads);
        }
        to -= select(P.q_heads, 0u, seen);
    }
    return to;
",
            ),
        ],
    ),
    split(
        "empty-split-weight-one",
        "a part without keys is merged with LSE 0 and output 0",
        |r| r.empty_part = Some((0.0, 0.0)),
        &[
            ALL_PARTS,
            ZERO_VALUE,
            joined(
                PART_LSE,
                "    let lse = bitcast<f32>(partials[partial_at(part, q_row) + 1u]);
    return select(lse, 0.0, partials[partial_at(part, q_row)] == 0u);
",
            ),
        ],
    ),
    split(
        "empty-split-nan",
        "a part without keys is merged with the weight exp(-inf - -inf), which is NaN",
        |r| r.empty_part = Some((f32::NAN, 0.0)),
        &[
            ALL_PARTS,
            ZERO_VALUE,
            joined(
                PART_LSE,
                "    let seen = partials[partial_at(part, q_row)];
    if (seen == 0u) {
        return bitcast<f32>(seen | 0x7fc00000u);
    }
    return bitcast<f32>(partials[partial_at(part, q_row) + 1u]);
",
            ),
        ],
    ),
    super::fault(
        Kind::Merge,
        "merge-unwritten-parts",
        "parts without keys, which are never written, are merged like all others",
        reach::always,
        |r| {
            let unwritten = f32::from_bits(UNWRITTEN);
            r.empty_part = Some((unwritten, unwritten));
        },
        &[ALL_PARTS],
    ),
];
