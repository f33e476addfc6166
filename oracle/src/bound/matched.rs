//! The score test: does the error of an output point where a known fault would push it? Sees one key lost among
//! 65,536 where no bound on single elements can, and names it.
//!
//! With `r` the error and `sigma` its standard deviation per element, a fault that moves the outputs by `kappa g` has
//! the score `T = <r / sigma^2, g> / sqrt(<g / sigma^2, g>)` and the estimate
//! `kappa = <r / sigma^2, g> / <g / sigma^2, g>`: a matched filter (North, 1943). Sums run over all elements of all
//! query tokens and heads. Valid where [`stat_bounds`](super::stat_bounds) is: rounding to nearest and random
//! continuous data.

use ndarray::s;

use super::{
    Pair, for_each_pair,
    model::Model,
    stat::{LAMBDA, StatRow, gain},
};
use crate::{
    elem::OutType,
    error::OracleError,
    reference::{Answer, Row},
    spec::{BiasOrder, PRounding, Profile, Spec},
};

/// One direction in which an output is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The score: how many standard deviations the output is off in this direction, at least 0.
    pub t: f64,
    /// How much of the fault there is, in its own unit: -1 for a key left out (`-1 / (1 - p)` for keys of the
    /// weight `p`), 1 for one counted twice, the relative error of a factor.
    pub kappa: f64,
    /// The fault in words.
    pub says: String,
}

/// Keys that are left out or repeated together, in the two usual sizes of a tile.
const TILES: [usize; 2] = [16, 64];
/// A sum this much smaller than its terms has cancelled.
const CANCELLED: f64 = 1e-9;
/// An estimate this near to a whole fault is called one.
const NEAR: f64 = 0.25;
/// How many directions are returned.
const KEPT: usize = 5;

/// The score above which an output is wrong: 8, or 12 where weights are rounded before they meet V.
pub const fn threshold(profile: &Profile) -> f64 {
    match profile.p_rounding {
        PRounding::None => 8.0,
        PRounding::F16 | PRounding::Bf16 | PRounding::E4m3 { .. } => 12.0,
    }
}

/// The directions in which `got`, the values of a kernel's outputs, is furthest off, worst first: single keys and
/// tiles left out or repeated, V taken from the next key, the scale, the ALiBi slopes. The LSE is not looked at.
///
/// Empty for a model with directed rounding, for which the test says nothing, and where nothing is visible.
///
/// # Errors
/// [`OracleError::Shape`] where a tensor does not fit the spec or the others.
pub fn score(spec: &Spec, row: &Row<'_>, model: &Model, got: &Answer) -> Result<Vec<Score>, OracleError> {
    let (tq, tk) = row.check(spec)?;
    let expected = [tq, spec.shape().q_heads, spec.shape().dv];
    if got.o.shape() != expected {
        let (tensor, axes) = ("o", "[query token, q head, dv]");
        return Err(OracleError::Shape {
            tensor,
            axes,
            expected: expected.to_vec(),
            found: got.o.shape().to_vec(),
        });
    }
    let model = model.with_profile(spec.profile());
    let mut filter = Filter::new(tk);
    for_each_pair(spec, row, &model, |pair| {
        let (i, h) = pair.at;
        let got = got.o.slice(s![i, h, ..]).to_vec();
        filter.take_in(spec, &StatRow::new(spec, &model, &pair), &pair, &got);
    })?;
    Ok(if model.nearest { filter.scores() } else { Vec::new() })
}

/// `<r / sigma^2, g>` and `<g / sigma^2, g>` of one direction.
#[derive(Clone, Copy, Default)]
struct Sums {
    along: f64,
    square: f64,
}

impl Sums {
    /// Adds the elements of one query token and head; the second number of each pair is the sum of the magnitudes
    /// that the first is a sum of.
    fn add(&mut self, elements: &[Element], g: impl Iterator<Item = (f64, f64)>) {
        for (element, (g, size)) in elements.iter().zip(g) {
            // What is left of larger terms that cancel is rounding of f64, no direction.
            if g.abs() > CANCELLED * size {
                self.along += element.error * element.precision * g;
                self.square += g * element.precision * g;
            }
        }
    }

    /// The score and the estimate; `None` for a direction in which nothing can move.
    fn score(self) -> Option<(f64, f64)> {
        (self.square > 0.0).then(|| (self.along.abs() / self.square.sqrt(), self.along / self.square))
    }
}

/// One element of the output.
struct Element {
    error: f64,
    /// `1 / sigma^2`.
    precision: f64,
}

/// The sums of every direction.
struct Filter {
    keys: Vec<Sums>,
    next_v: Vec<Sums>,
    tiles: [Vec<Sums>; TILES.len()],
    scale: Sums,
    slope: Sums,
}

