//! The narrow bound and the score test: no right kernel on random data leaves them, and one lost key among many
//! thousands does.

use attnproof_oracle::{
    Alibi, Answer, Model, OutType, PRounding, Profile, Scale, Shape, Spec, Window, attention, bounds,
    budget_used, matched, stat_bounds,
};
use ndarray::{Array1, Array2, Axis, s};

use attnproof_oracle::simulate::{Algorithm, Errors, Machine, Question, Rng, Rounding};

use crate::inputs::Sequence;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::TwoPass,
    Algorithm::Normalised,
    Algorithm::Online(1),
    Algorithm::Online(64),
    Algorithm::Exp2(16),
    Algorithm::Split(4, 64),
];

/// What a kernel is asked about the only token of a row, head `h`, without the key `left_out`.
fn question(sequence: &Sequence, h: usize, left_out: Option<usize>) -> Question {
    let (spec, tk) = (&sequence.spec, sequence.k.dim().0);
    let first = spec.profile().window.left.map_or(0, |left| (tk - 1).saturating_sub(left as usize));
    let keys: Vec<usize> = (first..tk).filter(|&j| Some(j) != left_out).collect();
    let kv = h / spec.shape().group();
    let row = |tensor: &ndarray::Array3<f64>, j: usize| -> Vec<f32> {
        tensor.slice(s![j, kv, ..]).iter().map(|&x| x as f32).collect()
    };
    let slope = spec.slopes().map_or(0.0, |slopes| slopes[h]);
    Question {
        q: sequence.q.slice(s![0, h, ..]).iter().map(|&x| x as f32).collect(),
        k: keys.iter().map(|&j| row(&sequence.k, j)).collect(),
        v: keys.iter().map(|&j| row(&sequence.v, j)).collect(),
        bias: keys.iter().map(|&j| (slope, j as f32 - (tk - 1) as f32)).collect(),
        sink: spec.profile().sinks.as_ref().map(|sinks| sinks[h]),
        scale: spec.scale() as f32,
        dv: spec.shape().dv,
    }
}

fn machine(errors: Errors, seed: u64) -> Machine {
    Machine { rounding: Rounding::Nearest, errors, flush: false, coarse_tanh: false, rng: Rng(seed) }
}

/// What a kernel makes of a row with one query token.
fn run(sequence: &Sequence, algorithm: Algorithm, machine: &mut Machine, left_out: Option<usize>) -> Answer {
    let shape = sequence.spec.shape();
    let out = sequence.spec.profile().out;
    let mut answer = attention(&sequence.spec, &sequence.row()).expect("fits");
    for h in 0..shape.q_heads {
        let question = question(sequence, h, left_out);
        let (o, lse) = algorithm.run(machine, sequence.spec.profile(), &question);
        let o: Array1<f64> = o.iter().map(|&o| out.round(f64::from(o))).collect();
        answer.o.slice_mut(s![0, h, ..]).assign(&o);
        answer.lse[[0, h]] = f64::from(lse);
    }
    answer
}

fn sequence(profile: Profile, shape: Shape, tk: usize, seed: u64) -> Sequence {
    Sequence::normal(Spec::new(shape, profile).expect("fits"), 1, tk, seed)
}

fn profiles() -> Vec<Profile> {
    let alibi = Profile { alibi: Alibi::Formula, ..Profile::default() };
    let window = Window { left: Some(700), right: None };
    vec![
        Profile::default(),
        Profile { softcap: Some(2.0), ..alibi.clone() },
        Profile { window, sinks: Some(vec![1.0; 4]), out: OutType::Bf16, ..alibi },
        Profile { scale: Scale::Explicit(0.6), out: OutType::F16, ..Profile::default() },
        Profile { p_rounding: PRounding::Bf16, ..Profile::default() },
    ]
}

/// The largest share of the narrow bound, and the score.
fn judge(sequence: &Sequence, got: &Answer) -> (f64, Vec<matched::Score>) {
    let want = attention(&sequence.spec, &sequence.row()).expect("fits");
    let stat = stat_bounds(&sequence.spec, &sequence.row(), &Model::strict()).expect("fits");
    let out = sequence.spec.profile().out;
    let used = |((&got, &want), &bound): ((&f64, &f64), &f64)| budget_used(got, want, bound, out);
    let used = got.o.iter().zip(&want.o).zip(&stat).map(used).fold(0.0, f64::max);
    (used, matched::score(&sequence.spec, &sequence.row(), &Model::strict(), got).expect("fits"))
}

