//! The attention core: `wgsl/attention.wgsl`.

use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::elem::Elem;

use super::addr::{Address, Pair, TILE, Tile};
use super::memory::Memory;
use crate::abi::{FLAG_ALIBI, FLAG_ALIBI_THEN_CAP, FLAG_CAUSAL, FLAG_TOP_LEFT, Params};
use crate::dispatch::RunError;

/// A (query token, head) pair at work.
#[derive(Debug, Clone)]
struct PairState {
    q_row: u32,
    lo: u32,
    hi: u32,
    position: i32,
    slope: f32,
    run_max: f32,
    run_sum: f32,
    rescale: f32,
    weights: Vec<f32>,
    acc: Vec<f32>,
}

/// The attention kernel of one dispatch.
#[derive(Debug)]
pub(super) struct Kernel<'a> {
    p: &'a Params,
    address: Address<'a>,
    elem: Elem,
    queries: &'a [u32],
}

/// One workgroup's choice of KV head and whole-row scales.
#[derive(Debug, Clone, Copy)]
struct Head {
    unit: u32,
    kv: u32,
    k_scale: f32,
    v_scale: f32,
}

impl<'a> Kernel<'a> {
    pub(super) fn new(p: &'a Params, kind: LayoutKind, elem: Elem, queries: &'a [u32]) -> Self {
        let word_elements = 4 / elem.bytes() as u32;
        Self { p, address: Address { p, kind, word_elements }, elem, queries }
    }

    fn decode(&self, word: u32, l: u32) -> f32 {
        let width = 8 * self.elem.bytes() as u32;
        let bits = if width == 32 { word } else { (word >> (width * l)) & ((1 << width) - 1) };
        self.elem.decode(bits) as f32
    }

    pub(super) fn workgroup(
        &self,
        wg: [u32; 3],
        m: &mut Memory<'_>,
        partials: &mut [u32],
    ) -> Result<(), RunError> {
        let p = self.p;
        let units = p.q_heads / p.heads_per_unit;
        let unit = wg[0] % units;
        let first_pair = (wg[0] / units) * p.pair_tile;
        let mut head = Head { unit, kv: unit * p.heads_per_unit / p.group, k_scale: 1.0, v_scale: 1.0 };

        let mut row = self.address.row_open(wg[1], m)?;
        let mut pairs = Vec::new();
        for lane in 0..p.pair_tile {
            if let Some(pair) = self.address.pair_find(&row, first_pair + lane, m)? {
                pairs.push(self.pair_set_up(head, &pair, m)?);
            }
        }
        let keys = self.key_range(&pairs, wg[2], row.bounds);
        if keys[0] < keys[1] {
            head.k_scale = whole_scale(p.k_scale, p.k_scales_at, head.kv, m)?;
            head.v_scale = whole_scale(p.v_scale, p.v_scales_at, head.kv, m)?;
            self.address.row_range(&mut row, wg[1], keys, m)?;
        }

        let (mut t, mut cursor) = (keys[0], row.entries);
        while t < keys[1] {
            let tile = self.address.tile_open(&row, cursor, t, keys[1], m)?;
            if tile.count == 0 {
                break;
            }
            let v_scales = self.score_tile(&tile, head, &mut pairs, m)?;
            for pair in &mut pairs {
                softmax_pair(pair, &tile);
            }
            for unit in 0..p.dv / self.address.unit().0 {
                self.accumulate(unit, &tile, &v_scales, head, &mut pairs, m)?;
            }
            t = tile.start + tile.count;
            cursor = tile.cursor;
        }
        for pair in &pairs {
            self.store_partial(pair, row.part + wg[2], partials);
        }
        Ok(())
    }

