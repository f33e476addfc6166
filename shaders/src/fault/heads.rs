//! Which KV head a query head reads, together with its scale.

use super::{Edit, KernelFault, Kind, core, joined, reach};
use crate::cpu::rules::Rules;

const fn heads(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Heads, id, says, reach::kv_heads, twin, wgsl)
}

// The right core loads each word once for all pairs; here each pair loads for itself, from `fault_head(pair)`.
const NO_K_WORD: Edit = core("        let word = k_load(k_word(slot, kv_head, w));\n", "");
const NO_K: Edit = core("            let element = decode(word, l);\n", "");
const K_OF_PAIR: Edit = core(
    "weight[i * TILE + lane] += q_tile[i * P.d + w * WORD_ELEMENTS + l] * element;",
    "let word = k_load(k_word(slot, fault_head(i), w));
                weight[i * TILE + lane] += q_tile[i * P.d + w * WORD_ELEMENTS + l] * decode(word, l);",
);
const K_SCALE_OF_PAIR: Edit =
    core("k_scale * P.scale", "fault_scale(P.k_scale, P.k_scales_at, slot, fault_head(i)) * P.scale");
const NO_V_WORD: Edit =
    core("        let word = v_load(v_word(slot_of[step * STEP_KEYS], kv_head, unit));\n", "");
const NO_V: Edit = core("            let element = decode(word, l) * v_scale_of[key];\n", "");
const V_OF_PAIR: Edit = core(
    "acc[i * P.dv + at] += w * element;",
    "let head = fault_head(i);
                    let word = v_load(v_word(slot_of[step * STEP_KEYS], head, unit));
                    let scale = fault_scale(P.v_scale, P.v_scales_at, slot_of[key], head);
                    acc[i * P.dv + at] += w * (decode(word, l) * scale);",
);

/// A scale of any granularity, uncounted where it holds for the whole row.
pub(super) const SCALE_OF_PAIR: Edit = core(
    "fn capped(x: f32) -> f32 {\n",
    "fn fault_scale(granularity: u32, at: u32, slot: u32, kv_head: u32) -> f32 {
    if (granularity > 2u) {
        return row_scale(granularity, at, slot, kv_head);
    }
    if (granularity == 0u) {
        return 1.0;
    }
    return side[at + select(0u, kv_head, granularity == 2u)];
}

fn capped(x: f32) -> f32 {
",
);

const BEFORE_CAP: &str = "fn capped(x: f32) -> f32 {\n";
const MODULO: Edit = core(
    BEFORE_CAP,
    "fn fault_head(pair: u32) -> u32 {
    return pair_q[pair] % P.q_heads % P.kv_heads;
}

fn capped(x: f32) -> f32 {
",
);
const BY_KV_HEADS: Edit = core(
    BEFORE_CAP,
    "fn fault_head(pair: u32) -> u32 {
    return min(pair_q[pair] % P.q_heads / P.kv_heads, P.kv_heads - 1u);
}

fn capped(x: f32) -> f32 {
",
);
const ZERO: Edit = core(
    BEFORE_CAP,
    "fn fault_head(pair: u32) -> u32 {
    return 0u;
}

fn capped(x: f32) -> f32 {
",
);
const NEXT: Edit = core(
    BEFORE_CAP,
    "fn fault_head(pair: u32) -> u32 {
    return (pair_q[pair] % P.q_heads / P.group + 1u) % P.kv_heads;
}

fn capped(x: f32) -> f32 {
",
);
const SHIFT: Edit = core(
    BEFORE_CAP,
    "fn fault_head(pair: u32) -> u32 {
    return min((pair_q[pair] % P.q_heads) >> firstLeadingBit(P.group), P.kv_heads - 1u);
}

fn capped(x: f32) -> f32 {
",
);

const fn both(head: Edit) -> [Edit; 9] {
    [NO_K_WORD, NO_K, K_OF_PAIR, K_SCALE_OF_PAIR, NO_V_WORD, NO_V, V_OF_PAIR, SCALE_OF_PAIR, head]
}

pub(super) const FAULTS: &[KernelFault] = &[
    heads(
        "head-mod",
        "query head h reads KV head h mod Hk",
        |r| {
            r.k_head = |p, head| head % p.kv_heads;
            r.v_head = r.k_head;
        },
        &both(MODULO),
    ),
    heads(
        "head-k-mod",
        "query head h reads K of KV head h mod Hk, and V of the right one",
        |r| r.k_head = |p, head| head % p.kv_heads,
        &[NO_K_WORD, NO_K, K_OF_PAIR, K_SCALE_OF_PAIR, SCALE_OF_PAIR, MODULO],
    ),
    heads(
        "head-v-mod",
        "query head h reads V of KV head h mod Hk, and K of the right one",
        |r| r.v_head = |p, head| head % p.kv_heads,
        &[NO_V_WORD, NO_V, V_OF_PAIR, SCALE_OF_PAIR, MODULO],
    ),
    heads(
        "head-div-kv",
        "query head h reads KV head h / Hk, or the last one",
        |r| {
            r.k_head = |p, head| (head / p.kv_heads).min(p.kv_heads - 1);
            r.v_head = r.k_head;
        },
        &both(BY_KV_HEADS),
    ),
    heads(
        "head-zero",
        "every query head reads KV head 0",
        |r| {
            r.k_head = |_, _| 0;
            r.v_head = r.k_head;
        },
        &both(ZERO),
    ),
    heads(
        "head-next",
        "every query head reads the KV head after its own, the last ones the first",
        |r| {
            r.k_head = |p, head| (head / p.group + 1) % p.kv_heads;
            r.v_head = r.k_head;
        },
        &both(NEXT),
    ),
    heads(
        "head-shift",
        "the group size is rounded down to a power of two, so that a shift can replace the division",
        |r| {
            r.k_head = |p, head| (head >> p.group.ilog2()).min(p.kv_heads - 1);
            r.v_head = r.k_head;
        },
        &both(SHIFT),
    ),
    super::fault(
        Kind::Heads,
        "heads-above-eight",
        "only the first eight query heads of a group are written",
        |p| p.launch.q_heads / p.launch.kv_heads > 8,
        |r| {
            r.out_row = |p, q_row, _| (q_row % p.q_heads % p.group < 8).then_some(q_row);
        },
        &[
            joined(
                "    outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;",
                "    if (q_row % P.q_heads % P.group < 8u) {
        outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
    }",
            ),
            joined(
                "    outputs[P.lse_at + out_row(q_row)] = bits;",
                "    if (q_row % P.q_heads % P.group < 8u) {
        outputs[P.lse_at + out_row(q_row)] = bits;
    }",
            ),
        ],
    ),
];
