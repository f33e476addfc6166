//! Right numbers from needless loads.

use super::{Edit, KernelFault, Kind, core, reach};
use crate::abi::Problem;
use crate::cpu::rules::Rules;

const fn traffic(
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    super::fault(Kind::Traffic, id, says, reach, twin, wgsl)
}

pub(super) const FAULTS: &[KernelFault] = &[
    traffic(
        "k-loaded-twice",
        "every word of K is loaded twice",
        reach::always,
        |r| r.k_loads = 2,
        &[core(
            "        let word = k_load(k_word(slot, kv_head, w));\n",
            "        let again = k_load(k_word(slot, kv_head, w));
        let word = k_load(k_word(slot, kv_head, w));
",
        )],
    ),
    traffic(
        "window-not-skipped",
        "keys before the window are loaded and masked",
        reach::window,
        |r| r.range = |_, keys, _| [0, keys[1]],
        &[core(
            "lo = max(max(lo, split * P.split_tokens), bounds.x);",
            "lo = max(split * P.split_tokens, bounds.x);",
        )],
    ),
    traffic(
        "block-past-end",
        "a block of K behind the last key is loaded, each load clamped to the last key",
        reach::always,
        |r| r.loads_past_end = |p| p.block_size,
        &[core(
            "            score_key(tile.start + lane, slot, lane, kv_head, pairs, scale);\n",
            "            score_key(tile.start + lane, slot, lane, kv_head, pairs, scale);
            if (lane + 1u == tile.count && tile.start + tile.count >= keys.y) {
                for (var w = 0u; w < P.block_size * (P.d / WORD_ELEMENTS); w++) {
                    let again = k_load(k_word(slot, kv_head, w % (P.d / WORD_ELEMENTS)));
                }
            }
",
        )],
    ),
    traffic(
        "table-loaded-per-key",
        "the entry of a block is loaded for each of its keys",
        reach::blocks,
        |r| r.entry_per_key = true,
        &[Edit {
            file: "addr/blocks.wgsl",
            find: "    let key = t + lane;\n",
            replace: "    let key = t + lane;
    if (lane < count && lane != 0u && key % P.block_size != 0u) {
        let again = table_load(entries + key / P.block_size);
    }
",
        }],
    ),
];
