// Slot-major pools K[slot][head][d], V[slot][head][dv] with strides from the uniforms. A word holds WORD_ELEMENTS
// neighbouring dims of one token.
const UNIT_DIMS: u32 = WORD_ELEMENTS;
const STEP_KEYS: u32 = 1u;

fn k_word(slot: u32, kv_head: u32, w: u32) -> u32 {
    return (P.k_base + slot * P.k_slot + kv_head * P.k_head) / WORD_ELEMENTS + w;
}

fn v_word(slot: u32, kv_head: u32, unit: u32) -> u32 {
    return (P.v_base + slot * P.v_slot + kv_head * P.v_head) / WORD_ELEMENTS + unit;
}

fn widen(keys: vec2<u32>) -> vec2<u32> {
    return keys;
}
