//! Simulated right kernels: an algorithm in arithmetic as inexact as its model allows, under one precision profile.

use attnproof_cases::case::{Case, CaseError};
use attnproof_cases::replay::Walk;
use attnproof_oracle::simulate::{Algorithm, Errors, Machine, Question, Rng, Rounding};
use attnproof_oracle::{
    Accum, Answer, Bounds, LseBase, Model, OracleError, OutType, PRounding, Profile, Row, Spec, SpecError,
    bounds, budget_used,
};

use super::draw::stream;
use super::stat::largest;

/// Every algorithm with its name.
pub const ALGORITHMS: [(&str, Algorithm); 7] = [
    ("two-pass", Algorithm::TwoPass),
    ("normalised", Algorithm::Normalised),
    ("online-1", Algorithm::Online(1)),
    ("online-16", Algorithm::Online(16)),
    ("exp2-8", Algorithm::Exp2(8)),
    ("split-3x4", Algorithm::Split(3, 4)),
    ("split-7x1", Algorithm::Split(7, 1)),
];

/// What a profile declares about precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 everywhere.
    F32,
    /// f16 outputs.
    OutF16,
    /// bf16 outputs.
    OutBf16,
    /// Weights rounded to f16.
    WeightsF16,
    /// Weights rounded to bf16.
    WeightsBf16,
    /// Weights times 256 rounded to e4m3fn.
    WeightsE4m3By256,
    /// Weights times 448 rounded to e4m3fn.
    WeightsE4m3By448,
    /// `q . k` summed in f16.
    ScoresF16,
    /// LSE to base two.
    BaseTwo,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 9] = [
        Self::F32,
        Self::OutF16,
        Self::OutBf16,
        Self::WeightsF16,
        Self::WeightsBf16,
        Self::WeightsE4m3By256,
        Self::WeightsE4m3By448,
        Self::ScoresF16,
        Self::BaseTwo,
    ];

    /// Name in tables and case files: `o-` the output, `p-` the weights, `qk-` the scores.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::OutF16 => "o-f16",
            Self::OutBf16 => "o-bf16",
            Self::WeightsF16 => "p-f16",
            Self::WeightsBf16 => "p-bf16",
            Self::WeightsE4m3By256 => "p-e4m3-256",
            Self::WeightsE4m3By448 => "p-e4m3-448",
            Self::ScoresF16 => "qk-f16",
            Self::BaseTwo => "lse-2",
        }
    }

    fn of(self, profile: &Profile) -> Profile {
        let mut profile = profile.clone();
        match self {
            Self::F32 => {}
            Self::OutF16 => profile.out = OutType::F16,
            Self::OutBf16 => profile.out = OutType::Bf16,
            Self::WeightsF16 => profile.p_rounding = PRounding::F16,
            Self::WeightsBf16 => profile.p_rounding = PRounding::Bf16,
            Self::WeightsE4m3By256 => profile.p_rounding = PRounding::E4m3 { scale: 256.0 },
            Self::WeightsE4m3By448 => profile.p_rounding = PRounding::E4m3 { scale: 448.0 },
            Self::ScoresF16 => profile.accum = Accum::F16Qk,
            Self::BaseTwo => profile.lse_base = LseBase::Two,
        }
        profile
    }
}

/// What stands for the model of the control in names.
const CONTROL: &str = "control";

/// One simulated kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sim {
    /// The model that its machine obeys and that it is judged by.
    pub model: Model,
    /// What its profile declares.
    pub precision: Precision,
    /// Index into [`ALGORITHMS`].
    pub algorithm: usize,
    /// Whether it is the control: its machine is worse than the model.
    pub control: bool,
}

impl Sim {
    /// The control: directed rounding, flushed subnormals and a coarse tanh, judged as if none of these were there.
    pub fn control(algorithm: usize) -> Self {
        Self { model: Model::strict(), precision: Precision::F32, algorithm, control: true }
    }

    /// Model, precision and algorithm, such as `strict o-f16 / two-pass`; the control says so in place of a model.
    pub fn name(&self) -> String {
        let model = if self.control { CONTROL } else { self.model.name };
        format!("{model} {} / {}", self.precision.name(), ALGORITHMS[self.algorithm].0)
    }

    /// Inverse of [`Sim::name`].
    pub fn parse(name: &str) -> Option<Self> {
        let all = Model::all().into_iter().flat_map(|model| {
            Precision::ALL.into_iter().flat_map(move |precision| {
                (0..ALGORITHMS.len()).map(move |algorithm| Self {
                    model,
                    precision,
                    algorithm,
                    control: false,
                })
            })
        });
        all.chain((0..ALGORITHMS.len()).map(Self::control)).find(|sim| sim.name() == name)
    }

    /// A machine as bad as the model allows, its vices drawn from `rng`.
    fn machine(&self, mut rng: Rng) -> Machine {
        let letter = !self.model.nearest;
        let roundings =
            [Rounding::Up, Rounding::Down, Rounding::TowardZero, Rounding::Either, Rounding::Nearest];
        let errors = [Errors::Share(1.0), Errors::Share(-1.0), Errors::Random, Errors::None];
        let (rounding, errors) = (roundings[rng.below(5)], errors[rng.below(4)]);
        let flush = self.model.ftz_in > 0.0 && rng.below(4) > 0;
        if self.control {
            return Machine { rounding: Rounding::Up, errors, flush: true, coarse_tanh: true, rng };
        }
        Machine {
            rounding: if letter { rounding } else { Rounding::Nearest },
            errors,
            flush,
            coarse_tanh: letter,
            rng,
        }
    }

