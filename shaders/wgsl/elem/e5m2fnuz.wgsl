// FP8 e5m2fnuz, four elements a word: bias 16, subnormals in steps of 2^-17, 0x80 is NaN.
const WORD_ELEMENTS: u32 = 4u;

fn decode(word: u32, l: u32) -> f32 {
    let bits = (word >> (8u * l)) & 0xffu;
    let exponent = (bits & 0x7fu) >> 2u;
    let mantissa = bits & 3u;
    var magnitude = f32(mantissa) * 0x1p-17f;
    if (exponent != 0u) {
        magnitude = bitcast<f32>(((exponent + 111u) << 23u) | (mantissa << 21u));
    }
    return select(magnitude, -magnitude, (bits & 0x80u) != 0u);
}
