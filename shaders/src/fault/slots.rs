//! Where a key is read from.

use attnproof_layouts::kind::LayoutKind;

use super::{Edit, KernelFault, Kind, PAIR_LEN, PAIR_LEN_OF, core, reach};
use crate::abi::Problem;
use crate::cpu::rules::{Rules, end_key};

const fn slots(
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Addressing, id, says, reach, twin, wgsl)
}

const fn blocks(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "addr/blocks.wgsl", find, replace }
}

const fn spans(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "addr/spans.wgsl", find, replace }
}

const fn slot_major(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "order/slot_major.wgsl", find, replace }
}

const fn classic(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "order/classic.wgsl", find, replace }
}

/// `fault_len`: the length of the workgroup's row.
const ROW_LEN: Edit = core(
    "    var row = row_open(wg.y, lane);\n",
    "    var row = row_open(wg.y, lane);\n    fault_len = row.len;\n",
);
const ROW_LEN_OF: Edit = core(
    "var<workgroup> pair_valid: array<u32, 16>;\n",
    "var<workgroup> pair_valid: array<u32, 16>;\nvar<private> fault_len: u32;\n",
);

/// V meets the weights that `moved` gives; keys move only within their tile here.
const MOVED: Edit = core("let w = weight[i * TILE + key];", "let w = moved(i, tile, key);");

const ENTRY: &str = "table_load(entries + key / P.block_size)";
const V_SLOT: &str = "slot_of[step * STEP_KEYS], kv_head";

fn classic_order(p: &Problem) -> bool {
    p.launch.kind == LayoutKind::ClassicPaged
}

/// Slots or blocks have padding between them.
fn padded(p: &Problem) -> bool {
    let (launch, a) = (&p.launch, &p.launch.addressing);
    let dims = [launch.d, launch.dv].map(|d| launch.kv_heads * d);
    if classic_order(p) {
        return [a.k_block, a.v_block] != dims.map(|d| d * launch.block_size);
    }
    [a.k_slot, a.v_slot] != dims
}

