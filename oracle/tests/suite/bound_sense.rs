//! The bound makes sense: it is small where little can go wrong, sees a wrong kernel, grows with the model, and says
//! so where it guarantees nothing.

use attnproof_oracle::{
    Accum, Bounds, Model, OutType, PRounding, Profile, Scale, Shape, Spec, attention, bounds, budget_used,
};
use ndarray::{Axis, Slice};

use crate::inputs::Sequence;

const SHAPE: Shape = Shape { q_heads: 2, kv_heads: 1, d: 32, dv: 4 };

fn sequence(profile: Profile, tk: usize) -> Sequence {
    Sequence::normal(Spec::new(SHAPE, profile).expect("fits"), 1, tk, 77)
}

fn bound(sequence: &Sequence, model: &Model) -> Bounds {
    bounds(&sequence.spec, &sequence.row(), model).expect("fits").1
}

/// The largest share of the bound that the answer to `other` uses as an answer to `asked`.
fn share(asked: &Sequence, other: &Sequence, model: &Model) -> f64 {
    let (answer, bounds) = bounds(&asked.spec, &asked.row(), model).expect("fits");
    let wrong = attention(&other.spec, &other.row()).expect("fits");
    let out = asked.spec.profile().out;
    let used = |((got, want), bound): ((&f64, &f64), &f64)| budget_used(out.round(*got), *want, *bound, out);
    wrong.o.iter().zip(&answer.o).zip(&bounds.o).map(used).fold(0.0, f64::max)
}

/// The sequence without its key `at`.
fn without(sequence: &Sequence, at: usize) -> Sequence {
    let keep: Vec<usize> = (0..sequence.k.dim().0).filter(|&j| j != at).collect();
    Sequence {
        k: sequence.k.select(Axis(0), &keep),
        v: sequence.v.select(Axis(0), &keep),
        ..sequence.clone()
    }
}

#[test]
fn one_key_is_bound_by_a_few_roundings_of_its_value() {
    // The output is w v / w: scores do not matter; division, a product and a rescale do.
    let sequence = sequence(Profile::default(), 1);
    let bound = bound(&sequence, &Model::strict());
    for (bound, v) in bound.o.iter().zip(sequence.v.iter().cycle()) {
        assert!(*bound < 40.0 * 2.0_f64.powi(-24) * v.abs(), "{bound} for {v}");
        assert!(*bound > 2.0_f64.powi(-24) * v.abs(), "{bound} for {v}");
    }
}

#[test]
fn a_key_dropped_from_a_peaked_row_is_seen() {
    let mut asked = sequence(Profile { scale: Scale::Explicit(1.0), ..Profile::default() }, 300);
    let spotlight = asked.q.slice_axis(Axis(1), Slice::from(0..1)).mapv(|q| q * 0.5);
    asked.k.slice_axis_mut(Axis(0), Slice::from(140..141)).assign(&spotlight);
    let models = [
        Model::strict(),
        Model::fast_math(),
        Model::wgsl_letter(),
        Model::strict().with_p_rounding(PRounding::Bf16),
    ];
    for model in models {
        let used = share(&asked, &without(&asked, 140), &model);
        assert!(used > 2.0, "{}: {used}", model.name);
        assert!(share(&asked, &asked, &model) == 0.0);
    }
}

#[test]
fn a_key_dropped_from_a_short_flat_row_is_seen_in_every_output_format() {
    for out in OutType::ALL {
        let asked = sequence(Profile { out, ..Profile::default() }, 128);
        for at in [0, 64, 127] {
            let used = share(&asked, &without(&asked, at), &Model::wgsl_letter());
            assert!(used > 2.0, "{}, key {at}: {used}", out.name());
        }
    }
}

#[test]
fn negligible_keys_cost_nothing_to_nearest_only() {
    let peaked = |tk: usize| {
        let mut sequence = sequence(Profile::default(), tk);
        sequence.q.fill(10.0);
        sequence.k.fill(-1.0);
        sequence.k.slice_axis_mut(Axis(0), Slice::from(0..1)).fill(1.0);
        sequence
    };
    let growth = |model: Model| bound(&peaked(4000), &model).o.sum() / bound(&peaked(4), &model).o.sum();
    assert!(growth(Model::strict()) < 2.0, "{}", growth(Model::strict()));
    assert!(growth(Model::wgsl_letter()) > 10.0, "{}", growth(Model::wgsl_letter()));
}

