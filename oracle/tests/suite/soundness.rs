//! No correct kernel leaves its bound: simulated kernels, as wrong as their model allows, on random and hostile rows.

use attnproof_oracle::simulate::{Algorithm, Errors, Machine, Question, Rng, Rounding};
use attnproof_oracle::{
    Accum, Alibi, BiasOrder, Causal, Elem, LseBase, Model, OutType, PRounding, Profile, Saturate, Scale,
    Shape, Spec, Window, bounds, budget_used,
};
use ndarray::Axis;

use crate::inputs::Sequence;

const FAMILIES: usize = 12;
const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::TwoPass,
    Algorithm::Normalised,
    Algorithm::Online(1),
    Algorithm::Online(16),
    Algorithm::Exp2(8),
    Algorithm::Split(3, 4),
    Algorithm::Split(7, 1),
];
const ROUNDINGS: [Rounding; 5] =
    [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::TowardZero, Rounding::Either];

/// The largest shares of the bound that a run of kernels used, and by whom.
#[derive(Default)]
struct Shares {
    o: f64,
    lse: f64,
    worst: String,
    rows: usize,
    not_ok: usize,
}

impl Shares {
    /// The shares, of kernels none of which left its bound.
    fn sound(self) -> Shares {
        assert!(self.o <= 1.0 && self.lse <= 1.0, "o {}, lse {}: {}", self.o, self.lse, self.worst);
        self
    }
}

/// Inputs of one family, exact in a format drawn at random.
fn fill(sequence: &mut Sequence, family: usize, rng: &mut Rng) {
    let tk = sequence.k.dim().0;
    match family {
        0 => {}
        1 => sequence.q.mapv_inplace(|q| q * 30.0),
        2 => {
            // Pairs of equal keys with opposite huge values.
            for j in (1..tk).step_by(2) {
                let (key, value) = (
                    sequence.k.index_axis(Axis(0), j - 1).to_owned(),
                    sequence.v.index_axis(Axis(0), j - 1).mapv(|v| -v),
                );
                sequence.k.index_axis_mut(Axis(0), j).assign(&key);
                sequence.v.index_axis_mut(Axis(0), j).assign(&value);
            }
            sequence.v.mapv_inplace(|v| v * 1e6);
        }
        3 => {
            let key = sequence.k.index_axis(Axis(0), 0).to_owned();
            sequence.k.axis_iter_mut(Axis(0)).for_each(|mut row| row.assign(&key));
        }
        4 => sequence.k.index_axis_mut(Axis(0), tk / 2).mapv_inplace(|k| k * 40.0),
        5 => {
            sequence.k.mapv_inplace(|k| k * 1e-39);
            sequence.v.mapv_inplace(|v| v * 1e-39);
        }
        6 => {
            sequence.k.mapv_inplace(|k| 65504.0_f64.copysign(k));
            sequence.v.mapv_inplace(|v| 65504.0_f64.copysign(v));
        }
        7 | 8 => {
            // Scores rise, or fall, along the sequence: a rescale at every key, or none.
            sequence.q.fill(1.0);
            let step = |j: usize| if family == 7 { j as f64 } else { (tk - j) as f64 };
            for (j, mut row) in sequence.k.axis_iter_mut(Axis(0)).enumerate() {
                row.mapv_inplace(|k| k * 0.01 + 0.11 * step(j));
            }
        }
        9 => sequence.v.fill(rng.normal()),
        10 => sequence.k.mapv_inplace(|k| 4.0_f64.copysign(k)),
        _ => sequence.k.mapv_inplace(|k| k * 200.0),
    }
    let elem = [Elem::F32, Elem::F16, Elem::Bf16, Elem::E4m3fn][rng.below(4)];
    let elem = if family == 5 { Elem::F32 } else { elem };
    let stored = |x: f64| elem.decode(elem.encode(x, Saturate::Finite));
    sequence.k.mapv_inplace(stored);
    sequence.v.mapv_inplace(stored);
    sequence.q.mapv_inplace(|q| f64::from(q as f32));
}

/// A random spec, with the precision fields as given.
fn spec(rng: &mut Rng, precision: &Profile) -> Spec {
    let kv_heads = 1 + rng.below(2);
    let shape = Shape {
        q_heads: kv_heads * (1 + rng.below(2)),
        kv_heads,
        d: [1, 3, 8, 33, 64][rng.below(5)],
        dv: 1 + rng.below(6),
    };
    let mut some = || rng.below(2) == 0;
    let sinks = some().then(|| vec![0.75; shape.q_heads]);
    let profile = Profile {
        scale: if some() { Scale::InvSqrtD } else { Scale::Explicit(-0.3) },
        causal: if some() { Causal::None } else { Causal::BottomRight },
        window: if some() && some() { Window { left: Some(21), right: None } } else { Window::default() },
        alibi: if some() { Alibi::Formula } else { Alibi::None },
        softcap: some().then_some(if some() { 5.0 } else { 30.0 }),
        bias_order: if some() { BiasOrder::CapThenAlibi } else { BiasOrder::AlibiThenCap },
        sinks,
        ..precision.clone()
    };
    Spec::new(shape, profile).expect("fits")
}

