//! The merge of parts, and the LSE.

use std::f32::consts::{LN_2, LOG2_E};

use super::sinks::log_sum_exp;
use super::{Edit, KernelFault, Kind, core, joined, reach};
use crate::abi::Problem;
use crate::cpu::rules::{Rules, score};

const fn merge(
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Merge, id, says, reach, twin, wgsl)
}

/// More than one thing is merged.
fn parts_or_sink(p: &Problem) -> bool {
    reach::parts(p) || reach::sinks(p)
}

const LSE: &str = "bitcast<u32>(top + log(sum))";
const SUM: &str = "if (part_seen(mask, part, q_row)) {\n            sum += exp(part_lse(part, q_row) - top);";
const O: &str = "if (part_seen(mask, part, q_row)) {\n                o += exp(part_lse(part, q_row) - top)";
const SEEN: &str = "            seen = true;\n";

pub(super) const FAULTS: &[KernelFault] = &[
    merge(
        "merge-no-weights",
        "the outputs of the parts are averaged with equal weights",
        parts_or_sink,
        |r| {
            r.merge_weight = |_| 1.0;
            r.lse = |_, _, sink, parts| log_sum_exp(parts, sink);
        },
        &[
            joined("var o = 0.0;", "var o = 0.0;\n        var total = select(0.0, exp(sink - top), sinks);"),
            joined("o += exp(part_lse(part, q_row) - top) *", "total += 1.0;\n                o +="),
            joined("bitcast<u32>(o / sum)", "bitcast<u32>(o / total)"),
        ],
    ),
    merge(
        "merge-base2",
        "natural LSEs of the parts are merged with powers and logarithms of 2",
        parts_or_sink,
        |r| {
            r.merge_weight = libm::exp2f;
            r.lse = |top, sum, _, _| top + libm::log2f(sum);
        },
        &[
            joined("sum += exp(part_lse", "sum += exp2(part_lse"),
            joined("o += exp(part_lse", "o += exp2(part_lse"),
            joined(LSE, "bitcast<u32>(top + log2(sum))"),
        ],
    ),
    merge(
        "merge-drops-last",
        "the last of several parts is left out",
        reach::parts,
        |r| {
            r.parts = |parts| {
                if parts.len() > 1 {
                    parts.pop();
                }
            }
        },
        &[
            joined(
                "    var seen = false;\n",
                "    var seen = false;\n    var last = 0u;\n    var count = 0u;\n",
            ),
            joined(SEEN, "            seen = true;\n            last = part;\n            count++;\n"),
            joined(
                SUM,
                "if (part_seen(mask, part, q_row) && (part != last || count == 1u)) {
            sum += exp(part_lse(part, q_row) - top);",
            ),
            joined(
                O,
                "if (part_seen(mask, part, q_row) && (part != last || count == 1u)) {
                o += exp(part_lse(part, q_row) - top)",
            ),
        ],
    ),
    merge(
        "merge-first-two",
        "only the first two parts are merged",
        |p| p.parts() > 2,
        |r| r.parts = |parts| parts.truncate(2),
        &[
            joined(
                "    var seen = false;\n",
                "    var seen = false;\n    var second = ~0u;\n    var count = 0u;\n",
            ),
            joined(
                SEEN,
                "            seen = true;
            count++;
            second = select(second, part, count == 2u);
",
            ),
            joined(
                SUM,
                "if (part_seen(mask, part, q_row) && part <= second) {
            sum += exp(part_lse(part, q_row) - top);",
            ),
            joined(
                O,
                "if (part_seen(mask, part, q_row) && part <= second) {
                o += exp(part_lse(part, q_row) - top)",
            ),
        ],
    ),
    merge(
        "merge-without-max",
        "weights of parts are exp of their LSE, without the maximum: infinite above 88",
        reach::always,
        |r| r.merge_max = |_| 0.0,
        &[joined("    var sum = 0.0;\n", "    top = 0.0;\n    var sum = 0.0;\n")],
    ),
    merge(
        "lse-base2",
        "the LSE is given to base 2",
        reach::always,
        |r| {
            r.lse = |top, sum, _, _| (top + libm::logf(sum)) * LOG2_E;
            r.empty = |sink| Some((0.0, sink.map_or(f32::NEG_INFINITY, |sink| sink * LOG2_E)));
        },
        &[
            joined(LSE, "bitcast<u32>((top + log(sum)) * 1.442695041)"),
            joined(
                "select(NEGATIVE_INFINITY, bitcast<u32>(sink), sinks)",
                "select(NEGATIVE_INFINITY, bitcast<u32>(sink * 1.442695041), sinks)",
            ),
        ],
    ),
    merge(
        "lse-without-max",
        "the LSE of each part is the logarithm of its denominator, without the maximum",
        reach::always,
        |r| r.part_lse = |_, sum| libm::logf(sum),
        &[core("bitcast<u32>(run_max[lane] + log(run_sum[lane]))", "bitcast<u32>(log(run_sum[lane]))")],
    ),
    merge(
        "lse-of-last-part",
        "the LSE is that of the last part",
        parts_or_sink,
        |r| r.lse = |_, _, _, parts| parts[parts.len() - 1].lse,
        &[
            joined("    var seen = false;\n", "    var seen = false;\n    var last_lse = 0.0;\n"),
            joined(SEEN, "            seen = true;\n            last_lse = lse;\n"),
            joined(LSE, "bitcast<u32>(last_lse)"),
        ],
    ),
    merge(
        "split-gap",
        "the last key of every split but the last is left out",
        reach::splits,
        |r| {
            r.sees = |p, sight, _, key| {
                let gap = (key + 1) % p.split_tokens == 0 && (key + 1) / p.split_tokens < p.splits;
                sight.covers(key) && !gap
            }
        },
        &[core(
            "return key >= pair_lo[pair] && key < pair_hi[pair];",
            "let gap = (key + 1u) % P.split_tokens == 0u && (key + 1u) / P.split_tokens < P.splits;
    return key >= pair_lo[pair] && key < pair_hi[pair] && !gap;",
        )],
    ),
    merge(
        "split-overlap",
        "the first key of every split but the first is counted in the split before it, too",
        reach::splits,
        |r| {
            r.score = |r, p, sight, key, dot, bias| {
                let twice = if key > 0 && key % p.split_tokens == 0 { LN_2 } else { 0.0 };
                score(r, p, sight, key, dot, bias) + twice
            }
        },
        &[core(
            "return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside);",
            "let twice = select(0.0, 0.6931471806, key > 0u && key % P.split_tokens == 0u);
    return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside) + twice;",
        )],
    ),
    merge(
        "prefix-part-dropped",
        "the parts of a shared prefix are not merged",
        reach::prefix,
        |r| r.mask = |mask| mask & 1,
        &[joined(
            "tables[P.merge_mask_at + q_row / P.q_heads];",
            "tables[P.merge_mask_at + q_row / P.q_heads] & 1u;",
        )],
    ),
];
