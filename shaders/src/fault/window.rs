//! The edges of the sliding window.

use attnproof_layouts::launch::UNLIMITED;

use super::{Edit, KernelFault, Kind, core, reach};
use crate::abi::{FAR, Problem};
use crate::cpu::rules::Rules;

const fn window(
    id: &'static str,
    says: &'static str,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Window, id, says, reach::window, twin, wgsl)
}

fn either_side(p: &Problem) -> bool {
    reach::window(p) || p.launch.attention.right != UNLIMITED
}

const FIRST: &str = "position - i32(P.left)";
const FIRST_KEY: &str = "u32(max(position - i32(P.left), 0))";

pub(super) const FAULTS: &[KernelFault] = &[
    window(
        "window-plus-one",
        "the window has one key too many at its left edge",
        |r| r.first_key = |p, _, position| position - p.left as i32 - 1,
        &[core(FIRST, "position - i32(P.left) - 1")],
    ),
    window(
        "window-minus-one",
        "the window has one key too few at its left edge",
        |r| r.first_key = |p, _, position| position - p.left as i32 + 1,
        &[core(FIRST, "position - i32(P.left) + 1")],
    ),
    super::fault(
        Kind::Window,
        "window-ignored",
        "there is no window, on either side",
        either_side,
        |r| r.params = |p| (p.left, p.right) = (FAR, FAR),
        &[core(FIRST, "0"), core("min(len, position + i32(P.right) + 1)", "len")],
    ),
    window(
        "window-block-floor",
        "the first key of the window is rounded down to a whole block",
        |r| {
            r.first_key = |p, _, position| {
                let first = (position - p.left as i32).max(0) as u32;
                (first / p.block_size * p.block_size) as i32
            }
        },
        &[core(FIRST_KEY, "u32(max(position - i32(P.left), 0)) / P.block_size * P.block_size")],
    ),
    window(
        "window-tile-floor",
        "the first key of the window is rounded down to a multiple of 64 keys",
        |r| r.first_key = |p, _, position| (position - p.left as i32).max(0) / 64 * 64,
        &[core(FIRST_KEY, "u32(max(position - i32(P.left), 0)) / 64u * 64u")],
    ),
    window(
        "window-of-previous-token",
        "query tokens after the first of a row take the window start of the token before them",
        |r| r.first_key = |p, query, position| position - p.left as i32 - query.token.min(1) as i32,
        &[core(FIRST, "position - i32(min(token, 1u)) - i32(P.left)")],
    ),
    window(
        "window-first-token-ignored",
        "the first of several query tokens has no window on its left",
        |r| {
            r.first_key = |p, query, position| {
                if query.token == 0 && query.q_len > 1 { 0 } else { position - p.left as i32 }
            }
        },
        &[core(FIRST, "select(position - i32(P.left), 0, token == 0u && pair.q_len > 1u)")],
    ),
];
