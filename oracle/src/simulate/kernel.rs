//! Correct kernels in simulated arithmetic: several algorithms, orders and splits. Given the visible keys of one row,
//! each returns its output and natural LSE.

use super::{Machine, Question};
use crate::elem::OutType;
use crate::spec::{Accum, BiasOrder, LseBase, PRounding, Profile};

/// The algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// All scores, their maximum, weights, sums; divides at the end.
    TwoPass,
    /// The same, with weights divided before they meet V.
    Normalised,
    /// A running maximum over tiles of this many keys.
    Online(usize),
    /// A running maximum with `exp2(fma(s, c, -m c))`.
    Exp2(usize),
    /// This many splits, each over tiles of so many keys, merged through their LSE.
    Split(usize, usize),
    /// The same, with partial outputs stored in this format.
    SplitStored(usize, usize, OutType),
}

/// The state of an online softmax.
struct State {
    m: f32,
    l: f32,
    acc: Vec<f32>,
}

const LOG2_E: f32 = std::f32::consts::LOG2_E;

impl Algorithm {
    /// Output `[dv]` and LSE of one query token and head, in f32 (not yet rounded to the output format). The profile's
    /// `p_rounding`, `accum` and `lse_base` are followed.
    ///
    /// # Panics
    /// If the question has no key and no sink: an empty row is no arithmetic.
    pub fn run(self, machine: &mut Machine, profile: &Profile, question: &Question) -> (Vec<f32>, f32) {
        assert!(!question.k.is_empty() || question.sink.is_some(), "a row without keys is not computed");
        let (o, lse) = self.natural(machine, profile, question);
        match profile.lse_base {
            LseBase::E => (o, lse),
            LseBase::Two => (o, machine.mul(lse, LOG2_E)),
        }
    }

    fn natural(self, machine: &mut Machine, profile: &Profile, question: &Question) -> (Vec<f32>, f32) {
        let scores: Vec<f32> = (0..question.k.len()).map(|j| score(machine, profile, question, j)).collect();
        let p_rounding = profile.p_rounding;
        match self {
            Algorithm::TwoPass => {
                let state =
                    online(machine, p_rounding, question, &scores, (0, scores.len()), usize::MAX, false);
                let state = with_sink(machine, state, question.sink);
                finish(machine, &state)
            }
            Algorithm::Normalised => normalised(machine, p_rounding, question, &scores),
            Algorithm::Online(tile) => {
                let state = online(machine, p_rounding, question, &scores, (0, scores.len()), tile, false);
                let state = with_sink(machine, state, question.sink);
                finish(machine, &state)
            }
            Algorithm::Exp2(tile) => {
                let state = online(machine, p_rounding, question, &scores, (0, scores.len()), tile, true);
                let state = with_sink(machine, state, question.sink);
                finish(machine, &state)
            }
            Algorithm::Split(splits, tile) => {
                Algorithm::SplitStored(splits, tile, OutType::F32).natural(machine, profile, question)
            }
            Algorithm::SplitStored(splits, tile, out) => {
                let size = scores.len().div_ceil(splits).max(1);
                let parts: Vec<(Vec<f32>, f32)> = (0..scores.len())
                    .step_by(size)
                    .map(|start| {
                        let range = (start, scores.len().min(start + size));
                        let state = online(machine, p_rounding, question, &scores, range, tile, false);
                        let (o, lse) = finish(machine, &state);
                        (o.iter().map(|&o| out.round(f64::from(o)) as f32).collect(), lse)
                    })
                    .collect();
                merge(machine, &parts, question)
            }
        }
    }
}

fn score(machine: &mut Machine, profile: &Profile, question: &Question, j: usize) -> f32 {
    let mut dot = 0.0_f32;
    for (&q, &k) in question.q.iter().zip(&question.k[j]) {
        let (q, k) = (machine.flushed(q), machine.flushed(k));
        dot = match profile.accum {
            Accum::F32 => machine.fma(q, k, dot),
            Accum::F16Qk => Machine::half(f64::from(q) * f64::from(k) + f64::from(dot)),
        };
    }
    let x = machine.mul(dot, question.scale);
    let (slope, distance) = question.bias[j];
    let bias = machine.mul(slope, distance);
    match (profile.softcap, profile.bias_order) {
        (None, _) => machine.add(x, bias),
        (Some(c), BiasOrder::CapThenAlibi) => {
            let y = cap(machine, x, c);
            machine.add(y, bias)
        }
        (Some(c), BiasOrder::AlibiThenCap) => {
            let x = machine.add(x, bias);
            cap(machine, x, c)
        }
    }
}

