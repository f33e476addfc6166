//! Number formats: every code of every 8-bit and 16-bit format against a second implementation, and the edges of
//! every rounding interval.

use attnproof_oracle::{Elem, Granularity, OutType, Saturate, block_scale, token_scale};
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use proptest::prelude::*;

use crate::inputs::fixed;

const SMALL: [Elem; 7] =
    [Elem::F16, Elem::Bf16, Elem::E4m3fn, Elem::E5m2, Elem::E4m3fnuz, Elem::E5m2fnuz, Elem::Int8];
const BOTH: [Saturate; 2] = [Saturate::Finite, Saturate::Nonfinite];

/// The value of a code by textbook arithmetic, or by another crate where one has the format.
fn other_decode(elem: Elem, code: u32) -> f64 {
    let fnuz = |mantissa_bits: u32, bias: i32| {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let exponent = ((code & 0x7F) >> mantissa_bits) as i32;
        let fraction = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
        match (code, exponent) {
            (0x80, _) => f64::NAN,
            (_, 0) => sign * fraction * 2.0_f64.powi(1 - bias),
            _ => sign * (1.0 + fraction) * 2.0_f64.powi(exponent - bias),
        }
    };
    match elem {
        Elem::F32 => f64::from(f32::from_bits(code)),
        Elem::F16 => f16::from_bits(code as u16).to_f64(),
        Elem::Bf16 => bf16::from_bits(code as u16).to_f64(),
        Elem::E4m3fn => F8E4M3::from_bits(code as u8).to_f64(),
        Elem::E5m2 => F8E5M2::from_bits(code as u8).to_f64(),
        Elem::E4m3fnuz => fnuz(3, 8),
        Elem::E5m2fnuz => fnuz(2, 16),
        Elem::Int8 => f64::from(if code < 128 { code as i32 } else { code as i32 - 256 }),
    }
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn every_code_decodes_to_its_value() {
    for elem in SMALL {
        for code in 0..1_u32 << (8 * elem.bytes()) {
            let (got, want) = (elem.decode(code), other_decode(elem, code));
            assert!(same(got, want), "{} {code:#x}: {got} is not {want}", elem.name());
            assert_eq!(elem.is_nan(code), want.is_nan());
            // Bits beyond the element belong to its neighbours in a word.
            assert!(same(elem.decode(code | 0xABCD << (8 * elem.bytes())), want));
        }
    }
}

#[test]
fn every_code_survives_a_round_trip() {
    for elem in SMALL {
        for code in 0..1_u32 << (8 * elem.bytes()) {
            let value = elem.decode(code);
            for saturate in BOTH {
                let again = elem.encode(value, saturate);
                if value.is_nan() {
                    assert!(elem.is_nan(again), "{} {code:#x}", elem.name());
                } else if value.is_infinite() && saturate == Saturate::Finite {
                    assert_eq!(elem.decode(again), elem.max_finite().copysign(value));
                } else {
                    assert_eq!(again, code, "{} {value}", elem.name());
                }
            }
        }
    }
}

/// The finite values of a format in ascending order, each with a code; zero once.
fn ladder(elem: Elem) -> Vec<(f64, u32)> {
    let mut codes: Vec<(f64, u32)> = (0..1_u32 << (8 * elem.bytes()))
        .map(|code| (other_decode(elem, code), code))
        .filter(|(value, code)| value.is_finite() && (*value != 0.0 || *code == 0))
        .collect();
    codes.sort_by(|a, b| a.0.total_cmp(&b.0));
    codes
}

/// The values next to every midpoint, and the code each must get: below, at (ties to the even code) and above.
fn midpoints(elem: Elem) -> Vec<(f64, u32)> {
    let mut cases = Vec::new();
    for pair in ladder(elem).windows(2) {
        let ((low, low_code), (high, high_code)) = (pair[0], pair[1]);
        let middle = low + (high - low) / 2.0;
        cases.push((middle.next_down(), low_code));
        cases.push((middle.next_up(), high_code));
        cases.push((middle, if low_code % 2 == 0 { low_code } else { high_code }));
    }
    cases
}

#[test]
fn every_midpoint_goes_to_the_even_code_and_its_neighbours_to_the_nearest() {
    for elem in SMALL {
        let sign = 1 << (8 * elem.bytes() - 1);
        for (x, want) in midpoints(elem) {
            let got = elem.encode(x, Saturate::Nonfinite);
            // A negative number that rounds to zero keeps its sign where the format has a negative zero.
            let negative_zero = want == 0 && x < 0.0 && elem.decode(sign) == 0.0;
            let want = if negative_zero { sign } else { want };
            assert_eq!(got, want, "{} {x:e}", elem.name());
        }
    }
}

#[test]
fn rounding_agrees_with_other_crates() {
    for elem in [Elem::F16, Elem::Bf16, Elem::E4m3fn, Elem::E5m2] {
        for (x, _) in midpoints(elem) {
            // The other 16-bit crate may go through f32, so it is asked about f32 values only.
            let x = if elem.bytes() == 2 { f64::from(x as f32) } else { x };
            let (got, want) = match elem {
                Elem::F16 => {
                    (elem.encode(x, Saturate::Nonfinite), u32::from(f16::from_f32(x as f32).to_bits()))
                }
                Elem::Bf16 => {
                    (elem.encode(x, Saturate::Nonfinite), u32::from(bf16::from_f32(x as f32).to_bits()))
                }
                Elem::E4m3fn => (elem.encode(x, Saturate::Finite), u32::from(F8E4M3::from_f64(x).to_bits())),
                _ => (elem.encode(x, Saturate::Finite), u32::from(F8E5M2::from_f64(x).to_bits())),
            };
            assert_eq!(got, want, "{} {x:e}", elem.name());
        }
    }
}

#[test]
fn overflow_clamps_or_leaves_the_finite_numbers() {
    // Format, largest finite value, the tie above it, whether the tie goes up, and the code of overflow.
    let rows = [
        (Elem::F32, f64::from(f32::MAX), 2.0_f64.powi(128) - 2.0_f64.powi(103), true, 0x7F80_0000),
        (Elem::F16, 65504.0, 65520.0, true, 0x7C00),
        (Elem::Bf16, bf16::MAX.to_f64(), 2.0_f64.powi(128) - 2.0_f64.powi(119), true, 0x7F80),
        (Elem::E4m3fn, 448.0, 464.0, false, 0x7F),
        (Elem::E5m2, 57344.0, 61440.0, true, 0x7C),
        (Elem::E4m3fnuz, 240.0, 248.0, true, 0x80),
        (Elem::E5m2fnuz, 57344.0, 61440.0, true, 0x80),
    ];
    for (elem, max, tie, up, overflow) in rows {
        let name = elem.name();
        assert_eq!(elem.max_finite(), max, "{name}");
        let largest = elem.encode(max, Saturate::Nonfinite);
        assert_eq!(elem.encode(tie.next_down(), Saturate::Nonfinite), largest, "{name}");
        assert_eq!(elem.encode(tie, Saturate::Nonfinite), if up { overflow } else { largest }, "{name}");
        for x in [tie.next_up(), 1e300, f64::INFINITY] {
            assert_eq!(elem.encode(x, Saturate::Nonfinite), overflow, "{name} {x}");
            assert_eq!(elem.encode(x, Saturate::Finite), largest, "{name} {x}");
            assert_eq!(elem.decode(elem.encode(-x, Saturate::Finite)), -max, "{name} {x}");
        }
    }
    for saturate in BOTH {
        assert_eq!(Elem::Int8.encode(127.5, saturate), 0x7F);
        assert_eq!(Elem::Int8.encode(f64::INFINITY, saturate), 0x7F);
        assert_eq!(Elem::Int8.encode(-1e9, saturate), 0x80);
    }
}

#[test]
fn nan_becomes_the_nan_code() {
    let codes = [0x7FC0_0000, 0x7E00, 0x7FC0, 0x7F, 0x7E, 0x80, 0x80, 0];
    for (elem, code) in Elem::ALL.into_iter().zip(codes) {
        for saturate in BOTH {
            assert_eq!(elem.encode(f64::NAN, saturate), code, "{}", elem.name());
        }
    }
}

#[test]
fn zeros_and_the_smallest_numbers() {
    for elem in Elem::ALL {
        assert_eq!(elem.encode(0.0, Saturate::Finite), 0);
        for x in [f64::from_bits(1), f64::MIN_POSITIVE, 1e-300] {
            assert_eq!(elem.encode(x, Saturate::Finite), 0, "{} {x:e}", elem.name());
        }
        let negative = elem.encode(-0.0, Saturate::Finite);
        let signed = !matches!(elem, Elem::E4m3fnuz | Elem::E5m2fnuz | Elem::Int8);
        assert_eq!(negative, if signed { 1 << (8 * elem.bytes() - 1) } else { 0 });
        assert_eq!(elem.encode(-1e-300, Saturate::Finite), negative, "{}", elem.name());
    }
}

proptest! {
    #![proptest_config(fixed(4000))]

    #[test]
    fn f32_is_the_cast(bits in any::<u64>()) {
        let x = f64::from_bits(bits);
        for x in [x, f64::from(x as f32), x * 1e-30 % 1e39] {
            let (got, want) = (f32::from_bits(Elem::F32.encode(x, Saturate::Nonfinite)), x as f32);
            prop_assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:e}");
        }
    }

    #[test]
    fn f32_decodes_exactly(bits in any::<u32>()) {
        prop_assert!(same(Elem::F32.decode(bits), f64::from(f32::from_bits(bits))));
    }

    #[test]
    fn rounding_is_monotone_and_idempotent(a in -1e6..1e6_f64, b in -1e6..1e6_f64, shrink in 0..60_i32) {
        let (low, high) = (a.min(b) * 2.0_f64.powi(-shrink), a.max(b) * 2.0_f64.powi(-shrink));
        for out in OutType::ALL {
            prop_assert!(out.round(low) <= out.round(high));
            prop_assert_eq!(out.round(out.round(low)), out.round(low));
        }
    }
}

