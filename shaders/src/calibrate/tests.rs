use super::*;

/// The answers of a machine that does every operation as `f64` says and then `change`s the result.
fn machine(change: impl Fn(&Question, f64) -> f32) -> Calibration {
    let questions = questions();
    let answers: Vec<f32> = questions.iter().map(|q| change(q, q.exact())).collect();
    Calibration::of(&questions, &answers)
}

/// What an IEEE machine with good functions and without contraction does.
fn ieee(q: &Question, exact: f64) -> f32 {
    if q.op == Op::MulAdd { q.a * q.b + q.c } else { exact as f32 }
}

#[test]
fn an_ieee_machine_is_strict() {
    let found = machine(ieee);
    assert_eq!(found.rounding, Rounding::Nearest);
    assert!(
        found.keeps_subnormals
            && found.keeps_f16_subnormals
            && found.exp_of_zero_is_one
            && found.tanh_saturates
    );
    assert!(found.fma_is_fused && !found.contracts);
    assert!(found.exp < 0.2 && found.log < 0.4 && found.division_ulp <= 0.5001, "{found:?}");
    assert_eq!(found.model().name, Model::strict().name);
    assert!(found.outside_wgsl().is_empty());
}

#[test]
fn truncation_is_seen_and_allowed() {
    let found = machine(|q, exact| match q.op {
        Op::Add | Op::Mul if f64::from(exact as f32).abs() > exact.abs() => {
            let near = exact as f32;
            if near > 0.0 { near.next_down() } else { near.next_up() }
        }
        _ => ieee(q, exact),
    });
    assert_eq!((found.rounding, found.model().name), (Rounding::Neighbour, Model::wgsl_letter().name));
    assert!(found.outside_wgsl().is_empty());
}

#[test]
fn flushing_and_a_hardware_tanh_are_fast_math() {
    let found = machine(|q, exact| match q.op {
        _ if exact.abs() < f64::from(f32::MIN_POSITIVE) => 0.0,
        Op::Tanh => (exact * (1.0 + 5e-6)) as f32,
        _ => ieee(q, exact),
    });
    assert!(!found.keeps_subnormals);
    assert_eq!(found.model().name, Model::fast_math().name);
    let coarse = machine(|q, exact| if q.op == Op::Tanh { (exact + 9e-6) as f32 } else { ieee(q, exact) });
    assert_eq!(coarse.model().name, Model::wgsl_letter().name);
}

#[test]
fn whatever_is_outside_the_table_is_named() {
    let named = |change: &dyn Fn(&Question, f64) -> Option<f32>| {
        machine(|q, exact| change(q, exact).unwrap_or_else(|| ieee(q, exact))).outside_wgsl().join("; ")
    };
    let far = |x: f64| (x * (1.0 + 4e-7)) as f32;
    assert!(named(&|q, x| (q.op == Op::Mul).then(|| far(x))).contains("not one of the two numbers"));
    assert!(named(&|q, x| (q.op == Op::Div).then(|| far(x))).contains("division errs by"));
    assert!(named(&|q, x| (q.op == Op::Exp).then_some((x * 1.00003) as f32)).starts_with("exp errs by"));
    assert!(named(&|q, x| (q.op == Op::Exp2).then_some((x * 1.00003) as f32)).starts_with("exp2 errs by"));
    assert!(named(&|q, x| (q.op == Op::Log).then_some((x + 1e-6) as f32)).starts_with("log errs by"));
    assert!(named(&|q, x| (q.op == Op::Tanh).then_some((x + 2e-5) as f32)).starts_with("tanh errs by"));
    let nan = named(&|q, _| (q.op == Op::Tanh && q.a.abs() > 44.0).then_some(f32::NAN));
    assert!(nan.contains("tanh of a large argument"), "{nan}");
}