    /// An f32 result as the output format has it. Where the model lets binary16 go to either neighbour and to zero,
    /// chance decides.
    fn stored(&self, out: OutType, o: f32, rng: &mut Rng) -> f64 {
        let exact = f64::from(o);
        let near = out.round(exact);
        if !self.model.out_either || out != OutType::F16 || near == exact {
            return near;
        }
        if exact.abs() < 1.0 / 16384.0 && rng.below(2) == 0 {
            return 0.0;
        }
        let code = out.encode(exact.abs());
        let other = match out.decode(code) {
            above if above > exact.abs() => out.decode(code - 1),
            _ => out.decode(code + 1),
        };
        if other.is_finite() && rng.below(2) == 0 { other.copysign(exact) } else { near }
    }
}

/// What was found of one output row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judged {
    /// The bound holds for no kernel on this row.
    NoGuarantee,
    /// Shares of the bounds of o and of the LSE.
    Shares([f64; 2]),
}

/// Why simulated kernels cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The case itself.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The oracle refuses its inputs.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The oracle refuses its profile.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Runs `sims` on every output row of `case` that has a key or a sink and tells `visit` what was found. Chance is drawn
/// from `chance`, the kernel and the row's place alone.
///
/// # Errors
/// [`SimError`]: the case cannot be judged.
pub fn simulate(
    case: &Case,
    seed: u64,
    chance: u64,
    sims: &[Sim],
    visit: &mut dyn FnMut(&Sim, Judged),
) -> Result<(), SimError> {
    let base = case.spec(seed)?;
    let mut asked = 0;
    for check in Walk::new(case, seed)? {
        for row in check?.rows {
            let q = row.q.mapv(f64::from);
            let dense = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
            let places = (0..row.q_len).flat_map(|i| (0..case.shape.q_heads).map(move |h| [i, h]));
            for sims in sims.chunk_by(|a, b| a.model == b.model && a.precision == b.precision) {
                let (model, precision) = (&sims[0].model, sims[0].precision);
                let spec = Spec::new(*base.shape(), precision.of(base.profile()))?;
                let (answer, bounds) = bounds(&spec, &dense, model)?;
                for (sim, place) in sims.iter().flat_map(|sim| places.clone().map(move |place| (sim, place)))
                {
                    let at = asked + (place[0] * case.shape.q_heads + place[1]) as u64;
                    let rng = stream(&[chance, at, sim.algorithm as u64]);
                    if let Some(judged) = judge(sim, &spec, &dense, place, rng, (&answer, &bounds)) {
                        visit(sim, judged);
                    }
                }
            }
            asked += (row.q_len * case.shape.q_heads) as u64;
        }
    }
    Ok(())
}

/// One output row; `None` if it has neither key nor sink.
fn judge(
    sim: &Sim,
    spec: &Spec,
    row: &Row<'_>,
    [i, h]: [usize; 2],
    mut rng: Rng,
    (answer, bounds): (&Answer, &Bounds),
) -> Option<Judged> {
    let shuffled = rng.below(2) == 0;
    let question = Question::new(spec, row, i, h, shuffled.then_some(&mut rng));
    if question.k.is_empty() && question.sink.is_none() {
        return None;
    }
    if !bounds.ok[[i, h]] {
        return Some(Judged::NoGuarantee);
    }
    let out = spec.profile().out;
    let mut machine = sim.machine(rng);
    let (o, lse) = ALGORITHMS[sim.algorithm].1.run(&mut machine, spec.profile(), &question);
    let o = largest(o.into_iter().enumerate().map(|(c, o)| {
        let got = sim.stored(out, o, &mut machine.rng);
        budget_used(got, answer.o[[i, h, c]], bounds.o[[i, h, c]], out)
    }));
    let lse = budget_used(f64::from(lse), answer.lse[[i, h]], bounds.lse[[i, h]], OutType::F32);
    Some(Judged::Shares([o, lse]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_name_one_kernel_each() {
        let mut names = std::collections::BTreeSet::new();
        for model in Model::all() {
            for precision in Precision::ALL {
                for algorithm in 0..ALGORITHMS.len() {
                    for control in [false, true] {
                        let sim = Sim { model, precision, algorithm, control };
                        if control && sim != Sim::control(algorithm) {
                            continue;
                        }
                        assert_eq!(Sim::parse(&sim.name()), Some(sim));
                        assert!(names.insert(sim.name()));
                    }
                }
            }
        }
        assert_eq!(names.len(), 3 * 9 * 7 + 7);
        assert_eq!(Sim::parse("strict f32"), None);
    }

    #[test]
    fn binary16_goes_to_a_neighbour_and_no_farther() {
        let sim =
            Sim { model: Model::wgsl_letter(), precision: Precision::OutF16, algorithm: 0, control: false };
        let mut rng = Rng(1);
        for o in [1.0_f32, 1.0004, -1.0004, 3e-6, -65519.0, 0.0] {
            let mut seen: Vec<f64> = (0..64).map(|_| sim.stored(OutType::F16, o, &mut rng)).collect();
            seen.sort_by(f64::total_cmp);
            seen.dedup();
            for got in &seen {
                let ulp = 1.0 / 1024.0 * f64::from(o).abs().max(1.0 / 16384.0);
                assert!((got - f64::from(o)).abs() < ulp || *got == 0.0 && o.abs() < 6.2e-5, "{o}: {got}");
            }
            assert_eq!(seen.len() > 1, ![1.0, 0.0, -65519.0].contains(&o), "{o}: {seen:?}");
        }
    }
}