fn cap(machine: &mut Machine, x: f32, c: f32) -> f32 {
    let t = machine.div(x, c);
    let tanh = machine.tanh(t);
    machine.mul(tanh, c)
}

/// Softmax over a range of keys in tiles, with a rescale at every new maximum.
fn online(
    machine: &mut Machine,
    p_rounding: PRounding,
    question: &Question,
    scores: &[f32],
    (start, end): (usize, usize),
    tile: usize,
    base_two: bool,
) -> State {
    let mut state = State { m: f32::NEG_INFINITY, l: 0.0, acc: vec![0.0; question.dv] };
    let mut at = start;
    while at < end {
        let stop = end.min(at.saturating_add(tile));
        let m = scores[at..stop].iter().copied().fold(state.m, f32::max);
        rise(machine, &mut state, m, base_two);
        for (&score, v) in scores[at..stop].iter().zip(&question.v[at..stop]) {
            let w = weight(machine, score, m, base_two);
            state.l = machine.add(state.l, w);
            let p = machine.weight(w, p_rounding);
            for (acc, &v) in state.acc.iter_mut().zip(v) {
                let v = machine.flushed(v);
                *acc = machine.fma(p, v, *acc);
            }
        }
        at = stop;
    }
    state
}

/// Moves the state to a new maximum.
fn rise(machine: &mut Machine, state: &mut State, m: f32, base_two: bool) {
    if state.m > f32::NEG_INFINITY && m > state.m {
        let factor = weight(machine, state.m, m, base_two);
        state.l = machine.mul(state.l, factor);
        for acc in &mut state.acc {
            *acc = machine.mul(*acc, factor);
        }
    }
    state.m = m;
}

/// `exp(s - m)`, directly or to base two with a fused multiply.
fn weight(machine: &mut Machine, s: f32, m: f32, base_two: bool) -> f32 {
    if base_two {
        let offset = machine.mul(m, LOG2_E);
        let z = machine.fma(s, LOG2_E, -offset);
        machine.exp2(z)
    } else {
        let z = machine.add(s, -m);
        machine.exp(z)
    }
}

fn with_sink(machine: &mut Machine, mut state: State, sink: Option<f32>) -> State {
    if let Some(sink) = sink {
        let m = state.m.max(sink);
        rise(machine, &mut state, m, false);
        let w = weight(machine, sink, m, false);
        state.l = machine.add(state.l, w);
    }
    state
}

fn finish(machine: &mut Machine, state: &State) -> (Vec<f32>, f32) {
    let log = machine.log(state.l);
    let lse = machine.add(state.m, log);
    (state.acc.iter().map(|&acc| machine.div(acc, state.l)).collect(), lse)
}

/// Two passes; `p = w / l` is formed before it meets V.
fn normalised(
    machine: &mut Machine,
    p_rounding: PRounding,
    question: &Question,
    scores: &[f32],
) -> (Vec<f32>, f32) {
    let m = scores.iter().copied().chain(question.sink).fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = scores.iter().map(|&s| weight(machine, s, m, false)).collect();
    let mut l = weights.iter().fold(0.0, |l, &w| machine.add(l, w));
    if let Some(sink) = question.sink {
        let w = weight(machine, sink, m, false);
        l = machine.add(l, w);
    }
    let mut acc = vec![0.0; question.dv];
    for (&w, v) in weights.iter().zip(&question.v) {
        let p = match p_rounding {
            PRounding::None => machine.div(w, l),
            _ => machine.weight(w, p_rounding),
        };
        for (acc, &v) in acc.iter_mut().zip(v) {
            let v = machine.flushed(v);
            *acc = machine.fma(p, v, *acc);
        }
    }
    if p_rounding != PRounding::None {
        for acc in &mut acc {
            *acc = machine.div(*acc, l);
        }
    }
    let log = machine.log(l);
    (acc, machine.add(m, log))
}

/// Partial outputs, weighted by `exp(lse - max lse)`; the sink is one more part.
fn merge(machine: &mut Machine, parts: &[(Vec<f32>, f32)], question: &Question) -> (Vec<f32>, f32) {
    let m = parts.iter().map(|part| part.1).chain(question.sink).fold(f32::NEG_INFINITY, f32::max);
    let mut state = State { m, l: 0.0, acc: vec![0.0; question.dv] };
    for (o, lse) in parts {
        let w = weight(machine, *lse, m, false);
        state.l = machine.add(state.l, w);
        for (acc, &o) in state.acc.iter_mut().zip(o) {
            *acc = machine.fma(w, o, *acc);
        }
    }
    if let Some(sink) = question.sink {
        let w = weight(machine, sink, m, false);
        state.l = machine.add(state.l, w);
    }
    finish(machine, &state)
}
