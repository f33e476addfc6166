//! The factor on q . k.

use std::f32::consts::LOG2_E;

use super::{Edit, KernelFault, Kind, core, reach};
use crate::cpu::rules::{Rules, score};

const fn scale(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Scale, id, says, reach::always, twin, wgsl)
}

const SCALE: &str = "k_scale * P.scale";

pub(super) const FAULTS: &[KernelFault] = &[
    scale(
        "scale-missing",
        "q . k is not scaled",
        |r| r.params = |p| p.scale = 1.0,
        &[core(SCALE, "k_scale")],
    ),
    scale(
        "scale-squared",
        "q . k is scaled twice",
        |r| r.params = |p| p.scale *= p.scale,
        &[core(SCALE, "k_scale * (P.scale * P.scale)")],
    ),
    scale(
        "scale-doubled",
        "the scale is twice the right one",
        |r| r.params = |p| p.scale *= 2.0,
        &[core(SCALE, "k_scale * (2.0 * P.scale)")],
    ),
    scale(
        "scale-one-percent",
        "the scale is one percent too large",
        |r| r.params = |p| p.scale *= 1.01,
        &[core(SCALE, "k_scale * (1.01 * P.scale)")],
    ),
    scale(
        "scale-per-mille",
        "the scale is a thousandth too large",
        |r| r.params = |p| p.scale *= 1.001,
        &[core(SCALE, "k_scale * (1.001 * P.scale)")],
    ),
    scale(
        "scale-padded-dim",
        "the scale is 1 / sqrt of the head dim rounded up to a power of two",
        |r| r.params = |p| p.scale = 1.0 / (p.d.next_power_of_two() as f32).sqrt(),
        &[core(SCALE, "k_scale / sqrt(f32(1u << (32u - countLeadingZeros(P.d - 1u))))")],
    ),
    scale(
        "scale-default",
        "the scale is 1 / sqrt of the head dim, whatever is declared",
        |r| r.params = |p| p.scale = 1.0 / (p.d as f32).sqrt(),
        &[core(SCALE, "k_scale / sqrt(f32(P.d))")],
    ),
    scale(
        "scale-log2e",
        "the finished scores are multiplied by log2 e, and then e is raised to them",
        |r| r.score = |r, p, sight, key, dot, bias| score(r, p, sight, key, dot, bias) * LOG2_E,
        &[core(
            "return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside);",
            "return (capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside)) * 1.442695041;",
        )],
    ),
];
