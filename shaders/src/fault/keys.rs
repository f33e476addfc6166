//! Which keys, and which dims of them, are counted.

use std::f32::consts::LN_2;

use super::{Edit, KernelFault, Kind, PAIR_LEN, PAIR_LEN_OF, core, joined, reach};
use crate::cpu::rules::{Rules, score};

const fn keys(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Addressing, id, says, reach::always, twin, wgsl)
}

const SEES: &str = "return key >= pair_lo[pair] && key < pair_hi[pair];";

const fn except(condition: &'static str) -> Edit {
    core(SEES, condition)
}

pub(super) const FAULTS: &[KernelFault] = &[
    keys(
        "drop-last-token",
        "the last key of the row is left out",
        |r| r.sees = |_, sight, _, key| sight.covers(key) && key + 1 != sight.query.len,
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            except("return key >= pair_lo[pair] && key < pair_hi[pair] && key + 1u != pair_len[pair];"),
        ],
    ),
    keys(
        "drop-first-token",
        "key 0 is left out",
        |r| r.sees = |_, sight, _, key| sight.covers(key) && key != 0,
        &[except("return key >= pair_lo[pair] && key < pair_hi[pair] && key != 0u;")],
    ),
    keys(
        "drop-middle-token",
        "the middle key of the row is left out",
        |r| r.sees = |_, sight, _, key| sight.covers(key) && key != sight.query.len / 2,
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            except("return key >= pair_lo[pair] && key < pair_hi[pair] && key != pair_len[pair] / 2u;"),
        ],
    ),
    keys(
        "drop-last-block",
        "the last block of the row is left out, full or not",
        |r| {
            r.sees = |p, sight, _, key| {
                sight.covers(key) && key / p.block_size != sight.query.len.saturating_sub(1) / p.block_size
            }
        },
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            except(
                "return key >= pair_lo[pair] && key < pair_hi[pair]
        && key / P.block_size != (max(pair_len[pair], 1u) - 1u) / P.block_size;",
            ),
        ],
    ),
    keys(
        "drop-first-block",
        "the first block of the row is left out",
        |r| r.sees = |p, sight, _, key| sight.covers(key) && key >= p.block_size,
        &[except("return key >= pair_lo[pair] && key < pair_hi[pair] && key >= P.block_size;")],
    ),
    keys(
        "duplicate-middle-token",
        "the middle key of the row is counted twice",
        |r| {
            r.score = |r, p, sight, key, dot, bias| {
                let twice = if key == sight.query.len / 2 { LN_2 } else { 0.0 };
                score(r, p, sight, key, dot, bias) + twice
            }
        },
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            core(
                "return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside);",
                "let twice = select(0.0, 0.6931471806, key == pair_len[pair] / 2u);
    return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside) + twice;",
            ),
        ],
    ),
    keys(
        "half-tile",
        "of each tile of up to 64 keys only the first 32 are counted",
        |r| r.sees = |_, sight, tile, key| sight.covers(key) && key - tile.start < 32,
        &[except("return key >= pair_lo[pair] && key < pair_hi[pair] && j < 32u;")],
    ),
    keys(
        "tile-tail-of-one",
        "a tile with a single key is left out",
        |r| r.sees = |_, sight, tile, key| sight.covers(key) && tile.count != 1,
        &[except("return key >= pair_lo[pair] && key < pair_hi[pair] && tile.count != 1u;")],
    ),
    super::fault(
        Kind::Addressing,
        "head-dim-32",
        "q . k stops at the last whole 32 dims",
        |p| !p.launch.d.is_multiple_of(32) && p.launch.d > 32,
        |r| r.dims = |p| if p.d > 32 { p.d / 32 * 32 } else { p.d },
        &[core("w < P.d / WORD_ELEMENTS", "w < select(P.d, P.d / 32u * 32u, P.d > 32u) / WORD_ELEMENTS")],
    ),
    super::fault(
        Kind::Addressing,
        "head-dim-128",
        "q . k stops at dim 128",
        |p| p.launch.d > 128,
        |r| r.dims = |p| p.d.min(128),
        &[core("w < P.d / WORD_ELEMENTS", "w < min(P.d, 128u) / WORD_ELEMENTS")],
    ),
    super::fault(
        Kind::Addressing,
        "value-dims-of-k",
        "no more dims of the output are written than K has",
        |p| p.launch.dv > p.launch.d,
        |r| r.out_dims = |p| p.dv.min(p.d),
        &[joined(
            "    outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;",
            "    if (c < P.d) {
        outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
    }",
        )],
    ),
];