/// What a kernel is asked about row `i`, head `h`; half of the time in a random order of keys.
fn question(sequence: &Sequence, i: usize, h: usize, rng: &mut Rng) -> Question {
    let shuffled = rng.below(2) == 0;
    Question::new(&sequence.spec, &sequence.row(), i, h, shuffled.then_some(rng))
}

/// Runs algorithms on one sequence and takes the shares of the bound.
fn run(
    algorithms: &[Algorithm],
    sequence: &Sequence,
    model: &Model,
    machine: &mut Machine,
    shares: &mut Shares,
) {
    let profile = sequence.spec.profile();
    let (answer, bounds) = bounds(&sequence.spec, &sequence.row(), model).expect("fits");
    for i in 0..sequence.q.dim().0 {
        for h in 0..sequence.spec.shape().q_heads {
            for &algorithm in algorithms {
                shares.rows += 1;
                if !bounds.ok[[i, h]] {
                    shares.not_ok += 1;
                    continue;
                }
                let question = question(sequence, i, h, &mut machine.rng);
                if question.k.is_empty() {
                    continue;
                }
                let (o, lse) = algorithm.run(machine, profile, &question);
                let mut worst = 0.0_f64;
                for (c, o) in o.into_iter().enumerate() {
                    let (got, at) = (profile.out.round(f64::from(o)), [i, h, c]);
                    worst = worst.max(budget_used(got, answer.o[at], bounds.o[at], profile.out));
                }
                let lse = budget_used(f64::from(lse), answer.lse[[i, h]], bounds.lse[[i, h]], OutType::F32);
                if worst > shares.o || lse > shares.lse {
                    shares.worst = format!("{algorithm:?} query {i} head {h} of {:?}", sequence.spec);
                }
                shares.o = shares.o.max(worst);
                shares.lse = shares.lse.max(lse);
            }
        }
    }
}

/// Every algorithm that keeps partial outputs in f32.
fn sweep(model: &Model, precision: &Profile, directed: bool, seed: u64) -> Shares {
    sweep_of(&ALGORITHMS, model, precision, directed, seed)
}

/// Every family, several times, on machines as bad as the model allows.
fn sweep_of(
    algorithms: &[Algorithm],
    model: &Model,
    precision: &Profile,
    directed: bool,
    seed: u64,
) -> Shares {
    let mut rng = Rng(seed);
    let mut shares = Shares::default();
    for round in 0..8 * FAMILIES {
        let spec = spec(&mut rng, precision);
        let tk = [1, 2, 17, 60, 150][rng.below(5)];
        let mut sequence = Sequence::normal(spec, 2, tk, rng.bits());
        fill(&mut sequence, round % FAMILIES, &mut rng);
        let errors = [Errors::None, Errors::Share(1.0), Errors::Share(-1.0), Errors::Random][rng.below(4)];
        let rounding = if directed { ROUNDINGS[rng.below(5)] } else { Rounding::Nearest };
        let (flush, coarse_tanh) = (directed, directed);
        let mut machine = Machine { rounding, errors, flush, coarse_tanh, rng: Rng(rng.bits()) };
        run(algorithms, &sequence, model, &mut machine, &mut shares);
    }
    assert!(shares.not_ok * 4 < shares.rows, "{} of {} rows have no guarantee", shares.not_ok, shares.rows);
    shares
}

#[test]
fn f32_kernels_to_nearest() {
    let shares = sweep(&Model::strict(), &Profile::default(), false, 1).sound();
    // A bound that nothing comes near would be worth little.
    assert!(shares.o > 0.02 && shares.lse > 0.02, "{} {}", shares.o, shares.lse);
}

#[test]
fn f32_kernels_under_the_letter_of_wgsl() {
    let base_two = Profile { lse_base: LseBase::Two, ..Profile::default() };
    for (seed, precision) in [(2, Profile::default()), (3, base_two)] {
        let shares = sweep(&Model::wgsl_letter(), &precision, true, seed).sound();
        assert!(shares.o > 0.1 && shares.lse > 0.1, "{} {}", shares.o, shares.lse);
    }
}

