//! The scales of K and V.

use super::heads::SCALE_OF_PAIR;
use super::{Edit, KernelFault, Kind, core, reach};
use crate::abi::Problem;
use crate::cpu::rules::Rules;

const fn scales(
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::KvScales, id, says, reach, twin, wgsl)
}

const K_FACTOR: &str = "* k_scale * P.scale";
const V_FACTOR: &str = "decode(word, l) * v_scale_of[key]";
const K_OF_ROW: &str = "whole_scale(P.k_scale, P.k_scales_at, kv_head, lane)";
const V_OF_ROW: &str = "whole_scale(P.v_scale, P.v_scales_at, kv_head, lane)";
const K_OF_SLOT: &str = "row_scale(P.k_scale, P.k_scales_at, slot, kv_head)";
const V_OF_SLOT: &str = "row_scale(P.v_scale, P.v_scales_at, slot, kv_head)";

pub(super) const FAULTS: &[KernelFault] = &[
    scales(
        "kscale-for-v",
        "V is scaled with the scale of K",
        reach::scales,
        |r| r.params = |p| (p.v_scale, p.v_scales_at) = (p.k_scale, p.k_scales_at),
        &[
            core(V_OF_ROW, K_OF_ROW),
            core("if (P.v_scale > 2u) {", "if (P.k_scale > 2u) {"),
            core(V_OF_SLOT, K_OF_SLOT),
        ],
    ),
    scales(
        "vscale-for-k",
        "K is scaled with the scale of V",
        reach::scales,
        |r| r.params = |p| (p.k_scale, p.k_scales_at) = (p.v_scale, p.v_scales_at),
        &[
            core(K_OF_ROW, V_OF_ROW),
            core("if (P.k_scale > 2u) {", "if (P.v_scale > 2u) {"),
            core(K_OF_SLOT, V_OF_SLOT),
        ],
    ),
    scales(
        "kscale-ignored",
        "K is not scaled",
        reach::k_scales,
        |r| r.params = |p| p.k_scale = 0,
        &[core(K_FACTOR, "* P.scale")],
    ),
    scales(
        "vscale-ignored",
        "V is not scaled",
        reach::v_scales,
        |r| r.params = |p| p.v_scale = 0,
        &[core(V_FACTOR, "decode(word, l)")],
    ),
    scales(
        "kvscale-divided",
        "K and V are divided by their scales",
        reach::scales,
        |r| r.kv_scale = |scale| 1.0 / scale,
        &[core(K_FACTOR, "/ k_scale * P.scale"), core(V_FACTOR, "decode(word, l) / v_scale_of[key]")],
    ),
    scales(
        "kvscale-head-zero",
        "the scale of KV head 0 is used for all KV heads",
        |p| reach::scales(p) && reach::kv_heads(p),
        |r| r.scale_head = |_, _, _| 0,
        &[
            core("(slot / P.block_size) * P.kv_heads + kv_head", "(slot / P.block_size) * P.kv_heads"),
            core("at + slot * P.kv_heads + kv_head", "at + slot * P.kv_heads"),
            core("scale_load_uniform(at + kv_head, lane)", "scale_load_uniform(at, lane)"),
        ],
    ),
    scales(
        "kvscale-by-query-head",
        "the scale is that of the KV head with the number of the query head, or of the last one",
        |p| reach::scales(p) && reach::kv_heads(p),
        |r| r.scale_head = |p, head, _| head.min(p.kv_heads - 1),
        &[
            SCALE_OF_PAIR,
            core(
                K_FACTOR,
                "* fault_scale(P.k_scale, P.k_scales_at, slot, min(pair_q[i] % P.q_heads, P.kv_heads - 1u)) * P.scale",
            ),
            core(V_FACTOR, "decode(word, l)"),
            core(
                "acc[i * P.dv + at] += w * element;",
                "let head = min(pair_q[i] % P.q_heads, P.kv_heads - 1u);
                    acc[i * P.dv + at] += w * element * fault_scale(P.v_scale, P.v_scales_at, slot_of[key], head);",
            ),
        ],
    ),
    scales(
        "kvscale-logical",
        "scales of tokens and blocks are looked up at the logical position",
        reach::slot_scales,
        |r| r.scale_slot = |key, _, _| key,
        &[
            core(K_OF_SLOT, "row_scale(P.k_scale, P.k_scales_at, tile.start + lane, kv_head)"),
            core(V_OF_SLOT, "row_scale(P.v_scale, P.v_scales_at, tile.start + lane, kv_head)"),
        ],
    ),
    scales(
        "kvscale-of-first-token",
        "the scale of the first key of a tile is used for the whole tile",
        reach::slot_scales,
        |r| r.scale_slot = |_, _, first| first,
        &[
            core(K_OF_SLOT, "row_scale(P.k_scale, P.k_scales_at, tile_slot(row, tile, 0u), kv_head)"),
            core(V_OF_SLOT, "row_scale(P.v_scale, P.v_scales_at, tile_slot(row, tile, 0u), kv_head)"),
        ],
    ),
    scales(
        "kvscale-missing-in-prefix",
        "K and V of a shared prefix are not scaled",
        |p| reach::scales(p) && reach::prefix(p),
        |r| {
            r.params = |p| {
                if p.phase == 1 {
                    (p.k_scale, p.v_scale) = (0, 0);
                }
            }
        },
        &[
            core(K_FACTOR, "* select(k_scale, 1.0, P.phase == 1u) * P.scale"),
            core(V_FACTOR, "decode(word, l) * select(v_scale_of[key], 1.0, P.phase == 1u)"),
        ],
    ),
];
