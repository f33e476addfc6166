//! The softcap and its order.

use super::{Edit, KernelFault, Kind, PAIR_LEN, PAIR_LEN_OF, core, reach};
use crate::abi::FLAG_ALIBI_THEN_CAP;
use crate::cpu::rules::{Rules, cap};

const fn softcap(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Softcap, id, says, reach::softcap, twin, wgsl)
}

const CAP: &str = "return P.softcap * tanh(clamp(x / P.softcap, -15.0, 15.0));";

pub(super) const FAULTS: &[KernelFault] = &[
    softcap("softcap-ignored", "there is no cap", |r| r.cap = |_, x| x, &[core(CAP, "return x;")]),
    softcap(
        "softcap-after-mask",
        "masked keys of the row get the score -c instead of being left out",
        |r| {
            r.range = |p, keys, bounds| if p.softcap > 0.0 { bounds } else { keys };
            r.masked_score =
                Some(|p, sight, key| (p.softcap > 0.0 && key < sight.query.len).then_some(-p.softcap));
        },
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            core(
                "    lo = max(max(lo, split * P.split_tokens), bounds.x);\n",
                "    if (P.softcap > 0.0) {
        lo = bounds.x;
        hi = bounds.y;
    }
    lo = max(max(lo, split * P.split_tokens), bounds.x);
",
            ),
            core(
                "    return key >= pair_lo[pair] && key < pair_hi[pair];\n",
                "    return (key >= pair_lo[pair] && key < pair_hi[pair]) || (P.softcap > 0.0 && key < pair_len[pair]);\n",
            ),
            core(
                "    var empty = sum == 0.0;\n",
                "    var empty = sum == 0.0;
    for (var j = 0u; j < tile.count; j++) {
        if (P.softcap > 0.0 && (tile.start + j < pair_lo[pair] || tile.start + j >= pair_hi[pair])) {
            weight[at + j] = -P.softcap;
        }
    }
",
            ),
        ],
    ),
    softcap(
        "softcap-clamp",
        "scores are cut off at -c and c",
        |r| r.cap = |p, x| if p.softcap > 0.0 { x.max(-p.softcap).min(p.softcap) } else { x },
        &[core(CAP, "return clamp(x, -P.softcap, P.softcap);")],
    ),
    softcap(
        "softcap-twice",
        "the cap is applied twice",
        |r| r.cap = |p, x| cap(p, cap(p, x)),
        &[core(CAP, "return P.softcap * tanh(tanh(clamp(x / P.softcap, -15.0, 15.0)));")],
    ),
    softcap(
        "softcap-x-tanh",
        "the cap is x tanh(x / c) instead of c tanh(x / c)",
        |r| {
            r.cap = |p, x| {
                let c = p.softcap;
                if c > 0.0 { x * libm::tanhf((x / c).clamp(-15.0, 15.0)) } else { x }
            }
        },
        &[core(CAP, "return x * tanh(clamp(x / P.softcap, -15.0, 15.0));")],
    ),
    softcap(
        "softcap-before-scale",
        "q . k is capped, then scaled, and the bias is added last",
        |r| r.score = |r, p, _, _, dot, bias| p.scale * (r.cap)(p, dot) + bias,
        &[
            core("k_scale * P.scale", "k_scale"),
            core(
                "return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside);",
                "return P.scale * capped(x) + bias;",
            ),
        ],
    ),
    super::fault(
        Kind::Softcap,
        "softcap-other-order",
        "the bias is added after the cap where it should be before it, and the reverse",
        |p| reach::softcap(p) && reach::alibi(p),
        |r| r.params = |p| p.flags ^= FLAG_ALIBI_THEN_CAP,
        &[core("(P.flags & FLAG_ALIBI_THEN_CAP) != 0u", "(P.flags & FLAG_ALIBI_THEN_CAP) == 0u")],
    ),
    softcap(
        "softcap-tanh-overflow",
        "tanh is (t - 1) / (t + 1) with t = exp(2 x / c), which is NaN for large x",
        |r| {
            r.cap = |p, x| {
                let c = p.softcap;
                let t = libm::expf(2.0 * (x / c));
                if c > 0.0 { c * ((t - 1.0) / (t + 1.0)) } else { x }
            }
        },
        &[core(
            CAP,
            "let t = exp(2.0 * (x / P.softcap));\n        return P.softcap * ((t - 1.0) / (t + 1.0));",
        )],
    ),
];
