//! The linear position bias.

use super::{Edit, KernelFault, Kind, core, reach};
use crate::cpu::rules::{Rules, distance};

const fn alibi(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Alibi, id, says, reach::alibi, twin, wgsl)
}

const SLOPE: &str = "pair_slope[lane] = side[P.slopes_at + head];";

pub(super) const FAULTS: &[KernelFault] = &[
    alibi(
        "alibi-ignored",
        "there is no bias",
        |r| r.slope = |_, _, _| 0.0,
        &[core(SLOPE, "pair_slope[lane] = 0.0;")],
    ),
    alibi(
        "alibi-ignored-in-decode",
        "there is no bias in a row with one query token",
        |r| {
            r.slope = |_, query, slopes| if query.q_len == 1 { 0.0 } else { slopes[query.head as usize] };
        },
        &[core(SLOPE, "pair_slope[lane] = select(side[P.slopes_at + head], 0.0, pair.q_len == 1u);")],
    ),
    alibi(
        "alibi-next-head",
        "a query head has the slope of the head after it, the last one that of the first",
        |r| r.slope = |p, query, slopes| slopes[((query.head + 1) % p.q_heads) as usize],
        &[core(SLOPE, "pair_slope[lane] = side[P.slopes_at + (head + 1u) % P.q_heads];")],
    ),
    alibi(
        "alibi-power-of-two",
        "the slope of head h is 2^(-8 (h + 1) / H) for every head count",
        |r| r.slope = |p, query, _| libm::exp2f(-8.0 * (query.head + 1) as f32 / p.q_heads as f32),
        &[core(SLOPE, "pair_slope[lane] = exp2(-8.0 * f32(head + 1u) / f32(P.q_heads));")],
    ),
    alibi(
        "alibi-exponent-shift",
        "the exponent of the slope counts heads from 0: every slope is 2^(8 / n) times the right one",
        |r| {
            r.slope = |p, query, slopes| {
                let n = (1_u32 << p.q_heads.ilog2()) as f32;
                slopes[query.head as usize] * libm::exp2f(8.0 / n)
            }
        },
        &[core(
            SLOPE,
            "pair_slope[lane] = side[P.slopes_at + head] * exp2(8.0 / f32(1u << firstLeadingBit(P.q_heads)));",
        )],
    ),
    alibi(
        "alibi-sign",
        "the bias has the other sign",
        |r| r.slope = |_, query, slopes| -slopes[query.head as usize],
        &[core(SLOPE, "pair_slope[lane] = -side[P.slopes_at + head];")],
    ),
    alibi(
        "alibi-origin",
        "the slope multiplies the key's position instead of its distance to the query",
        |r| r.distance = |_, _, key, _| key as i32,
        &[core("bias = pair_slope[pair] * f32(distance);", "bias = pair_slope[pair] * f32(key);")],
    ),
    alibi(
        "alibi-by-kv-head",
        "the slope is that of the query head with the number of the KV head",
        |r| r.slope = |p, query, slopes| slopes[(query.head / p.group) as usize],
        &[core(SLOPE, "pair_slope[lane] = side[P.slopes_at + head / P.group];")],
    ),
    alibi(
        "alibi-times-scale",
        "the bias is added before the scale, and so scaled",
        |r| r.slope = |p, query, slopes| slopes[query.head as usize] * p.scale,
        &[core(SLOPE, "pair_slope[lane] = side[P.slopes_at + head] * P.scale;")],
    ),
    alibi(
        "alibi-physical",
        "the distance is that from the position of the query to the physical slot of the key",
        |r| r.distance = |p, position, _, slot| distance(p, position, slot, slot),
        &[core("* P.scale, i, key)", "* P.scale, i, slot)")],
    ),
    KernelFault {
        equivalent: Some(
            "under a causal mask no visible key lies after its query, without one it is declared",
        ),
        ..alibi(
            "alibi-abs",
            "the distance is taken to either side under a causal mask, too",
            |r| r.distance = |_, position, key, _| -(key as i32 - position).abs(),
            &[core("if ((P.flags & FLAG_CAUSAL) == 0u) {", "if (true) {")],
        )
    },
];
