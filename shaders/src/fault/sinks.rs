//! The sinks.

use std::f32::consts::LN_2;

use super::{Edit, KernelFault, Kind, joined, reach};
use crate::cpu::rules::{Part, Rules, cap, sink};

const fn sinks(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Sinks, id, says, reach::sinks, twin, wgsl)
}

/// The LSE of the parts and the sink, if there is one.
pub(super) fn log_sum_exp(parts: &[Part], sink: Option<f32>) -> f32 {
    let all = || parts.iter().map(|part| part.lse).chain(sink);
    let top = all().fold(f32::NEG_INFINITY, f32::max);
    if top == f32::NEG_INFINITY { top } else { top + libm::logf(all().map(|x| libm::expf(x - top)).sum()) }
}

const SINK: &str = "sink = side[P.sinks_at + q_row % P.q_heads];";

pub(super) const FAULTS: &[KernelFault] = &[
    sinks(
        "sink-ignored",
        "there is no sink",
        |r| r.sink = |_, _, _, _| None,
        &[joined("let sinks = (P.flags & FLAG_SINKS) != 0u;", "let sinks = false;")],
    ),
    sinks(
        "sink-scaled",
        "the sink is multiplied by the scale of q . k",
        |r| r.sink = |r, p, head, sinks| sink(r, p, head, sinks).map(|sink| sink * p.scale),
        &[joined(SINK, "sink = P.scale * side[P.sinks_at + q_row % P.q_heads];")],
    ),
    sinks(
        "sink-twice",
        "the sink is counted twice",
        |r| r.sink = |r, p, head, sinks| sink(r, p, head, sinks).map(|sink| sink + LN_2),
        &[joined(SINK, "sink = side[P.sinks_at + q_row % P.q_heads] + 0.6931471806;")],
    ),
    super::fault(
        Kind::Sinks,
        "sink-per-split",
        "the sink is counted once for each split, also for an empty one",
        |p| reach::sinks(p) && reach::splits(p),
        |r| {
            r.sink =
                |r, p, head, sinks| sink(r, p, head, sinks).map(|sink| sink + libm::logf(p.splits as f32));
        },
        &[joined(SINK, "sink = side[P.sinks_at + q_row % P.q_heads] + log(f32(P.splits));")],
    ),
    sinks(
        "sink-next-head",
        "a query head has the sink of the head after it, the last one that of the first",
        |r| r.sink = |r, p, head, sinks| sink(r, p, (head + 1) % p.q_heads, sinks),
        &[joined(SINK, "sink = side[P.sinks_at + (q_row + 1u) % P.q_heads];")],
    ),
    sinks(
        "sink-not-in-lse",
        "the LSE leaves the sink out",
        |r| {
            r.lse = |_, _, _, parts| log_sum_exp(parts, None);
            r.empty = |_| Some((0.0, f32::NEG_INFINITY));
        },
        &[
            joined("select(NEGATIVE_INFINITY, bitcast<u32>(sink), sinks)", "NEGATIVE_INFINITY"),
            joined("bitcast<u32>(top + log(sum))", "bitcast<u32>(parts_lse(mask, parts, q_row))"),
            PARTS_LSE,
        ],
    ),
    super::fault(
        Kind::Sinks,
        "sink-capped",
        "the softcap is applied to the sink",
        |p| reach::sinks(p) && reach::softcap(p),
        |r| r.sink = |r, p, head, sinks| sink(r, p, head, sinks).map(|sink| cap(p, sink)),
        &[joined(
            SINK,
            "sink = side[P.sinks_at + q_row % P.q_heads];
        if (P.softcap > 0.0) {
            sink = P.softcap * tanh(clamp(sink / P.softcap, -15.0, 15.0));
        }",
        )],
    ),
];

/// `parts_lse`: the LSE of the parts alone.
const PARTS_LSE: Edit = joined(
    "@compute @workgroup_size(64)\n",
    "fn parts_lse(mask: u32, parts: u32, q_row: u32) -> f32 {
    var top = -0x1p127f;
    for (var part = 0u; part < parts; part++) {
        if (part_seen(mask, part, q_row)) {
            top = max(top, part_lse(part, q_row));
        }
    }
    var sum = 0.0;
    for (var part = 0u; part < parts; part++) {
        if (part_seen(mask, part, q_row)) {
            sum += exp(part_lse(part, q_row) - top);
        }
    }
    return top + log(sum);
}

@compute @workgroup_size(64)
",
);