#[test]
fn no_right_kernel_leaves_the_narrow_bound_or_scores() {
    let shape = Shape { q_heads: 4, kv_heads: 2, d: 32, dv: 16 };
    for (number, profile) in profiles().into_iter().enumerate() {
        for (tk, algorithms) in
            [(16, &ALGORITHMS[..]), (129, &ALGORITHMS), (1024, &ALGORITHMS), (8192, &ALGORITHMS[3..])]
        {
            let sequence = sequence(profile.clone(), shape, tk, (number + tk) as u64);
            for (at, &algorithm) in algorithms.iter().enumerate() {
                if tk > 4000 && number > 0 && at != number % 3 {
                    continue;
                }
                let errors = [Errors::Share(1.0), Errors::Share(-1.0), Errors::Random][at % 3];
                let got = run(&sequence, algorithm, &mut machine(errors, tk as u64), None);
                let (used, scores) = judge(&sequence, &got);
                let place = format!("profile {number}, {tk} keys, {algorithm:?}, {errors:?}");
                assert!(used <= 1.0, "{place}: {used}");
                let limit = matched::threshold(&profile);
                assert!(scores[0].t <= limit, "{place}: {:?}", scores[0]);
            }
        }
    }
}

#[test]
fn partial_outputs_in_sixteen_bits_stay_within_their_narrow_bound() {
    for out in [OutType::F16, OutType::Bf16] {
        let model = Model::strict().with_part_rounding(out);
        for (tk, seed) in [(100, 1), (300, 2), (1000, 3)] {
            let sequence = sequence(Profile::default(), ONE_HEAD, tk, seed);
            let got =
                run(&sequence, Algorithm::SplitStored(8, 64, out), &mut machine(Errors::Random, 1), None);
            let want = attention(&sequence.spec, &sequence.row()).expect("fits");
            let used = |bounds: &ndarray::Array3<f64>| {
                let used =
                    got.o.iter().zip(&want.o).zip(bounds).map(|((got, want), e)| (got - want).abs() / e);
                used.fold(0.0, f64::max)
            };
            let stat = |model| stat_bounds(&sequence.spec, &sequence.row(), &model).expect("fits");
            let (declared, undeclared) = (used(&stat(model)), used(&stat(Model::strict())));
            assert!(declared <= 1.0 && undeclared > 1.0, "{}, {tk}: {declared}, {undeclared}", out.name());
        }
    }
}

const ONE_HEAD: Shape = Shape { q_heads: 1, kv_heads: 1, d: 32, dv: 32 };

#[test]
fn one_key_lost_among_many_thousands_is_named() {
    for (tk, lost) in [(8192, 5000), (65_536, 40_003)] {
        let sequence = sequence(Profile::default(), ONE_HEAD, tk, 3);
        let algorithm = Algorithm::Split(16, 64);
        let got = run(&sequence, algorithm, &mut machine(Errors::Random, 1), Some(lost));
        let scores = matched::score(&sequence.spec, &sequence.row(), &Model::strict(), &got).expect("fits");
        let best = &scores[0];
        assert!(best.t > 8.0 && (best.kappa + 1.0).abs() < 0.05, "{best:?}");
        assert_eq!(best.says, format!("key {lost} left out"));
        let right = run(&sequence, algorithm, &mut machine(Errors::Random, 1), None);
        let scores = matched::score(&sequence.spec, &sequence.row(), &Model::strict(), &right).expect("fits");
        assert!(scores[0].t < 8.0, "{:?}", scores[0]);
    }
}

#[test]
fn the_narrow_bound_sees_what_the_rigorous_one_cannot() {
    let sequence = sequence(Profile::default(), ONE_HEAD, 8192, 8);
    let got = run(&sequence, Algorithm::Online(64), &mut machine(Errors::None, 1), Some(77));
    let (want, det) = bounds(&sequence.spec, &sequence.row(), &Model::strict()).expect("fits");
    let used = got.o.iter().zip(&want.o).zip(&det.o).map(|((got, want), e)| (got - want).abs() / e);
    assert!(used.fold(0.0, f64::max) < 1.0);
    assert!(judge(&sequence, &got).0 > 1.0);
}

