// The classic pools K[block][head][d/x][B][x] with x = 16 bytes, V[block][head][dv][B]. A word of V holds
// WORD_ELEMENTS neighbouring tokens of one dim; whole blocks are read, also past the last key.
const UNIT_DIMS: u32 = 1u;
const STEP_KEYS: u32 = WORD_ELEMENTS;
const CHUNK_WORDS: u32 = 4u;

fn k_word(slot: u32, kv_head: u32, w: u32) -> u32 {
    let head = (P.k_base + (slot / P.block_size) * P.k_block + kv_head * P.k_head) / WORD_ELEMENTS;
    return head + ((w / CHUNK_WORDS) * P.block_size + slot % P.block_size) * CHUNK_WORDS + w % CHUNK_WORDS;
}

fn v_word(slot: u32, kv_head: u32, unit: u32) -> u32 {
    let head = P.v_base + (slot / P.block_size) * P.v_block + kv_head * P.v_head;
    return (head + unit * P.block_size + slot % P.block_size) / WORD_ELEMENTS;
}

fn widen(keys: vec2<u32>) -> vec2<u32> {
    let last = P.block_size - 1u;
    return vec2<u32>(keys.x & ~last, (keys.y + last) & ~last);
}
