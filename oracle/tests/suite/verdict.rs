//! The comparison: every finding is reported, and the budget is the least multiple of the bound that admits a value.

use approx::assert_abs_diff_eq;
use attnproof_oracle::{CompareError, Finding, OutType, Tensor, TensorVerdict, budget_used, compare};
use proptest::prelude::*;

use crate::inputs::fixed;

const GUARD: u32 = 0xDEAD_BEEF;

/// Compares f32 values of shape `[1, n]`.
fn verdict(got: &[f32], want: &[f64], bound: &[f64]) -> TensorVerdict {
    let bits: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
    compare(&tensor(&[1, got.len()], &bits, want, bound), 1.0).expect("comparable")
}

fn tensor<'a>(shape: &'a [usize], got_bits: &'a [u32], want: &'a [f64], bound: &'a [f64]) -> Tensor<'a> {
    Tensor {
        name: "o",
        shape,
        got_bits,
        out: OutType::F32,
        want,
        bound,
        guards: &[GUARD, GUARD],
        guard_pattern: GUARD,
    }
}

#[test]
fn within_the_bound_passes_and_beyond_it_is_wrong() {
    let exact = verdict(&[1.0, -2.0], &[1.0, -2.0], &[0.0, 0.0]);
    assert_eq!((exact.finding, exact.budget_used, exact.worst, exact.total), (Finding::Pass, 0.0, None, 2));

    let close = verdict(&[1.0, 1.5], &[1.0, 1.0], &[1.0, 1.0]);
    assert_eq!((close.finding, close.over), (Finding::Pass, 0));
    assert_abs_diff_eq!(close.budget_used, 0.5, epsilon = 1e-6);
    let worst = close.worst.expect("some budget is used");
    assert_eq!((worst.index, worst.got, worst.want, worst.bound), (vec![0, 1], 1.5, 1.0, 1.0));

    let wrong = verdict(&[1.0, 1.5, 4.0], &[1.0, 1.0, 1.0], &[0.1, 0.1, 1.0]);
    assert_eq!((wrong.finding, wrong.over, wrong.total), (Finding::Wrong, 2, 3));
    assert_eq!(wrong.worst.expect("wrong").index, [0, 1]);
}

#[test]
fn the_policy_is_a_multiple_of_the_bound() {
    let (bits, want, bound) = ([1.5_f32.to_bits()], [1.0], [0.3]);
    let tensor = tensor(&[1], &bits, &want, &bound);
    assert_eq!(compare(&tensor, 1.0).expect("comparable").finding, Finding::Wrong);
    assert_eq!(compare(&tensor, 2.0).expect("comparable").finding, Finding::Pass);
}

#[test]
fn classes_must_agree() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for got in [nan, inf, -inf] {
        let verdict = verdict(&[0.0, got], &[0.0, 0.0], &[1e30, 1e30]);
        assert_eq!((verdict.finding, verdict.over), (Finding::Nonfinite, 1), "{got}");
        assert_eq!(verdict.budget_used, f64::INFINITY);
        assert_eq!(verdict.worst.expect("nonfinite").index, [0, 1]);
    }
    for (got, want) in [(inf, f64::INFINITY), (-inf, f64::NEG_INFINITY), (nan, f64::NAN)] {
        assert_eq!(verdict(&[got], &[want], &[0.0]).finding, Finding::Pass, "{want}");
        assert_eq!(verdict(&[1.0], &[want], &[1e30]).finding, Finding::Nonfinite, "{want}");
    }
    assert_eq!(verdict(&[inf], &[f64::NEG_INFINITY], &[0.0]).finding, Finding::Nonfinite);
    assert_eq!(verdict(&[nan], &[f64::NEG_INFINITY], &[0.0]).finding, Finding::Nonfinite);
}

#[test]
fn the_payload_is_unwritten_even_where_nan_is_expected() {
    for out in OutType::ALL {
        for want in [0.0, f64::NAN, f64::NEG_INFINITY] {
            let (bits, wants) = ([out.encode(want), out.poison()], [want; 2]);
            let tensor = Tensor { out, ..tensor(&[2], &bits, &wants, &[0.0; 2]) };
            let verdict = compare(&tensor, 1.0).expect("comparable");
            assert_eq!((verdict.finding, verdict.over), (Finding::Unwritten, 1), "{}", out.name());
            assert_eq!(verdict.worst.expect("unwritten").index, [1]);
        }
    }
}