    fn pair_set_up(&self, head: Head, pair: &Pair, m: &Memory<'_>) -> Result<PairState, RunError> {
        let p = self.p;
        let token = pair.local / p.heads_per_unit;
        let q_head = head.unit * p.heads_per_unit + pair.local % p.heads_per_unit;
        let len = pair.len as i32;
        let mut position = token as i32;
        if p.flags & FLAG_TOP_LEFT == 0 {
            position += len - pair.q_len as i32;
        }
        let mut end = len.min(position + p.right as i32 + 1);
        if p.flags & FLAG_CAUSAL != 0 {
            end = end.min(position + 1);
        }
        let hi = end.max(0) as u32;
        let slope = if p.flags & FLAG_ALIBI != 0 { m.parameter(p.slopes_at + q_head)? } else { 0.0 };
        Ok(PairState {
            q_row: (pair.q_begin + token) * p.q_heads + q_head,
            lo: ((position - p.left as i32).max(0) as u32).min(hi),
            hi,
            position,
            slope,
            run_max: 0.0,
            run_sum: 0.0,
            rescale: 1.0,
            weights: vec![0.0; TILE as usize],
            acc: vec![0.0; p.dv as usize],
        })
    }

    fn key_range(&self, pairs: &[PairState], split: u32, bounds: [u32; 2]) -> [u32; 2] {
        let seeing = || pairs.iter().filter(|pair| pair.lo < pair.hi);
        let lo = seeing().map(|pair| pair.lo).min().unwrap_or(u32::MAX);
        let hi = seeing().map(|pair| pair.hi).max().unwrap_or(0);
        let lo = lo.max(split * self.p.split_tokens).max(bounds[0]);
        let hi = hi.min((split + 1) * self.p.split_tokens).min(bounds[1]);
        if lo >= hi { [0, 0] } else { self.address.widen([lo, hi]) }
    }

    /// Scores of every key of the tile against every pair, and the V scale of every key.
    fn score_tile(
        &self,
        tile: &Tile,
        head: Head,
        pairs: &mut [PairState],
        m: &mut Memory<'_>,
    ) -> Result<Vec<f32>, RunError> {
        let p = self.p;
        let mut v_scales = Vec::with_capacity(tile.slots.len());
        for (lane, (&slot, key)) in tile.slots.iter().zip(tile.start..).enumerate() {
            let mut k_scale = head.k_scale;
            if p.k_scale > 2 {
                k_scale = self.row_scale(p.k_scale, p.k_scales_at, slot, head.kv, m)?;
            }
            let mut v_scale = head.v_scale;
            if p.v_scale > 2 {
                v_scale = self.row_scale(p.v_scale, p.v_scales_at, slot, head.kv, m)?;
            }
            v_scales.push(v_scale);
            self.score_key(key, slot, lane, head.kv, k_scale, pairs, m)?;
        }
        Ok(v_scales)
    }

    #[allow(clippy::too_many_arguments)]
    fn score_key(
        &self,
        key: u32,
        slot: u32,
        lane: usize,
        kv_head: u32,
        k_scale: f32,
        pairs: &mut [PairState],
        m: &mut Memory<'_>,
    ) -> Result<(), RunError> {
        let p = self.p;
        let elements = self.address.word_elements;
        let mut dots = vec![0.0f32; pairs.len()];
        for w in 0..p.d / elements {
            let word = m.k(self.address.k_word(slot, kv_head, w))?;
            for l in 0..elements {
                let element = self.decode(word, l);
                for (dot, pair) in dots.iter_mut().zip(pairs.iter()) {
                    let q = self.queries[(pair.q_row * p.d + w * elements + l) as usize];
                    *dot += f32::from_bits(q) * element;
                }
            }
        }
        for (dot, pair) in dots.iter().zip(pairs.iter_mut()) {
            pair.weights[lane] = self.score(dot * k_scale * p.scale, pair, key);
        }
        Ok(())
    }

