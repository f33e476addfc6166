//! The decoding of K and V.

use attnproof_oracle::elem::Elem;

use super::{Edit, KernelFault, Kind};
use crate::abi::Problem;
use crate::cpu::rules::{Rules, decode};

const fn format(
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Formats, id, says, reach, twin, wgsl)
}

const fn e4m3fn(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "elem/e4m3fn.wgsl", find, replace }
}

const fn e4m3fnuz(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "elem/e4m3fnuz.wgsl", find, replace }
}

const fn e5m2(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "elem/e5m2.wgsl", find, replace }
}

const fn e5m2fnuz(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "elem/e5m2fnuz.wgsl", find, replace }
}

/// An 8-bit float.
fn fp8(elem: Elem) -> bool {
    elem.bytes() == 1 && elem != Elem::Int8
}

/// Whether the exponent bits of an 8-bit float are all zero.
fn subnormal(elem: Elem, bits: u32) -> bool {
    let exponent = if matches!(elem, Elem::E5m2 | Elem::E5m2fnuz) { 0x7c } else { 0x78 };
    bits & exponent == 0 && !elem.is_nan(bits)
}

const SIGNED: &str = "return select(magnitude, -magnitude, (bits & 0x80u) != 0u);";

pub(super) const FAULTS: &[KernelFault] = &[
    format(
        "fn-as-fnuz",
        "e4m3fn is decoded as e4m3fnuz",
        |p| p.launch.elem == Elem::E4m3fn,
        |r| r.decode = |elem, bits| decode(if elem == Elem::E4m3fn { Elem::E4m3fnuz } else { elem }, bits),
        &[
            e4m3fn("0x1p-9f", "0x1p-10f"),
            e4m3fn("exponent + 120u", "exponent + 119u"),
            e4m3fn(SIGNED, NAN_AT_MINUS_0),
        ],
    ),
    format(
        "fnuz-as-fn",
        "e4m3fnuz is decoded as e4m3fn",
        |p| p.launch.elem == Elem::E4m3fnuz,
        |r| r.decode = |elem, bits| decode(if elem == Elem::E4m3fnuz { Elem::E4m3fn } else { elem }, bits),
        &[e4m3fnuz("0x1p-10f", "0x1p-9f"), e4m3fnuz("exponent + 119u", "exponent + 120u")],
    ),
    format(
        "e5m2-as-e4m3",
        "e5m2 is decoded as e4m3fn",
        |p| p.launch.elem == Elem::E5m2,
        |r| r.decode = |elem, bits| decode(if elem == Elem::E5m2 { Elem::E4m3fn } else { elem }, bits),
        &[
            e5m2(">> 2u", ">> 3u"),
            e5m2("bits & 3u", "bits & 7u"),
            e5m2("0x1p-16f", "0x1p-9f"),
            e5m2("exponent + 112u", "exponent + 120u"),
            e5m2("mantissa << 21u", "mantissa << 20u"),
        ],
    ),
    format(
        "e4m3-as-e5m2",
        "e4m3fn is decoded as e5m2",
        |p| p.launch.elem == Elem::E4m3fn,
        |r| r.decode = |elem, bits| decode(if elem == Elem::E4m3fn { Elem::E5m2 } else { elem }, bits),
        &[
            e4m3fn(">> 3u", ">> 2u"),
            e4m3fn("bits & 7u", "bits & 3u"),
            e4m3fn("0x1p-9f", "0x1p-16f"),
            e4m3fn("exponent + 120u", "exponent + 112u"),
            e4m3fn("mantissa << 20u", "mantissa << 21u"),
        ],
    ),
    format(
        "e5m2fnuz-as-e5m2",
        "e5m2fnuz is decoded as e5m2",
        |p| p.launch.elem == Elem::E5m2fnuz,
        |r| r.decode = |elem, bits| decode(if elem == Elem::E5m2fnuz { Elem::E5m2 } else { elem }, bits),
        &[e5m2fnuz("0x1p-17f", "0x1p-16f"), e5m2fnuz("exponent + 111u", "exponent + 112u")],
    ),
    format(
        "fp8-subnormals-flushed",
        "subnormal 8-bit floats decode to 0",
        |p| fp8(p.launch.elem),
        |r| {
            r.decode = |elem, bits| {
                if fp8(elem) && subnormal(elem, bits) { 0.0 } else { decode(elem, bits) }
            }
        },
        &[
            e4m3fn("f32(mantissa) * 0x1p-9f", "0.0"),
            e4m3fnuz("f32(mantissa) * 0x1p-10f", "0.0"),
            e5m2("f32(mantissa) * 0x1p-16f", "0.0"),
            e5m2fnuz("f32(mantissa) * 0x1p-17f", "0.0"),
        ],
    ),
    format(
        "f16-subnormals-flushed",
        "subnormal f16 decode to 0",
        |p| p.launch.elem == Elem::F16,
        |r| {
            r.decode = |elem, bits| {
                if elem == Elem::F16 && bits & 0x7c00 == 0 { 0.0 } else { decode(elem, bits) }
            }
        },
        &[Edit { file: "elem/f16.wgsl", find: "f32(mantissa) * 0x1p-24f", replace: "0.0" }],
    ),
    format(
        "saturation-as-nan",
        "the largest value of an 8-bit float decodes to NaN, with either sign",
        |p| fp8(p.launch.elem),
        |r| {
            r.decode = |elem, bits| {
                let value = decode(elem, bits);
                if fp8(elem) && f64::from(value.abs()) == elem.max_finite() { f32::NAN } else { value }
            }
        },
        &[
            e4m3fn(SIGNED, NAN_AT_7E),
            e4m3fnuz(SIGNED, NAN_AT_7F),
            e5m2(SIGNED, NAN_AT_7B),
            e5m2fnuz(SIGNED, NAN_AT_7F),
        ],
    ),
    format(
        "int8-unsigned",
        "int8 is read as unsigned",
        |p| p.launch.elem == Elem::Int8,
        |r| {
            r.decode = |elem, bits| if elem == Elem::Int8 { bits as f32 } else { decode(elem, bits) };
        },
        &[Edit {
            file: "elem/int8.wgsl",
            find: "return f32(bitcast<i32>(word << (24u - 8u * l)) >> 24u);",
            replace: "return f32((word >> (8u * l)) & 0xffu);",
        }],
    ),
    format(
        "f16-as-bf16",
        "f16 is decoded as bf16",
        |p| p.launch.elem == Elem::F16,
        |r| r.decode = |elem, bits| decode(if elem == Elem::F16 { Elem::Bf16 } else { elem }, bits),
        &[Edit {
            file: "elem/f16.wgsl",
            find: "return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);",
            replace: "return bitcast<f32>(bits << 16u);",
        }],
    ),
];

// The NaN is made from the code, since a constant NaN is an error in WGSL.
const NAN_AT_MINUS_0: &str = "if (bits == 0x80u) {
        return bitcast<f32>(bits | 0x7fc00000u);
    }
    return select(magnitude, -magnitude, (bits & 0x80u) != 0u);";
const NAN_AT_7B: &str = "if ((bits & 0x7fu) == 0x7bu) {
        return bitcast<f32>(bits | 0x7fc00000u);
    }
    return select(magnitude, -magnitude, (bits & 0x80u) != 0u);";
const NAN_AT_7E: &str = "if ((bits & 0x7fu) == 0x7eu) {
        return bitcast<f32>(bits | 0x7fc00000u);
    }
    return select(magnitude, -magnitude, (bits & 0x80u) != 0u);";
const NAN_AT_7F: &str = "if ((bits & 0x7fu) == 0x7fu) {
        return bitcast<f32>(bits | 0x7fc00000u);
    }
    return select(magnitude, -magnitude, (bits & 0x80u) != 0u);";
