//! The words of K, V and scales behind a run of slots.

use std::ops::Range;

use attnproof_oracle::scale::Granularity;

use super::touch::Binding;
use super::{Reads, Touched};
use crate::launch::Launch;
use crate::pack::GUARD_WORDS;

/// Bytes of one chunk of the classic K order.
const CHUNK_BYTES: u64 = 16;

/// The pools and the scale tables of one launch.
pub(super) struct Bytes<'a> {
    launch: &'a Launch,
    element_width: u64,
    k: Binding,
    v: Binding,
    scales: Binding,
    /// Scales of K; V's follow.
    k_scales: u64,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(launch: &'a Launch) -> Self {
        let element_width = launch.elem.bytes() as u64;
        let (blocks, a) = (u64::from(launch.blocks), &launch.addressing);
        let slots = blocks * u64::from(launch.block_size);
        let pool = |block: u32, slot: u32| {
            let elements = blocks * u64::from(block) + slots * u64::from(slot);
            Binding::new(elements * element_width / 4 + 2 * u64::from(GUARD_WORDS))
        };
        let table = |granularity| {
            let heads = u64::from(launch.kv_heads);
            match granularity {
                Granularity::None => 0,
                Granularity::Tensor => 1,
                Granularity::Head => heads,
                Granularity::Block => blocks * heads,
                Granularity::Token => slots * heads,
            }
        };
        let (k_scales, v_scales) = (table(launch.k_scale), table(launch.v_scale));
        Self {
            launch,
            element_width,
            k: pool(a.k_block, a.k_slot),
            v: pool(a.v_block, a.v_slot),
            scales: Binding::new(k_scales + v_scales),
            k_scales,
        }
    }

    /// Scales that hold for a whole workgroup.
    pub(super) fn fixed_scales(&mut self, kv_head: u32) {
        for (granularity, base) in [(self.launch.k_scale, 0), (self.launch.v_scale, self.k_scales)] {
            match granularity {
                Granularity::Tensor => self.scales.load(base, 1),
                Granularity::Head => self.scales.load(base + u64::from(kv_head), 1),
                Granularity::None | Granularity::Block | Granularity::Token => {}
            }
        }
    }

    /// Everything of the keys in `runs` of slots; in the classic layout no run crosses a block.
    pub(super) fn keys(&mut self, runs: &[Range<u64>], kv_head: u32) {
        for run in runs {
            if self.launch.schedule.whole_blocks {
                self.classic(run, kv_head);
            } else {
                self.slot_major(run, kv_head);
            }
            self.key_scales(run, kv_head);
        }
    }

    fn slot_major(&mut self, run: &Range<u64>, kv_head: u32) {
        let (l, a, bytes) = (self.launch, &self.launch.addressing, self.element_width);
        let head = u64::from(kv_head);
        for slot in run.clone() {
            let k = u64::from(a.k_base) + slot * u64::from(a.k_slot) + head * u64::from(a.k_head);
            let v = u64::from(a.v_base) + slot * u64::from(a.v_slot) + head * u64::from(a.v_head);
            self.k.load(k * bytes / 4, u64::from(l.d) * bytes / 4);
            self.v.load(v * bytes / 4, u64::from(l.dv) * bytes / 4);
        }
    }

    fn classic(&mut self, run: &Range<u64>, kv_head: u32) {
        let (l, a, bytes) = (self.launch, &self.launch.addressing, self.element_width);
        let (head, block_size) = (u64::from(kv_head), u64::from(l.block_size));
        let (block, token, count) = (run.start / block_size, run.start % block_size, run.end - run.start);
        let k = u64::from(a.k_base) + block * u64::from(a.k_block) + head * u64::from(a.k_head);
        for piece in 0..u64::from(l.d) * bytes / CHUNK_BYTES {
            let first = k * bytes + (piece * block_size + token) * CHUNK_BYTES;
            self.k.load(first / 4, count * CHUNK_BYTES / 4);
        }
        let v = u64::from(a.v_base) + block * u64::from(a.v_block) + head * u64::from(a.v_head);
        for dim in 0..u64::from(l.dv) {
            self.v.load((v + dim * block_size + token) * bytes / 4, count * bytes / 4);
        }
    }

    fn key_scales(&mut self, run: &Range<u64>, kv_head: u32) {
        for (granularity, base) in [(self.launch.k_scale, 0), (self.launch.v_scale, self.k_scales)] {
            let tokens_per_row = match granularity {
                Granularity::None | Granularity::Tensor | Granularity::Head => continue,
                Granularity::Block => u64::from(self.launch.block_size),
                Granularity::Token => 1,
            };
            for slot in run.clone() {
                let row = slot / tokens_per_row;
                self.scales.load(base + row * u64::from(self.launch.kv_heads) + u64::from(kv_head), 1);
            }
        }
    }

    /// The totals, with those of the tables.
    pub(super) fn reads(&self, tables: &Binding) -> Reads {
        let [k, v, tables, scales]: [Touched; 4] =
            [&self.k, &self.v, tables, &self.scales].map(Binding::touched);
        Reads { k, v, tables, scales }
    }
}
