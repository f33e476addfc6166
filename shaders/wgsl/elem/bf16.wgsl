// bfloat16, two elements a word: the upper half of an f32.
const WORD_ELEMENTS: u32 = 2u;

fn decode(word: u32, l: u32) -> f32 {
    return bitcast<f32>(((word >> (16u * l)) & 0xffffu) << 16u);
}
