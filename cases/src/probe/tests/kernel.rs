//! A kernel in simulated f32 on dense rows, with the faults that the decoders claim to see.

use std::ops::Range;

use ndarray::s;

use attnproof_oracle::{BiasOrder, OutType, alibi_slopes};

use crate::case::Case;
use crate::query::{position, visible_range};
use crate::replay::CheckRow;

/// One key as a kernel reads it.
#[derive(Clone, Copy)]
pub(super) struct Read {
    /// Key and KV head of K.
    pub(super) k: (usize, usize),
    /// Key and KV head of V.
    pub(super) v: (usize, usize),
    /// Position for the bias.
    pub(super) at: usize,
    /// Factor on V.
    pub(super) gain: f64,
}

/// How additions and products round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rounding {
    Nearest,
    Up,
    Zero,
}

/// The order in which keys are summed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Forward,
    Backward,
    /// Splits of so many keys, joined at the end.
    Splits(usize),
    /// So many lanes, each with every so-many-th key.
    Lanes(usize),
}

/// A kernel: arithmetic and faults.
pub(super) struct Kernel<'f> {
    pub(super) rounding: Rounding,
    pub(super) order: Order,
    /// Error of exp in units of what WGSL allows, -1 to 1.
    pub(super) exp: f64,
    /// Format of weights.
    pub(super) p: OutType,
    /// Format of outputs.
    pub(super) out: OutType,
    /// Factor on the softmax scale.
    pub(super) scale: f64,
    /// Factor on the `ALiBi` slopes.
    pub(super) slope: f64,
    pub(super) softcap: bool,
    /// What becomes of the reads of one query token and head.
    pub(super) fault: &'f dyn Fn(&mut Vec<Read>, &Range<usize>),
}

/// A right kernel.
pub(super) fn right() -> Kernel<'static> {
    Kernel {
        rounding: Rounding::Nearest,
        order: Order::Splits(256),
        exp: 0.0,
        p: OutType::F32,
        out: OutType::F32,
        scale: 1.0,
        slope: 1.0,
        softcap: true,
        fault: &|_, _| {},
    }
}

impl Kernel<'_> {
    /// Outputs and LSE of a row.
    pub(super) fn run(&self, case: &Case, row: &CheckRow, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let sinks = case.spec(seed).expect("valid").profile().sinks.clone();
        let slopes =
            if case.alibi { alibi_slopes(case.shape.q_heads) } else { vec![0.0; case.shape.q_heads] };
        let (mut o, mut lse) = (Vec::new(), Vec::new());
        for token in 0..row.q_len {
            let visible = visible_range(case, row.len, row.q_len, token);
            for head in 0..case.shape.q_heads {
                let kv = head / case.shape.group();
                let read = |key| Read { k: (key, kv), v: (key, kv), at: key, gain: 1.0 };
                let mut reads: Vec<Read> = visible.clone().map(read).collect();
                (self.fault)(&mut reads, &visible);
                let p = position(case, row.len, row.q_len, token);
                let slope = self.slope * f64::from(slopes[head]);
                let scores: Vec<f64> = reads
                    .iter()
                    .map(|read| {
                        let bias = self.round(slope * (read.at as f64 - p as f64));
                        self.score(case, row, (token, head), read, bias)
                    })
                    .collect();
                let sink = sinks.as_ref().map(|sinks| f64::from(sinks[head]));
                let (out, l) = self.softmax(row, &reads, &scores, sink);
                o.extend(out);
                lse.push(l);
            }
        }
        (o, lse)
    }

    fn round(&self, x: f64) -> f64 {
        let nearest = x as f32;
        let back = f64::from(nearest);
        f64::from(match self.rounding {
            Rounding::Up if back < x => nearest.next_up(),
            Rounding::Zero if back.abs() > x.abs() => {
                if x > 0.0 {
                    nearest.next_down()
                } else {
                    nearest.next_up()
                }
            }
            _ => nearest,
        })
    }

    fn score(
        &self,
        case: &Case,
        row: &CheckRow,
        (token, head): (usize, usize),
        read: &Read,
        bias: f64,
    ) -> f64 {
        let (q, k) = (row.q.slice(s![token, head, ..]), row.k.slice(s![read.k.0, read.k.1, ..]));
        let products = q.iter().zip(k).map(|(q, k)| f64::from(*q) * k);
        let dot = products.fold(0.0, |dot, product| self.round(product + dot));
        let x = self.round(self.scale * f64::from(case.scale) * dot);
        let cap = |x: f64| match case.softcap.map(f64::from).filter(|_| self.softcap) {
            Some(cap) => self.round(cap * libm::tanh(x / cap)),
            None => x,
        };
        match case.bias_order {
            BiasOrder::CapThenAlibi => self.round(cap(x) + bias),
            BiasOrder::AlibiThenCap => cap(self.round(x + bias)),
        }
    }

    fn exp(&self, z: f64) -> f64 {
        let error = self.exp * (3.0 + 2.0 * z.abs()) * f64::from(f32::EPSILON);
        self.round(libm::exp(z) * (1.0 + error))
    }

    fn softmax(&self, row: &CheckRow, reads: &[Read], scores: &[f64], sink: Option<f64>) -> (Vec<f64>, f64) {
        let dv = row.v.dim().2;
        let m = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let mut l = sink.map_or(0.0, |sink| self.exp(sink - m));
        let mut acc = vec![0.0; dv];
        for part in self.order.parts(reads.len()) {
            let (mut part_l, mut part_acc) = (0.0, vec![0.0; dv]);
            for i in part {
                let w = self.exp(self.round(scores[i] - m));
                part_l = self.round(part_l + w);
                let p = self.p.round(w);
                let (key, kv) = reads[i].v;
                for (acc, v) in part_acc.iter_mut().zip(row.v.slice(s![key, kv, ..])) {
                    *acc = self.round(p * reads[i].gain * v + *acc);
                }
            }
            l = self.round(l + part_l);
            for (acc, part) in acc.iter_mut().zip(&part_acc) {
                *acc = self.round(*acc + part);
            }
        }
        let out = acc.iter().map(|acc| self.out.round(self.round(acc / l)));
        (out.collect(), self.round(m + self.round(libm::log(l))))
    }
}

impl Order {
    fn parts(self, n: usize) -> Vec<Vec<usize>> {
        match self {
            Self::Forward => vec![(0..n).collect()],
            Self::Backward => vec![(0..n).rev().collect()],
            Self::Splits(size) => {
                (0..n).step_by(size).map(|start| (start..n.min(start + size)).collect()).collect()
            }
            Self::Lanes(lanes) => (0..lanes).map(|lane| (lane..n).step_by(lanes).collect()).collect(),
        }
    }
}