    fn score(&self, x: f32, pair: &PairState, key: u32) -> f32 {
        let mut bias = 0.0;
        if self.p.flags & FLAG_ALIBI != 0 {
            let distance = key as i32 - pair.position;
            let distance = if self.p.flags & FLAG_CAUSAL == 0 { -distance.abs() } else { distance };
            bias = pair.slope * distance as f32;
        }
        if self.p.flags & FLAG_ALIBI_THEN_CAP != 0 { self.capped(x + bias) } else { self.capped(x) + bias }
    }

    fn capped(&self, x: f32) -> f32 {
        let cap = self.p.softcap;
        if cap > 0.0 { cap * libm::tanhf((x / cap).clamp(-15.0, 15.0)) } else { x }
    }

    fn row_scale(
        &self,
        granularity: u32,
        at: u32,
        slot: u32,
        kv_head: u32,
        m: &mut Memory<'_>,
    ) -> Result<f32, RunError> {
        let row = if granularity == 3 { slot / self.p.block_size } else { slot };
        m.scale(at.wrapping_add(row.wrapping_mul(self.p.kv_heads)).wrapping_add(kv_head))
    }

    /// Adds one unit of V over the tile to every pair.
    fn accumulate(
        &self,
        unit: u32,
        tile: &Tile,
        v_scales: &[f32],
        head: Head,
        pairs: &mut [PairState],
        m: &mut Memory<'_>,
    ) -> Result<(), RunError> {
        let (dims, step_keys) = self.address.unit();
        let first = (unit * dims) as usize;
        for pair in pairs.iter_mut() {
            for c in 0..dims as usize {
                pair.acc[first + c] *= pair.rescale;
            }
        }
        for step in 0..tile.count / step_keys {
            let word = m.v(self.address.v_word(tile.slots[(step * step_keys) as usize], head.kv, unit))?;
            for l in 0..self.address.word_elements {
                let key = (step * step_keys + l % step_keys) as usize;
                let c = first + (l % dims) as usize;
                let element = self.decode(word, l) * v_scales[key];
                for pair in pairs.iter_mut() {
                    if pair.weights[key] != 0.0 {
                        pair.acc[c] += pair.weights[key] * element;
                    }
                }
            }
        }
        Ok(())
    }

    fn store_partial(&self, pair: &PairState, part: u32, partials: &mut [u32]) {
        let at = self.p.partial_at(part, pair.q_row);
        let seen = pair.run_sum > 0.0;
        partials[at] = u32::from(seen);
        if seen {
            partials[at + 1] = (pair.run_max + libm::logf(pair.run_sum)).to_bits();
            for (c, acc) in pair.acc.iter().enumerate() {
                partials[at + 2 + c] = (acc / pair.run_sum).to_bits();
            }
        }
    }
}

fn whole_scale(granularity: u32, at: u32, kv_head: u32, m: &mut Memory<'_>) -> Result<f32, RunError> {
    match granularity {
        1 => m.scale(at),
        2 => m.scale(at + kv_head),
        _ => Ok(1.0),
    }
}

/// Turns the scores of one pair over the tile into weights against the running maximum.
fn softmax_pair(pair: &mut PairState, tile: &Tile) {
    let first = (pair.lo.max(tile.start) - tile.start) as usize;
    let end = (pair.hi.min(tile.start + tile.count).max(tile.start) - tile.start) as usize;
    let mut top = pair.run_max;
    let mut empty = pair.run_sum == 0.0;
    for &score in &pair.weights[first.min(end)..end] {
        top = if empty || score > top { score } else { top };
        empty = false;
    }
    pair.rescale = if pair.run_sum > 0.0 { libm::expf(pair.run_max - top) } else { 1.0 };
    let mut sum = pair.run_sum * pair.rescale;
    for (j, weight) in pair.weights[..tile.count as usize].iter_mut().enumerate() {
        *weight = if j >= first && j < end { libm::expf(*weight - top) } else { 0.0 };
        sum += *weight;
    }
    pair.run_max = top;
    pair.run_sum = sum;
}
