// f32: one element a word.
const WORD_ELEMENTS: u32 = 1u;

fn decode(word: u32, l: u32) -> f32 {
    return bitcast<f32>(word);
}