#[test]
fn directions_are_named() {
    let shape = Shape { q_heads: 4, kv_heads: 2, d: 32, dv: 16 };
    let plain = Profile {
        alibi: Alibi::Slopes(vec![0.01, 0.02, 0.005, 0.03]),
        softcap: Some(4.0),
        ..Profile::default()
    };
    for out in [OutType::F32, OutType::Bf16] {
        let asked = sequence(Profile { out, ..plain.clone() }, shape, 400, 5);
        let spec_of = |profile: Profile| Spec::new(shape, profile).expect("fits");
        let slopes = [0.01, 0.02, 0.005, 0.03].map(|slope| slope * 1.02).to_vec();
        let scale = (asked.spec.scale() * 1.02) as f32;
        let twice: Vec<usize> = (0..=250).chain(250..400).collect();
        let without: Vec<usize> = (0..128).chain(192..400).collect();
        let next: Vec<usize> = (0..400).map(|j| if j == 301 { 302 } else { j }).collect();
        let keep = |keys: &[usize]| Sequence {
            // The bias of ALiBi follows the last key, so that only its changed distances matter.
            spec: spec_of(Profile { alibi: Alibi::None, ..asked.spec.profile().clone() }),
            k: asked.k.select(Axis(0), keys),
            v: asked.v.select(Axis(0), keys),
            ..asked.clone()
        };
        let flat = Sequence { spec: keep(&next).spec.clone(), ..asked.clone() };
        let with = |profile: Profile| Sequence { spec: spec_of(profile), ..asked.clone() };
        let other_v = Sequence { k: asked.k.clone(), ..keep(&next) };
        let cases = [
            (&flat, keep(&twice), "key 250 counted twice", 1.0),
            (&flat, other_v, "V of key 301 taken from the next key", 1.0),
            (&flat, keep(&without), "keys 128 to 191 left out", -1.0),
            (
                &asked,
                with(Profile { scale: Scale::Explicit(scale), ..asked.spec.profile().clone() }),
                "scale",
                0.02,
            ),
            (
                &asked,
                with(Profile { alibi: Alibi::Slopes(slopes), ..asked.spec.profile().clone() }),
                "slopes",
                0.02,
            ),
        ];
        for (asked, wrong, says, kappa) in cases {
            let mut got = attention(&wrong.spec, &wrong.row()).expect("fits");
            got.o.mapv_inplace(|o| out.round(o));
            let scores = matched::score(&asked.spec, &asked.row(), &Model::strict(), &got).expect("fits");
            let best = &scores[0];
            let near = (best.kappa - kappa).abs() < 0.25 * kappa.abs();
            assert!(best.t > 8.0 && best.says.contains(says) && near, "{says}, {}: {best:?}", out.name());
        }
    }
}

#[test]
fn a_scale_off_by_a_thousandth_is_measured() {
    let asked = sequence(Profile::default(), ONE_HEAD, 2000, 6);
    let scale = Scale::Explicit((asked.spec.scale() * 1.001) as f32);
    let spec = Spec::new(ONE_HEAD, Profile { scale, ..Profile::default() }).expect("fits");
    let wrong = Sequence { spec, ..asked.clone() };
    let got = run(&wrong, Algorithm::Split(4, 64), &mut machine(Errors::Random, 4), None);
    let scores = matched::score(&asked.spec, &asked.row(), &Model::strict(), &got).expect("fits");
    assert!(scores[0].t > 8.0 && (scores[0].kappa - 1e-3).abs() < 3e-5, "{scores:?}");
    assert_eq!(scores[0].says, "the scale is times 1.001000");
}

#[test]
fn the_narrow_bound_is_never_wider_and_the_letter_has_none() {
    for (number, profile) in profiles().into_iter().enumerate() {
        let shape = Shape { q_heads: 4, kv_heads: 2, d: 8, dv: 4 };
        let sequence = sequence(profile, shape, 40 * number + 1, number as u64);
        for model in Model::all() {
            let (answer, det) = bounds(&sequence.spec, &sequence.row(), &model).expect("fits");
            let stat = stat_bounds(&sequence.spec, &sequence.row(), &model).expect("fits");
            assert!(stat.iter().zip(&det.o).all(|(stat, det)| stat <= det), "{}", model.name);
            let scores = matched::score(&sequence.spec, &sequence.row(), &model, &answer).expect("fits");
            if model.name == "wgsl-letter" {
                assert_eq!((&stat, scores.len()), (&det.o, 0));
            } else {
                assert!(number == 0 || !scores.is_empty());
            }
        }
    }
}

#[test]
fn an_output_of_another_shape_is_an_error() {
    let sequence = sequence(Profile::default(), ONE_HEAD, 5, 1);
    let got = Answer { o: ndarray::Array3::zeros((1, 1, 31)), lse: Array2::zeros((1, 1)) };
    let error = matched::score(&sequence.spec, &sequence.row(), &Model::strict(), &got).expect_err("31 dims");
    assert!(error.to_string().starts_with("o has shape [1, 1, 31], expected [1, 1, 32]"), "{error}");
}