#[test]
fn the_gravest_finding_is_reported() {
    let wrong = 5.0_f32.to_bits();
    let (nan, poison) = (f32::NAN.to_bits(), OutType::F32.poison());
    let (want, bound) = ([0.0; 3], [1.0; 3]);
    let finding = |bits: [u32; 3], guards: &[u32]| {
        compare(&Tensor { guards, ..tensor(&[3], &bits, &want, &bound) }, 1.0).expect("comparable")
    };
    let intact = [GUARD; 4];
    assert_eq!(finding([0, wrong, 0], &intact).finding, Finding::Wrong);
    assert_eq!(finding([0, wrong, nan], &intact).finding, Finding::Nonfinite);
    assert_eq!(finding([poison, wrong, nan], &intact).finding, Finding::Unwritten);
    for touched in 0..4 {
        let mut guards = intact;
        guards[touched] ^= 1;
        let verdict = finding([poison, wrong, nan], &guards);
        assert_eq!((verdict.finding, verdict.over), (Finding::OutOfBounds, 3));
        // Numbers are judged all the same.
        let verdict = finding([0; 3], &guards);
        assert_eq!((verdict.finding, verdict.over, verdict.budget_used), (Finding::OutOfBounds, 0, 0.0));
    }
}

#[test]
fn a_comparison_that_means_nothing_is_an_error() {
    let bits = [0_u32; 2];
    let base = tensor(&[2], &bits, &[0.0; 2], &[1.0; 2]);
    let error = |tensor: Tensor<'_>, policy| compare(&tensor, policy).expect_err("means nothing");
    let empty = Tensor { shape: &[2, 0], got_bits: &[], want: &[], bound: &[], ..base };
    assert!(matches!(error(empty, 1.0), CompareError::Empty { .. }));
    let lists = [
        ("got_bits", Tensor { got_bits: &bits[..1], ..base }),
        ("want", Tensor { want: &[0.0; 3], ..base }),
        ("bound", Tensor { bound: &[], ..base }),
    ];
    for (name, tensor) in lists {
        assert!(matches!(error(tensor, 1.0), CompareError::Length { list, expected: 2, .. } if list == name));
    }
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let message = error(Tensor { bound: &[1.0, bad], ..base }, 1.0).to_string();
        assert!(message.starts_with("o[1]: the bound is"), "{message}");
        assert!(matches!(error(base, bad), CompareError::Policy { .. }));
    }
    let wide = error(Tensor { out: OutType::F16, got_bits: &[0, 0x1_0000], ..base }, 1.0);
    assert_eq!(wide.to_string(), "o[1]: 0x10000 has bits beyond f16");
}

#[test]
fn half_an_ulp_of_the_output_costs_nothing() {
    let one_up = f64::from(f32::EPSILON);
    // 1 + 0.4 ulp rounds to 1; 1 + 0.5 ulp is a tie that goes to 1; the ulp above is odd and does not get the tie.
    for (got, want) in [(1.0, 1.0 + 0.4 * one_up), (1.0, 1.0 + 0.5 * one_up)] {
        assert_eq!(budget_used(got, want, 0.0, OutType::F32), 0.0);
    }
    assert_eq!(budget_used(1.0 + one_up, 1.0 + 0.5 * one_up, 0.0, OutType::F32), f64::INFINITY);
    assert!(budget_used(1.0 + one_up, 1.0 + 0.5 * one_up, 1e-9, OutType::F32) < 1e-300);
    // Below a power of two the spacing halves.
    assert_eq!(budget_used(1.0, 1.0 - 0.3 * one_up, 0.0, OutType::F32), f64::INFINITY);
    assert_eq!(budget_used(1.0, 1.0 - 0.25 * one_up, 0.0, OutType::F32), 0.0);
    // Zero of either sign, and the largest number.
    assert_eq!(budget_used(-0.0, 0.0, 0.0, OutType::F16), 0.0);
    assert_eq!(budget_used(0.0, 2.0_f64.powi(-25), 0.0, OutType::F16), 0.0);
    assert_eq!(budget_used(65504.0, 65519.9, 0.0, OutType::F16), 0.0);
    assert_eq!(budget_used(65504.0, 65520.0, 0.0, OutType::F16), f64::INFINITY);
    assert_eq!(budget_used(1.0, 2.0, f64::INFINITY, OutType::F32), 0.0);
    assert_eq!(budget_used(1.0, 2.0, f64::NAN, OutType::F32), f64::INFINITY);
}

proptest! {
    #![proptest_config(fixed(4000))]

    #[test]
    fn the_budget_is_the_least_that_admits(
        want in -100.0..100.0_f64,
        offset in -30.0..30.0_f64,
        shrink in 0..40_i32,
        bound in 1e-9..10.0_f64,
        which in 0..3_usize,
    ) {
        let out = OutType::ALL[which];
        let got = out.round(want + offset * 2.0_f64.powi(-shrink));
        let used = budget_used(got, want, bound, out);
        let admits = |t: f64| out.round(want - t * bound) <= got && got <= out.round(want + t * bound);
        // The test itself rounds want + t bound to f64.
        let slack = 1e-13 * want.abs() / bound + 1e-12 * used;
        prop_assert!(admits(used + slack), "{got} {want} {bound}");
        if used > slack {
            prop_assert!(!admits(used - slack), "{got} {want} {bound}");
        }
    }
}