#[test]
fn the_bound_grows_with_every_constant() {
    let sequence =
        sequence(Profile { softcap: Some(5.0), sinks: Some(vec![0.5; 2]), ..Profile::default() }, 90);
    let strict = Model::strict();
    let base = bound(&sequence, &strict);
    let wider = [
        Model { u: 2.0 * strict.u, ..strict },
        Model { u_qk: 2.0 * strict.u_qk, ..strict },
        Model { u_acc: 2.0 * strict.u_acc, ..strict },
        Model { exp_const: 4.0, ..strict },
        Model { exp_slope: 6.0, ..strict },
        Model { lazy: 5.55, ..strict },
        Model { ftz_in: 0.5, ..strict },
        strict.with_p_rounding(PRounding::F16),
        strict.with_p_rounding(PRounding::Bf16),
        strict.with_p_rounding(PRounding::E4m3 { scale: 256.0 }),
        strict.with_accum(Accum::F16Qk),
        Model::fast_math(),
        Model::wgsl_letter(),
    ];
    for model in wider {
        let bound = bound(&sequence, &model);
        assert!(bound.o.iter().zip(&base.o).all(|(wide, base)| wide > base), "{model:?}");
    }
    let narrower = [strict.with_levels(0.0), Model { depth: Some(8.0), r_max: 2.0, ..strict }];
    for model in narrower {
        let bound = bound(&sequence, &model);
        assert!(bound.o.iter().zip(&base.o).all(|(narrow, base)| narrow < base), "{model:?}");
        assert!(bound.lse.iter().zip(&base.lse).all(|(narrow, base)| narrow <= base), "{model:?}");
    }
    let in_sum = Model { p_in_sum: true, ..strict.with_p_rounding(PRounding::Bf16) };
    assert!(bound(&sequence, &in_sum).lse[[0, 0]] > base.lse[[0, 0]] + 1.0 / 512.0);
}

#[test]
fn the_profile_widens_the_bound_by_itself_and_only_once() {
    let profile = Profile { p_rounding: PRounding::F16, accum: Accum::F16Qk, ..Profile::default() };
    for model in Model::all() {
        let declared = bound(&sequence(profile.clone(), 40), &model);
        let twice = bound(&sequence(profile.clone(), 40), &model.with_profile(&profile));
        let by_hand = bound(&sequence(Profile::default(), 40), &model.with_profile(&profile));
        assert_eq!(declared, twice);
        assert_eq!(declared, by_hand);
    }
}

#[test]
fn the_letter_admits_both_neighbours_of_a_binary16_output() {
    let sequence = sequence(Profile { out: OutType::F16, ..Profile::default() }, 20);
    let letter = Model::wgsl_letter();
    let (answer, wide) = bounds(&sequence.spec, &sequence.row(), &letter).expect("fits");
    let narrow = bound(&sequence, &Model { out_either: false, ..letter });
    let mut refused = 0;
    for ((&o, &wide), &narrow) in answer.o.iter().zip(&wide.o).zip(&narrow.o) {
        let nearest = OutType::F16.encode(o.abs());
        let value = |code: u32| OutType::F16.decode(code).copysign(o);
        let other = if value(nearest).abs() < o.abs() { nearest + 1 } else { nearest - 1 };
        for code in [nearest, other] {
            assert!(budget_used(value(code), o, wide, OutType::F16) <= 1.0, "{o}");
        }
        refused += usize::from(budget_used(value(other), o, narrow, OutType::F16) > 1.0);
    }
    assert!(refused > 0, "without the allowance the farther neighbour is refused somewhere");
}

#[test]
fn empty_rows_have_no_slack_and_a_lone_sink_very_little() {
    let empty = sequence(Profile::default(), 0);
    let empty = bound(&empty, &Model::wgsl_letter());
    assert!(empty.o.iter().chain(&empty.lse).all(|&bound| bound == 0.0) && empty.ok.iter().all(|&ok| ok));
    let lone = bound(
        &sequence(Profile { sinks: Some(vec![1.5; 2]), ..Profile::default() }, 0),
        &Model::wgsl_letter(),
    );
    assert!(lone.o.iter().all(|&bound| bound == 0.0) && lone.ok.iter().all(|&ok| ok));
    assert!(lone.lse.iter().all(|&bound| bound > 0.0 && bound < 3e-5), "{}", lone.lse);
}

#[test]
fn rows_without_a_guarantee_say_so() {
    let explicit = Profile { scale: Scale::Explicit(1.0), ..Profile::default() };
    let ok = |change: &dyn Fn(&mut Sequence), profile: &Profile| {
        let mut sequence = sequence(profile.clone(), 8);
        change(&mut sequence);
        bound(&sequence, &Model::strict()).ok[[0, 0]]
    };
    assert!(ok(&|_| {}, &explicit));
    // Scores that overflow f32, or that exp2 cannot be shifted by, or that overflow binary16.
    assert!(!ok(&|sequence| sequence.q.fill(1e38), &explicit));
    assert!(!ok(&|sequence| sequence.q.fill(3e9), &explicit));
    let half = Profile { accum: Accum::F16Qk, ..explicit.clone() };
    assert!(ok(&|sequence| sequence.q.fill(1e2), &half));
    assert!(!ok(&|sequence| sequence.q.fill(1e5), &half));
    // An output beyond binary16, an accumulator beyond f32, and values that are not numbers.
    let out = Profile { out: OutType::F16, ..explicit.clone() };
    assert!(ok(&|sequence| sequence.v.fill(6e4), &out));
    assert!(!ok(&|sequence| sequence.v.fill(65504.0), &out));
    assert!(!ok(&|sequence| sequence.v.fill(3e38), &explicit));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(!ok(&|sequence| sequence.v[[3, 0, 0]] = bad, &explicit), "{bad}");
        assert!(!ok(&|sequence| sequence.k[[3, 0, 0]] = bad, &explicit), "{bad}");
        assert!(!ok(&|sequence| sequence.q[[0, 0, 0]] = bad, &explicit), "{bad}");
    }
}
