//! Masked keys of a loaded tile.

use super::{Edit, KernelFault, Kind, core, reach};
use crate::cpu::rules::Rules;

const fn masking(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Masking, id, says, reach::always, twin, wgsl)
}

pub(super) const FAULTS: &[KernelFault] = &[
    masking(
        "zero-times-poison",
        "masked keys of a loaded tile are multiplied by 0 instead of left out",
        |r| r.skip_zero = false,
        // it shows under NaN and infinite poison only, which WGSL kernels are not put to
        &[],
    ),
    masking(
        "masked-weight-small",
        "masked keys of a loaded tile get 2^-20 of the largest weight so far",
        |r| r.masked_weight = 1.0 / 1_048_576.0,
        &[core("var w = 0.0;", "var w = 0x1p-20f;")],
    ),
    masking(
        "sentinel-1e4",
        "masked keys of a loaded tile get the score -10000 instead of being left out",
        |r| r.masked_score = Some(|_, _, _| Some(-1e4)),
        &[
            core("return key >= pair_lo[pair] && key < pair_hi[pair];", "return true;"),
            core(
                "    var empty = sum == 0.0;\n",
                "    var empty = sum == 0.0;
    for (var j = 0u; j < tile.count; j++) {
        if (tile.start + j < pair_lo[pair] || tile.start + j >= pair_hi[pair]) {
            weight[at + j] = -1e4;
        }
    }
",
            ),
        ],
    ),
];
