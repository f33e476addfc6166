//! The causal limit, and the positions of queries.

use attnproof_layouts::launch::CausalKind;

use super::{Edit, KernelFault, Kind, core, reach};
use crate::abi::{FLAG_CAUSAL, FLAG_TOP_LEFT, Problem};
use crate::cpu::rules::{Rules, end_key, position};

const fn causal(
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Causal, id, says, reach, twin, wgsl)
}

const TOP_LEFT: &str = "if ((P.flags & FLAG_TOP_LEFT) == 0u) {";
const CACHED: &str = "i32(pair.len) - i32(pair.q_len)";
const LIMIT: &str = "end = min(end, position + 1);";
const LIMITED: &str = "if ((P.flags & FLAG_CAUSAL) != 0u) {";
const BOTH_WAYS: &str = "if ((P.flags & FLAG_CAUSAL) == 0u) {";

pub(super) const FAULTS: &[KernelFault] = &[
    causal(
        "causal-top-left",
        "query token i stands at position i, though the last query should see the last key",
        |p| p.launch.attention.causal != CausalKind::TopLeft && reach::positions(p),
        |r| r.params = |p| p.flags |= FLAG_TOP_LEFT,
        &[core(TOP_LEFT, "if (false) {")],
    ),
    causal(
        "causal-bottom-right",
        "the last query sees the last key, though query token i should stand at position i",
        |p| p.launch.attention.causal == CausalKind::TopLeft,
        |r| r.params = |p| p.flags &= !FLAG_TOP_LEFT,
        &[core(TOP_LEFT, "if (true) {")],
    ),
    causal(
        "causal-plus-one",
        "each query also sees the key after its own",
        reach::causal,
        |r| {
            r.end_key = |p, query, position| {
                let end = end_key(p, query, position);
                if p.flags & FLAG_CAUSAL != 0 { (query.len as i32).min(position + 2) } else { end }
            }
        },
        &[core(LIMIT, "end = min(len, position + 2);")],
    ),
    causal(
        "causal-minus-one",
        "no query sees its own key",
        reach::causal,
        |r| {
            r.end_key = |p, query, position| {
                let end = end_key(p, query, position);
                if p.flags & FLAG_CAUSAL != 0 { end.min(position) } else { end }
            }
        },
        &[core(LIMIT, "end = min(end, position);")],
    ),
    causal(
        "causal-ignored",
        "there is no causal limit",
        reach::causal,
        |r| r.params = |p| p.flags &= !FLAG_CAUSAL,
        &[core(LIMITED, "if (false) {"), core(BOTH_WAYS, "if (true) {")],
    ),
    causal(
        "causal-imposed",
        "there is a causal limit, though none is declared",
        |p| !reach::causal(p),
        |r| r.params = |p| p.flags |= FLAG_CAUSAL,
        &[core(LIMITED, "if (true) {"), core(BOTH_WAYS, "if (false) {")],
    ),
    causal(
        "causal-offset-twice",
        "the cached length counts twice in the position",
        reach::positions,
        |r| {
            r.position = |p, query| {
                let right = position(p, query);
                right + (right - query.token as i32)
            }
        },
        &[core(CACHED, "2 * (i32(pair.len) - i32(pair.q_len))")],
    ),
    causal(
        "position-block-floor",
        "the position of the first query token is rounded down to a whole block",
        reach::positions,
        |r| {
            r.position = |p, query| {
                let token = query.token as i32;
                let first = position(p, query) - token;
                first.div_euclid(p.block_size as i32) * p.block_size as i32 + token
            }
        },
        &[core(CACHED, "(i32(pair.len) - i32(pair.q_len)) & -i32(P.block_size)")],
    ),
    causal(
        "position-from-longest-row",
        "positions are those of the longest row of the batch",
        |p| reach::positions(p) && reach::ragged(p),
        |r| {
            r.position = |p, query| {
                let mut longest = *query;
                longest.len = p.longest;
                position(p, &longest)
            }
        },
        &[core(CACHED, "i32(P.longest) - i32(pair.q_len)")],
    ),
    causal(
        "length-from-longest-row",
        "every row has the length of the longest row of the batch",
        reach::ragged,
        |r| r.len = |p, _| p.longest,
        &[
            core("RowRef(len, q_begin, q_len, vec2<u32>(0u, len),", LONGEST_ROW),
            Edit {
                file: "addr/hybrid-prefix-shared.wgsl",
                find: "Pair(true, table_load(at + 2u),",
                replace: "Pair(true, P.longest,",
            },
        ],
    ),
];

const LONGEST_ROW: &str = "RowRef(P.longest, q_begin, q_len, vec2<u32>(0u, P.longest),";
