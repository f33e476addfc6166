//! Online softmax and its roundings.

use attnproof_oracle::elem::{Elem, Saturate};

use super::{Edit, KernelFault, Kind, core, reach};
use crate::cpu::rules::Rules;

const fn accumulation(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Accumulation, id, says, reach::always, twin, wgsl)
}

/// `f16_of`: f16 by integer arithmetic, since quantizeToF16 is an optional capability.
const F16_OF: Edit = core(
    "fn capped(x: f32) -> f32 {\n",
    "fn f16_of(x: f32) -> f32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    var rounded = bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);
    if (bits < 0x38800000u) {
        rounded = round(bitcast<f32>(bits) * 0x1p24f) * 0x1p-24f;
    }
    if (bits >= 0x477ff000u) {
        rounded = bitcast<f32>((bits & 0u) | 0x7f800000u);
    }
    return select(rounded, -rounded, x < 0.0);
}

fn capped(x: f32) -> f32 {
",
);

fn f16(x: f32) -> f32 {
    rounded(Elem::F16, x)
}

/// `x` rounded to `elem`, to infinity where it is too large.
fn rounded(elem: Elem, x: f32) -> f32 {
    elem.decode(elem.encode(f64::from(x), Saturate::Nonfinite)) as f32
}

pub(super) const FAULTS: &[KernelFault] = &[
    accumulation(
        "no-rescale-acc",
        "the output is not rescaled when the maximum moves",
        |r| r.rescale = |old| (old, 1.0),
        &[core("rescale[pair] = old;", "rescale[pair] = 1.0;")],
    ),
    accumulation(
        "no-rescale-sum",
        "the denominator is not rescaled when the maximum moves",
        |r| r.rescale = |old| (1.0, old),
        &[core("    sum *= old;\n", "")],
    ),
    accumulation(
        "no-rescale",
        "neither output nor denominator is rescaled when the maximum moves",
        |r| r.rescale = |_| (1.0, 1.0),
        &[core("    sum *= old;\n", ""), core("rescale[pair] = old;", "rescale[pair] = 1.0;")],
    ),
    accumulation(
        "f16-accumulator",
        "the output is rounded to f16 after each addition",
        |r| r.round_acc = Some(f16),
        &[
            F16_OF,
            core(
                "acc[i * P.dv + at] += w * element;",
                "acc[i * P.dv + at] = f16_of(acc[i * P.dv + at] + w * element);",
            ),
        ],
    ),
    accumulation(
        "f16-dot",
        "q . k is rounded to f16 after each addition",
        |r| r.round_dot = Some(f16),
        &[
            F16_OF,
            core(
                "weight[i * TILE + lane] += q_tile[i * P.d + w * WORD_ELEMENTS + l] * element;",
                "let product = q_tile[i * P.d + w * WORD_ELEMENTS + l] * element;
                weight[i * TILE + lane] = f16_of(weight[i * TILE + lane] + product);",
            ),
        ],
    ),
    accumulation(
        "f16-dot-unscaled-overflow",
        "q . k is rounded to f16 before any scale: infinite above 65504",
        |r| r.finish_dot = f16,
        &[F16_OF, core("score(weight[i * TILE + lane] *", "score(f16_of(weight[i * TILE + lane]) *")],
    ),
    accumulation(
        "p-bf16",
        "weights are rounded to bf16 before they meet V",
        |r| r.v_weight = |weight| rounded(Elem::Bf16, weight),
        &[core(
            "let w = weight[i * TILE + key];",
            "let bits = bitcast<u32>(weight[i * TILE + key]);
                let w = bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);",
        )],
    ),
    accumulation(
        "max-frozen",
        "the maximum of the first tile is kept",
        |r| r.running_max = |before, top| before.unwrap_or(top),
        &[core(
            "    var old = 1.0;\n",
            "    if (sum != 0.0) {\n        top = run_max[pair];\n    }\n    var old = 1.0;\n",
        )],
    ),
    accumulation(
        "not-normalised",
        "the output of a part is not divided by its denominator",
        |r| r.normalise = |acc, _| acc,
        &[core("bitcast<u32>(acc[i] / run_sum[pair])", "bitcast<u32>(acc[i])")],
    ),
];
