// Signed 8-bit integers, four elements a word.
const WORD_ELEMENTS: u32 = 4u;

fn decode(word: u32, l: u32) -> f32 {
    return f32(bitcast<i32>(word << (24u - 8u * l)) >> 24u);
}
