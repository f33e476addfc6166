// IEEE binary16, two elements a word, by integer arithmetic: unpack2x16float may flush subnormals.
const WORD_ELEMENTS: u32 = 2u;

fn decode(word: u32, l: u32) -> f32 {
    let bits = (word >> (16u * l)) & 0xffffu;
    let exponent = (bits >> 10u) & 31u;
    let mantissa = bits & 1023u;
    var magnitude = f32(mantissa) * 0x1p-24f;
    if (exponent != 0u) {
        magnitude = bitcast<f32>(((exponent + 112u) << 23u) | (mantissa << 13u));
    }
    return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);
}
