// FP8 e4m3fnuz, four elements a word: bias 8, subnormals in steps of 2^-10, 0x80 is NaN.
const WORD_ELEMENTS: u32 = 4u;

fn decode(word: u32, l: u32) -> f32 {
    let bits = (word >> (8u * l)) & 0xffu;
    let exponent = (bits & 0x7fu) >> 3u;
    let mantissa = bits & 7u;
    var magnitude = f32(mantissa) * 0x1p-10f;
    if (exponent != 0u) {
        magnitude = bitcast<f32>(((exponent + 119u) << 23u) | (mantissa << 20u));
    }
    return select(magnitude, -magnitude, (bits & 0x80u) != 0u);
}