pub(super) const FAULTS: &[KernelFault] = &[
    slots(
        "v-of-next-token",
        "V of the middle key of the row is that of the key after it",
        reach::always,
        |r| {
            r.v_slot = Some(|of, key, slot, _| {
                let moves = key == of.len / 2 && key + 1 < of.len;
                Ok(if moves { of.of(key + 1)?.unwrap_or(slot) } else { slot })
            });
        },
        &[
            PAIR_LEN,
            PAIR_LEN_OF,
            MOVED,
            core(
                "fn accumulate(",
                "fn moved(pair: u32, tile: Tile, j: u32) -> f32 {
    let middle = pair_len[pair] / 2u;
    let inside = P.phase == 0u && tile.start <= middle && middle + 1u < tile.start + tile.count;
    if (inside && middle + 1u < pair_len[pair]) {
        if (tile.start + j == middle) {
            return 0.0;
        }
        if (tile.start + j == middle + 1u) {
            return weight[pair * TILE + j] + weight[pair * TILE + j - 1u];
        }
    }
    return weight[pair * TILE + j];
}

fn accumulate(",
            ),
        ],
    ),
    slots(
        "v-shifted",
        "V of every key but the first is that of the key before it",
        reach::always,
        |r| {
            r.v_slot =
                Some(|of, key, slot, _| Ok(if key > 0 { of.of(key - 1)?.unwrap_or(slot) } else { slot }));
        },
        &[
            MOVED,
            core(
                "fn accumulate(",
                "fn moved(pair: u32, tile: Tile, j: u32) -> f32 {
    var w = select(0.0, weight[pair * TILE], j == 0u);
    if (j + 1u < tile.count) {
        w += weight[pair * TILE + j + 1u];
    }
    return w;
}

fn accumulate(",
            ),
        ],
    ),
    slots(
        "one-past-end",
        "the slot behind the last key is counted as a key",
        reach::always,
        |r| {
            r.end_key = |p, query, position| {
                let (end, len) = (end_key(p, query, position), query.len as i32);
                end + i32::from(end == len && len > 0)
            };
            r.bounds = |p, bounds| [bounds[0], bounds[1] + u32::from(p.phase == 0)];
            r.span_length = |length, last| length + u32::from(last);
            r.slot = Some(|of, key, slot| {
                if of.len == 0 || key < of.len {
                    return Ok(slot);
                }
                Ok(of.of(of.len - 1)?.map_or(slot, |last| last.wrapping_add(1 + key - of.len)))
            });
        },
        &[
            core(
                "        hi = u32(max(end, 0));\n",
                "        hi = u32(max(end, 0)) + select(0u, 1u, end == len && len > 0);\n",
            ),
            core(
                "P.split_tokens), bounds.y);",
                "P.split_tokens), bounds.y + select(1u, 0u, P.phase == 1u));",
            ),
            spans(
                "let length = table_load_uniform(at + 1u, lane);",
                "let length = table_load_uniform(at + 1u, lane) + select(0u, 1u, at + SPAN_WORDS == row.entries_end);",
            ),
        ],
    ),
    slots(
        "blocks-swapped",
        "the first two blocks of a row are read from each other's place",
        reach::always,
        |r| {
            r.slot = Some(|of, key, slot| {
                let size = of.p.block_size;
                let swapped = key < 2 * size && of.len > size;
                Ok(if swapped { of.of(key ^ size)?.unwrap_or(slot) } else { slot })
            });
        },
        &[
            ROW_LEN,
            ROW_LEN_OF,
            blocks(
                ENTRY,
                "table_load(entries + (key / P.block_size ^ select(0u, 1u, key < 2u * P.block_size && fault_len > P.block_size)))",
            ),
            spans(
                "return tile.place + lane;",
                "let key = tile.start + lane;
    if (key < 2u * P.block_size && (key ^ P.block_size) < row.len) {
        return tile.place + (key ^ P.block_size) - tile.start;
    }
    return tile.place + lane;",
            ),
        ],
    ),
    slots(
        "stride-from-shape",
        "the distance of slots is computed from head count and head dim, without the padding between them",
        padded,
        |r| {
            r.params = |p| {
                (p.k_slot, p.v_slot) = (p.kv_heads * p.d, p.kv_heads * p.dv);
                (p.k_block, p.v_block) = (p.k_slot * p.block_size, p.v_slot * p.block_size);
            }
        },
        &[
            slot_major("slot * P.k_slot", "slot * (P.kv_heads * P.d)"),
            slot_major("slot * P.v_slot", "slot * (P.kv_heads * P.dv)"),
            classic(
                "(slot / P.block_size) * P.k_block",
                "(slot / P.block_size) * (P.kv_heads * P.d * P.block_size)",
            ),
            classic(
                "(slot / P.block_size) * P.v_block",
                "(slot / P.block_size) * (P.kv_heads * P.dv * P.block_size)",
            ),
        ],
    ),
    slots(
        "v-stride-of-k",
        "V is addressed with the strides of K",
        |p| p.launch.d != p.launch.dv,
        |r| r.params = |p| (p.v_slot, p.v_head, p.v_block) = (p.k_slot, p.k_head, p.k_block),
        &[
            slot_major("slot * P.v_slot + kv_head * P.v_head", "slot * P.k_slot + kv_head * P.k_head"),
            classic("* P.v_block + kv_head * P.v_head", "* P.k_block + kv_head * P.k_head"),
        ],
    ),
    slots(
        "slots-u16",
        "slots are cut to 16 bits",
        |p| u64::from(p.launch.blocks) * u64::from(p.launch.block_size) > 1 << 16,
        |r| r.slot = Some(|_, _, slot| Ok(slot & 0xffff)),
        &[core("tile_slot(row, tile, lane);", "tile_slot(row, tile, lane) & 0xffffu;")],
    ),
    slots(
        "block-size-16",
        "blocks have 16 tokens, whatever the pool has",
        |p| p.launch.block_size != 16,
        |r| r.params = |p| p.block_size = 16,
        &[
            Edit {
                file: "params.wgsl",
                find: "var<uniform> P: Params;",
                replace: "var<uniform> U: Params;\nvar<private> P: Params;",
            },
            core(
                "    let units = P.q_heads / P.heads_per_unit;\n",
                "    P = U;\n    P.block_size = 16u;\n    let units = P.q_heads / P.heads_per_unit;\n",
            ),
            Edit {
                file: "merge.wgsl",
                find: "    let q_row = wg.x;\n",
                replace: "    P = U;\n    let q_row = wg.x;\n",
            },
        ],
    ),
    slots(
        "adjacent-blocks",
        "every second block of a row is read from the block behind the one before it",
        reach::blocks,
        |r| {
            r.slot = Some(|of, key, slot| {
                let size = of.p.block_size;
                let odd = key / size % 2 == 1 && of.paged(key);
                Ok(if odd {
                    of.of(key - size)?.map_or(slot, |before| before.wrapping_add(size))
                } else {
                    slot
                })
            });
        },
        &[blocks(ENTRY, "table_load(entries + key / P.block_size / 2u * 2u) + key / P.block_size % 2u")],
    ),
    slots(
        "table-ignored",
        "the number of a block in its row is taken for its place in the pool",
        reach::blocks,
        |r| r.slot = Some(|of, key, slot| Ok(if of.paged(key) { key } else { slot })),
        &[blocks(ENTRY, "key / P.block_size")],
    ),
    slots(
        "neighbours-table",
        "a row reads its keys through the table of the next row, the last one through that of the first",
        |p| p.launch.rows.len() > 1,
        |r| r.table_row = |p, y| (y + 1) % p.rows,
        &[
            core(
                "    var row = row_open(wg.y, lane);\n",
                "    var row = row_open(wg.y, lane);
    if (P.phase == 0u) {
        let other = row_open((wg.y + 1u) % P.rows, lane);
        row.entries = other.entries;
        row.entries_end = other.entries_end;
        row.hot_start = other.hot_start;
    }
",
            ),
            core(
                "row_range(row, wg.y, keys.xy, lane)",
                "row_range(row, (wg.y + 1u) % P.rows, keys.xy, lane)",
            ),
        ],
    ),
    slots(
        "entry-past-row",
        "the entry of a row's last block is read one entry too far",
        reach::blocks,
        |r| {
            r.slot = Some(|of, key, slot| {
                let size = of.p.block_size;
                let last = of.len > 0 && key / size == (of.len - 1) / size && of.paged(key);
                Ok(if last { of.of(key + size)?.unwrap_or(slot) } else { slot })
            });
        },
        &[
            ROW_LEN,
            ROW_LEN_OF,
            blocks(
                ENTRY,
                "table_load(entries + key / P.block_size + select(0u, 1u, key / P.block_size == (fault_len - 1u) / P.block_size))",
            ),
        ],
    ),
    slots(
        "v-page-not-advanced",
        "V of a whole tile is read from the block of its first key, each at its own offset",
        reach::always,
        |r| {
            r.v_slot = Some(|of, _, slot, first| {
                let size = of.p.block_size;
                Ok(first / size * size + slot % size)
            });
        },
        &[
            core(
                V_SLOT,
                "slot_of[0] / P.block_size * P.block_size + slot_of[step * STEP_KEYS] % P.block_size, kv_head",
            ),
            core(
                "v_scale_of[lane] = row_scale(P.v_scale, P.v_scales_at, slot, kv_head);",
                "let first = tile_slot(row, tile, 0u);
                let v_slot = first / P.block_size * P.block_size + slot % P.block_size;
                v_scale_of[lane] = row_scale(P.v_scale, P.v_scales_at, v_slot, kv_head);",
            ),
        ],
    ),
];