#[test]
fn names_and_codes_are_the_order_of_the_list() {
    for (code, elem) in Elem::ALL.into_iter().enumerate() {
        assert_eq!(elem.code() as usize, code);
        assert_eq!(Elem::parse(elem.name()), Some(elem));
    }
    for (code, granularity) in Granularity::ALL.into_iter().enumerate() {
        assert_eq!(granularity.code() as usize, code);
        assert_eq!(Granularity::parse(granularity.name()), Some(granularity));
    }
    for out in OutType::ALL {
        assert_eq!(OutType::parse(out.name()), Some(out));
        assert!(out.decode(out.poison()).is_nan());
    }
    assert_eq!(Elem::parse("fp8"), None);
    assert_eq!(Elem::ALL.map(Elem::name).join(" "), "f32 f16 bf16 e4m3fn e5m2 e4m3fnuz e5m2fnuz int8");
    assert_eq!(OutType::F32.poison(), 0x7FC0_A77B);
}

#[test]
fn scales_fill_the_format() {
    assert_eq!(token_scale(448.0, Elem::E4m3fn), 1.0);
    assert_eq!(token_scale(1.0, Elem::Int8), (1.0_f64 / 127.0) as f32);
    assert_eq!(block_scale(1.0, Elem::E4m3fn), (4.0_f64 / 448.0) as f32);
    assert_eq!(block_scale(60.0, Elem::E4m3fnuz), 1.0);
    // Zero, and what f32 cannot hold, divide nothing.
    for absmax in [0.0, 1e-45] {
        assert_eq!(token_scale(absmax, Elem::E5m2), 1.0);
        assert_eq!(block_scale(absmax, Elem::E5m2), 1.0);
    }
}