#[test]
fn sixteen_bit_outputs() {
    for (seed, out) in [(4, OutType::F16), (5, OutType::Bf16)] {
        for (model, directed) in [(Model::strict(), false), (Model::wgsl_letter(), true)] {
            sweep(&model, &Profile { out, ..Profile::default() }, directed, seed).sound();
        }
    }
}

#[test]
fn rounded_weights() {
    let roundings =
        [PRounding::F16, PRounding::Bf16, PRounding::E4m3 { scale: 448.0 }, PRounding::E4m3 { scale: 256.0 }];
    for (seed, p_rounding) in (6..).zip(roundings) {
        let shares =
            sweep(&Model::strict(), &Profile { p_rounding, ..Profile::default() }, false, seed).sound();
        assert!(shares.o > 0.1, "{p_rounding:?}: {}", shares.o);
    }
}

#[test]
fn rounded_partial_outputs() {
    for (seed, out) in [(14, OutType::F16), (15, OutType::Bf16)] {
        let algorithms = [Algorithm::SplitStored(2, 16, out), Algorithm::SplitStored(5, 3, out)];
        let swept = |model: &Model| sweep_of(&algorithms, model, &Profile::default(), false, seed);
        let shares = swept(&Model::strict().with_part_rounding(out)).sound();
        assert!(shares.o > 0.1, "{}: {}", out.name(), shares.o);
        let undeclared = swept(&Model::strict());
        assert!(undeclared.o > 1.0, "{}: {}", out.name(), undeclared.o);
    }
}

#[test]
fn products_summed_in_binary16() {
    sweep(&Model::strict(), &Profile { accum: Accum::F16Qk, ..Profile::default() }, false, 10).sound();
}

#[test]
fn a_machine_worse_than_its_model_is_seen() {
    // Directed rounding, flushed subnormals and a coarse tanh, judged as if none of these were there.
    let shares = sweep(&Model::strict(), &Profile::default(), true, 11);
    assert!(shares.o > 1.0 && shares.lse > 1.0, "{} {}", shares.o, shares.lse);
}

#[test]
fn undeclared_precision_is_seen() {
    let shape = Shape { q_heads: 1, kv_heads: 1, d: 64, dv: 4 };
    let kernels = [
        Profile { p_rounding: PRounding::Bf16, ..Profile::default() },
        Profile { p_rounding: PRounding::F16, ..Profile::default() },
        Profile { p_rounding: PRounding::E4m3 { scale: 448.0 }, ..Profile::default() },
        Profile { accum: Accum::F16Qk, ..Profile::default() },
    ];
    for kernel in kernels {
        let spec = Spec::new(shape, Profile::default()).expect("fits");
        let sequence = Sequence::normal(spec, 1, 60, 12);
        let (answer, bounds) = bounds(&sequence.spec, &sequence.row(), &Model::strict()).expect("fits");
        let (rounding, errors, rng) = (Rounding::Nearest, Errors::None, Rng(13));
        let mut machine = Machine { rounding, errors, flush: false, coarse_tanh: false, rng };
        let asked = question(&sequence, 0, 0, &mut machine.rng);
        let (o, _) = Algorithm::TwoPass.run(&mut machine, &kernel, &asked);
        let used = |((got, want), bound): ((&f32, &f64), &f64)| {
            budget_used(f64::from(*got), *want, *bound, OutType::F32)
        };
        let used = o.iter().zip(&answer.o).zip(&bounds.o).map(used).fold(0.0, f64::max);
        assert!(used > 1.0, "{kernel:?}: {used}");
    }
}

#[test]
fn the_far_neighbour_of_a_vanishing_output_is_admitted() {
    // 1e-38 rounds to 0 or, the other way, to the smallest subnormal of binary16: a tie in f64 without a care for it.
    let profile = Profile { out: OutType::F16, ..Profile::default() };
    let spec = Spec::new(Shape { q_heads: 1, kv_heads: 1, d: 4, dv: 1 }, profile).expect("fits");
    let mut sequence = Sequence::normal(spec, 1, 1, 1);
    for smallest in [1e-38, -1e-38, 1e-30] {
        sequence.v.fill(f64::from(smallest as f32));
        let (answer, bounds) = bounds(&sequence.spec, &sequence.row(), &Model::wgsl_letter()).expect("fits");
        let up = (1.0_f64 / f64::from(1 << 24)).copysign(smallest);
        for got in [0.0, up] {
            let used = budget_used(got, answer.o[[0, 0, 0]], bounds.o[[0, 0, 0]], OutType::F16);
            assert!(used <= 1.0, "{got} for {smallest}: {used}");
        }
        let beyond = budget_used(2.0 * up, answer.o[[0, 0, 0]], bounds.o[[0, 0, 0]], OutType::F16);
        assert!(beyond > 1.0, "two units for {smallest}: {beyond}");
    }
}
