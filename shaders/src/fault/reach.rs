//! Where a fault can show at all, from the launch alone.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::{CausalKind, UNLIMITED};
use attnproof_oracle::scale::Granularity;

use crate::abi::Problem;

pub(super) fn always(_: &Problem) -> bool {
    true
}

/// A window on the left.
pub(super) fn window(p: &Problem) -> bool {
    p.launch.attention.left != UNLIMITED
}

pub(super) fn causal(p: &Problem) -> bool {
    p.launch.attention.causal != CausalKind::None
}

/// The position of a query changes the answer.
pub(super) fn positions(p: &Problem) -> bool {
    causal(p) || window(p) || p.launch.attention.right != UNLIMITED || p.launch.attention.alibi
}

/// More than one KV head.
pub(super) fn kv_heads(p: &Problem) -> bool {
    p.launch.kv_heads > 1
}

pub(super) fn alibi(p: &Problem) -> bool {
    p.launch.attention.alibi
}

pub(super) fn softcap(p: &Problem) -> bool {
    p.launch.attention.softcap > 0.0
}

pub(super) fn sinks(p: &Problem) -> bool {
    p.launch.attention.sinks
}

pub(super) fn k_scales(p: &Problem) -> bool {
    p.launch.k_scale != Granularity::None
}

pub(super) fn v_scales(p: &Problem) -> bool {
    p.launch.v_scale != Granularity::None
}

pub(super) fn scales(p: &Problem) -> bool {
    k_scales(p) || v_scales(p)
}

/// Scales of blocks or tokens.
pub(super) fn slot_scales(p: &Problem) -> bool {
    [p.launch.k_scale, p.launch.v_scale].iter().any(|g| matches!(g, Granularity::Block | Granularity::Token))
}

/// A query row may have more than one part.
pub(super) fn parts(p: &Problem) -> bool {
    p.parts() > 1
}

pub(super) fn splits(p: &Problem) -> bool {
    p.launch.schedule.splits > 1
}

/// A shared prefix is served on its own.
pub(super) fn prefix(p: &Problem) -> bool {
    p.launch.tables.groups > 0
}

/// Keys go through block entries.
pub(super) fn blocks(p: &Problem) -> bool {
    matches!(
        p.launch.kind,
        LayoutKind::ClassicPaged | LayoutKind::PackedBlockTable | LayoutKind::HotTailContiguous
    )
}

/// Rows of different lengths.
pub(super) fn ragged(p: &Problem) -> bool {
    p.launch.rows.iter().any(|row| row.len != p.launch.rows[0].len)
}

/// A row may see no key.
pub(super) fn empty_rows(p: &Problem) -> bool {
    let attention = &p.launch.attention;
    p.launch.rows.iter().any(|row| {
        row.len == 0 || row.q_len > row.len || attention.causal == CausalKind::TopLeft && row.q_len > 0
    }) || attention.left != UNLIMITED
}