impl Filter {
    fn new(keys: usize) -> Filter {
        let none = |count: usize| vec![Sums::default(); count];
        Filter {
            keys: none(keys),
            next_v: none(keys),
            tiles: TILES.map(|tile| none(keys.div_ceil(tile))),
            scale: Sums::default(),
            slope: Sums::default(),
        }
    }

    /// Adds what one query token and head says.
    fn take_in(&mut self, spec: &Spec, row: &StatRow, pair: &Pair<'_>, got: &[f64]) {
        let out = spec.profile().out;
        let element = |((&got, &o), &e): ((&f64, &f64), &f64)| {
            let (rounding, e) = (half_ulp(out, o), e / LAMBDA);
            Element { error: got - o, precision: 1.0 / (rounding * rounding / 3.0 + e * e) }
        };
        let elements: Vec<Element> = got.iter().zip(&row.o).zip(&row.e).map(element).collect();
        let dv = elements.len();
        let bias_first = spec.profile().bias_order == BiasOrder::AlibiThenCap;
        let none = || vec![(0.0, 0.0); dv];
        let (mut tiles, mut scale, mut slope) = (TILES.map(|_| none()), none(), none());
        for (at, ((&key, score), (&p, v))) in
            pair.keys.iter().zip(&pair.scores).zip(row.softmax.p.iter().zip(&pair.values)).enumerate()
        {
            let apart = |c: usize| (p * (v[c] - row.o[c]), p * (v[c].abs() + row.o[c].abs()));
            self.keys[key].add(&elements, (0..dv).map(apart));
            let next = pair.values.get(at + 1);
            if let Some(next) = next {
                let moved = |c: usize| (p * (next[c] - v[c]), p * (next[c].abs() + v[c].abs()));
                self.next_v[key].add(&elements, (0..dv).map(moved));
            }
            let gain = gain(spec, score);
            let x = gain * score.dot.x;
            let bias = if bias_first { gain * score.bias } else { score.bias };
            for c in 0..dv {
                let (g, size) = apart(c);
                let add = |sum: &mut (f64, f64), factor: f64| {
                    *sum = (sum.0 + factor * g, sum.1 + factor.abs() * size);
                };
                add(&mut scale[c], x);
                add(&mut slope[c], bias);
                for tile in &mut tiles {
                    add(&mut tile[c], 1.0);
                }
            }
            for ((sums, tile), size) in self.tiles.iter_mut().zip(&mut tiles).zip(TILES) {
                let last = pair.keys.get(at + 1).is_none_or(|next| next / size != key / size);
                if last {
                    sums[key / size].add(&elements, tile.iter().copied());
                    tile.fill((0.0, 0.0));
                }
            }
        }
        self.scale.add(&elements, scale.into_iter());
        self.slope.add(&elements, slope.into_iter());
    }

    /// The best few.
    fn scores(self) -> Vec<Score> {
        let mut scores = Vec::new();
        let mut push = |sums: Sums, says: &dyn Fn(f64) -> String| {
            if let Some((t, kappa)) = sums.score() {
                scores.push(Score { t, kappa, says: says(kappa) });
            }
        };
        for (key, &sums) in self.keys.iter().enumerate() {
            push(sums, &|kappa| membership(&format!("key {key}"), kappa));
        }
        for (key, &sums) in self.next_v.iter().enumerate() {
            push(sums, &|kappa| {
                let share =
                    if (kappa - 1.0).abs() < NEAR { String::new() } else { format!("{kappa:.3} of ") };
                format!("{share}V of key {key} taken from the next key")
            });
        }
        for (sums, size) in self.tiles.iter().zip(TILES) {
            for (tile, &sums) in sums.iter().enumerate() {
                let keys = format!("keys {} to {}", tile * size, (tile + 1) * size - 1);
                push(sums, &|kappa| membership(&keys, kappa));
            }
        }
        push(self.scale, &|kappa| format!("the scale is times {:.6}", 1.0 + kappa));
        push(self.slope, &|kappa| format!("the ALiBi slopes are times {:.6}", 1.0 + kappa));
        scores.sort_by(|a, b| b.t.total_cmp(&a.t));
        scores.truncate(KEPT);
        scores
    }
}

/// What became of keys whose weight changed by the share `kappa`.
fn membership(keys: &str, kappa: f64) -> String {
    if (kappa + 1.0).abs() < NEAR {
        format!("{keys} left out")
    } else if (kappa - 1.0).abs() < NEAR {
        format!("{keys} counted twice")
    } else {
        format!("{keys} weighted times {:.3}", 1.0 + kappa)
    }
}

/// Half the distance from `o` to the next larger magnitude in the output format.
fn half_ulp(out: OutType, o: f64) -> f64 {
    let code = out.encode(o.abs());
    (out.decode(code + 1) - out.decode(code)) / 2.0
}
