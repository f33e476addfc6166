//! The attention core: `wgsl/attention.wgsl`.

use attnproof_layouts::launch::Launch;
use attnproof_oracle::elem::Elem;

use super::addr::{Address, Pair, RowRef, SlotOf, TILE, Tile};
use super::memory::Memory;
use super::rules::{Query, Rules, Sight};
use crate::abi::{FLAG_ALIBI, Params};
use crate::dispatch::RunError;

/// A (query token, head) pair at work.
#[derive(Debug, Clone)]
struct PairState {
    sight: Sight,
    k: Head,
    v: Head,
    slope: f32,
    run_max: f32,
    run_sum: f32,
    rescale: f32,
    weights: Vec<f32>,
    acc: Vec<f32>,
}

/// A KV head, and the head whose scale it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    kv: u32,
    scale: u32,
}

/// The heads that a workgroup's pairs meet, each with its whole-row scale; in a right kernel there is one.
type Heads = Vec<(Head, f32)>;

/// The attention kernel of one dispatch.
#[derive(Debug)]
pub(super) struct Kernel<'a> {
    p: &'a Params,
    rules: &'a Rules,
    address: Address<'a>,
    elem: Elem,
    /// Values of the 8-bit codes, empty for wider formats.
    values: Vec<f32>,
    queries: &'a [f32],
}

/// What one workgroup works on.
struct Work<'a> {
    tile: &'a Tile,
    /// The slots of V, if they are not those of the tile.
    v_slots: Option<Vec<u32>>,
    k_heads: &'a Heads,
    v_heads: &'a Heads,
    /// End of the keys that the workgroup reads.
    end: u32,
}

impl<'a> Kernel<'a> {
    pub(super) fn new(p: &'a Params, rules: &'a Rules, launch: &Launch, queries: &'a [u32]) -> Self {
        let elem = launch.elem;
        let word_elements = 4 / elem.bytes() as u32;
        let codes = if elem.bytes() == 1 { 0..256 } else { 0..0 };
        let values = codes.map(|code| (rules.decode)(elem, code)).collect();
        let address = Address { p, rules, kind: launch.kind, word_elements };
        Self { p, rules, address, elem, values, queries: bytemuck::cast_slice(queries) }
    }

    fn decode(&self, word: u32, l: u32) -> f32 {
        let width = 8 * self.elem.bytes() as u32;
        let bits = if width == 32 { word } else { (word >> (width * l)) & ((1 << width) - 1) };
        let known = self.values.get(bits as usize);
        known.copied().unwrap_or_else(|| (self.rules.decode)(self.elem, bits))
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

        let mut row = self.address.row_open(wg[1], m)?;
        let mut pairs = Vec::new();
        for lane in 0..p.pair_tile {
            if let Some(pair) = self.address.pair_find(&row, first_pair + lane, m)? {
                pairs.push(self.pair_set_up(unit, &pair, m)?);
            }
        }
        let keys = self.key_range(&pairs, wg[2], row.bounds);
        let (mut k_heads, mut v_heads) = (Heads::new(), Heads::new());
        if keys[0] < keys[1] {
            k_heads = self.heads(pairs.iter().map(|pair| pair.k), p.k_scale, p.k_scales_at, m)?;
            v_heads = self.heads(pairs.iter().map(|pair| pair.v), p.v_scale, p.v_scales_at, m)?;
            self.address.row_range(&mut row, keys, m)?;
        }

        let (mut t, mut cursor) = (keys[0], row.entries);
        while t < keys[1] {
            let tile = self.address.tile_open(&row, cursor, t, keys[1], m)?;
            if tile.count == 0 {
                break;
            }
            let v_slots = self.v_slots(&row, &tile, m)?;
            let (k_heads, v_heads) = (&k_heads, &v_heads);
            let work = Work { tile: &tile, v_slots, k_heads, v_heads, end: keys[1] };
            let v_scales = self.score_tile(&work, &mut pairs, m)?;
            for pair in &mut pairs {
                self.softmax_pair(pair, &tile);
            }
            self.accumulate(&work, &v_scales, &mut pairs, m)?;
            t = tile.start + tile.count;
            cursor = tile.cursor;
        }
        for pair in &pairs {
            self.store_partial(pair, row.part + wg[2], partials);
        }
        Ok(())
    }

    fn pair_set_up(&self, unit: u32, pair: &Pair, m: &Memory<'_>) -> Result<PairState, RunError> {
        let (p, r) = (self.p, self.rules);
        let token = pair.local / p.heads_per_unit;
        let head = unit * p.heads_per_unit + pair.local % p.heads_per_unit;
        let q_row = (pair.q_begin + token) * p.q_heads + head;
        let query = Query { token, q_len: pair.q_len, len: pair.len, head, q_row };
        let position = (r.position)(p, &query);
        let hi = (r.end_key)(p, &query, position).max(0) as u32;
        let lo = ((r.first_key)(p, &query, position).max(0) as u32).min(hi);
        let slope = if p.flags & FLAG_ALIBI != 0 {
            (r.slope)(p, &query, m.parameters(p.slopes_at, p.q_heads)?)
        } else {
            0.0
        };
        // one scale for all heads, or none, is the same for all
        let with_scale = |kv: u32, granularity: u32| {
            let scale = if granularity < 2 { 0 } else { (r.scale_head)(p, head, kv) };
            Head { kv, scale }
        };
        Ok(PairState {
            sight: Sight { query, position, lo, hi },
            k: with_scale((r.k_head)(p, head), p.k_scale),
            v: with_scale((r.v_head)(p, head), p.v_scale),
            slope,
            run_max: 0.0,
            run_sum: 0.0,
            rescale: 1.0,
            weights: vec![0.0; TILE as usize],
            acc: vec![0.0; p.dv as usize],
        })
    }

    fn key_range(&self, pairs: &[PairState], split: u32, bounds: [u32; 2]) -> [u32; 2] {
        let seeing = || pairs.iter().map(|pair| pair.sight).filter(|sight| sight.lo < sight.hi);
        let lo = seeing().map(|sight| sight.lo).min().unwrap_or(u32::MAX);
        let hi = seeing().map(|sight| sight.hi).max().unwrap_or(0);
        if lo >= hi {
            return [0, 0];
        }
        let bounds = (self.rules.bounds)(self.p, bounds);
        let [lo, hi] = (self.rules.range)(self.p, [lo, hi], bounds);
        let lo = lo.max(split * self.p.split_tokens).max(bounds[0]);
        let hi = hi.min((split + 1) * self.p.split_tokens).min(bounds[1]);
        if lo >= hi { [0, 0] } else { self.address.widen([lo, hi]) }
    }

    /// The different ones of `heads`, each with its scale if one scale holds for the whole row.
    fn heads(
        &self,
        heads: impl Iterator<Item = Head>,
        granularity: u32,
        at: u32,
        m: &mut Memory<'_>,
    ) -> Result<Heads, RunError> {
        let mut found = Heads::new();
        for head in heads {
            if found.iter().all(|(other, _)| *other != head) {
                let scale = match granularity {
                    1 => (self.rules.kv_scale)(m.scale(at)?),
                    2 => (self.rules.kv_scale)(m.scale(at + head.scale)?),
                    _ => 1.0,
                };
                found.push((head, scale));
            }
        }
        Ok(found)
    }

    /// The scale of (slot, head), which is the whole row's unless blocks or tokens have their own.
    fn scale_of(
        &self,
        granularity: u32,
        at: u32,
        slot: u32,
        head: &(Head, f32),
        m: &mut Memory<'_>,
    ) -> Result<f32, RunError> {
        let row = match granularity {
            0..=2 => return Ok(head.1),
            3 => slot / self.p.block_size,
            _ => slot,
        };
        let word = at.wrapping_add(row.wrapping_mul(self.p.kv_heads)).wrapping_add(head.0.scale);
        m.scale(word).map(self.rules.kv_scale)
    }

    /// The slots that the rules give V of the tile, if they give any.
    fn v_slots(&self, row: &RowRef, tile: &Tile, m: &mut Memory<'_>) -> Result<Option<Vec<u32>>, RunError> {
        let Some(v_slot) = self.rules.v_slot else { return Ok(None) };
        let mut of = SlotOf { p: self.p, len: row.len, address: &self.address, row, memory: m };
        let keys = tile.slots.iter().zip(tile.start..);
        keys.map(|(&slot, key)| v_slot(&mut of, key, slot, tile.slots[0])).collect::<Result<_, _>>().map(Some)
    }

    /// Scores of every key of the tile against every pair; returns the V scales, key by key for each head of V.
    fn score_tile(
        &self,
        work: &Work<'_>,
        pairs: &mut [PairState],
        m: &mut Memory<'_>,
    ) -> Result<Vec<f32>, RunError> {
        let (p, tile) = (self.p, work.tile);
        let mut v_scales = Vec::with_capacity(tile.slots.len() * work.v_heads.len());
        let mut k = vec![0.0; p.d as usize];
        for (lane, (&slot, key)) in tile.slots.iter().zip(tile.start..).enumerate() {
            let scale_slot = (self.rules.scale_slot)(key, slot, tile.slots[0]);
            let v_slot = work.v_slots.as_ref().map_or(scale_slot, |slots| slots[lane]);
            for head in work.v_heads {
                v_scales.push(self.scale_of(p.v_scale, p.v_scales_at, v_slot, head, m)?);
            }
            for head in work.k_heads {
                let k_scale = self.scale_of(p.k_scale, p.k_scales_at, scale_slot, head, m)?;
                self.load_k(slot, head.0.kv, self.rules.k_loads, &mut k, m)?;
                for pair in pairs.iter_mut().filter(|pair| pair.k == head.0) {
                    pair.weights[lane] = self.score(&k, k_scale, pair, key, slot);
                }
            }
        }
        let past_end = (self.rules.loads_past_end)(p);
        if past_end > 0 && tile.start + tile.count >= work.end {
            for head in work.k_heads {
                self.load_k(tile.slots[tile.slots.len() - 1], head.0.kv, past_end, &mut k, m)?;
            }
        }
        Ok(v_scales)
    }

    /// Loads K of a slot `times` times.
    fn load_k(
        &self,
        slot: u32,
        kv_head: u32,
        times: u32,
        k: &mut [f32],
        m: &mut Memory<'_>,
    ) -> Result<(), RunError> {
        let elements = self.address.word_elements;
        let words = (self.rules.dims)(self.p).min(self.p.d) / elements;
        for _ in 0..times {
            for w in 0..words {
                let word = m.k(self.address.k_word(slot, kv_head, w))?;
                for l in 0..elements {
                    k[(w * elements + l) as usize] = self.decode(word, l);
                }
            }
        }
        Ok(())
    }

    fn score(&self, k: &[f32], k_scale: f32, pair: &PairState, key: u32, slot: u32) -> f32 {
        let (p, r, sight) = (self.p, self.rules, &pair.sight);
        let first = (sight.query.q_row * p.d) as usize;
        let dims = (r.dims)(p).min(p.d) as usize;
        let mut dot = 0.0f32;
        for (q, k) in self.queries[first..first + dims].iter().zip(k) {
            dot += q * k;
            if let Some(round) = r.round_dot {
                dot = round(dot);
            }
        }
        let mut bias = 0.0;
        if p.flags & FLAG_ALIBI != 0 {
            bias = pair.slope * (r.distance)(p, sight.position, key, slot) as f32;
        }
        (r.score)(r, p, sight, key, (r.finish_dot)(dot) * k_scale, bias)
    }

    /// Turns the scores of one pair over the tile into weights against the running maximum.
    fn softmax_pair(&self, pair: &mut PairState, tile: &Tile) {
        let (p, r) = (self.p, self.rules);
        let before = (pair.run_sum != 0.0).then_some(pair.run_max);
        let mut top = before;
        let mut seen = [false; TILE as usize];
        let weights = &mut pair.weights[..tile.count as usize];
        for ((seen, weight), key) in seen.iter_mut().zip(weights.iter_mut()).zip(tile.start..) {
            *seen = (r.sees)(p, &pair.sight, tile, key);
            if let Some(masked) = r.masked_score
                && !*seen
                && let Some(score) = masked(p, &pair.sight, key)
            {
                (*seen, *weight) = (true, score);
            }
            if *seen {
                top = Some(match top {
                    Some(top) if *weight > top => *weight,
                    None => *weight,
                    Some(top) => top,
                });
            }
        }
        let top = top.map_or(pair.run_max, |top| (r.running_max)(before, top));
        let (of_sum, of_acc) = (r.rescale)(before.map_or(1.0, |before| libm::expf(before - top)));
        let mut sum = pair.run_sum * of_sum;
        for (seen, weight) in seen.iter().zip(weights) {
            *weight = if *seen { libm::expf(*weight - top) } else { r.masked_weight };
            sum += *weight;
        }
        pair.rescale = of_acc;
        pair.run_max = top;
        pair.run_sum = sum;
    }

    /// Adds V over the tile to every pair.
    fn accumulate(
        &self,
        work: &Work<'_>,
        v_scales: &[f32],
        pairs: &mut [PairState],
        m: &mut Memory<'_>,
    ) -> Result<(), RunError> {
        for pair in pairs.iter_mut() {
            pair.acc.iter_mut().for_each(|acc| *acc *= pair.rescale);
        }
        let dv = self.p.dv as usize;
        let (_, step_keys) = self.address.unit();
        let heads = work.v_heads.len();
        let mut v = vec![0.0; dv * step_keys as usize];
        for step in 0..work.tile.count / step_keys {
            let first = (step * step_keys) as usize;
            for (at, (head, _)) in work.v_heads.iter().enumerate() {
                self.load_v(work, first, head.kv, &mut v, m)?;
                for (key, v) in (first..).zip(v.chunks_exact_mut(dv)) {
                    let v_scale = v_scales[key * heads + at];
                    for element in v.iter_mut() {
                        *element *= v_scale;
                    }
                    for pair in pairs.iter_mut().filter(|pair| pair.v == *head) {
                        self.add(pair, key, v);
                    }
                }
            }
        }
        Ok(())
    }

    /// V of one step of keys from the tile's key `first` on, key by key.
    fn load_v(
        &self,
        work: &Work<'_>,
        first: usize,
        kv_head: u32,
        v: &mut [f32],
        m: &mut Memory<'_>,
    ) -> Result<(), RunError> {
        let (dv, (dims, step_keys)) = (self.p.dv, self.address.unit());
        if let Some(slots) = &work.v_slots {
            for (slot, v) in slots[first..].iter().zip(v.chunks_exact_mut(dv as usize)) {
                for (element, dim) in v.iter_mut().zip(0..) {
                    let (word, l) = self.address.v_element(*slot, kv_head, dim);
                    *element = self.decode(m.v(word)?, l);
                }
            }
            return Ok(());
        }
        for unit in 0..dv / dims {
            let word = m.v(self.address.v_word(work.tile.slots[first], kv_head, unit))?;
            for l in 0..self.address.word_elements {
                let place = (l % step_keys) * dv + unit * dims + l % dims;
                v[place as usize] = self.decode(word, l);
            }
        }
        Ok(())
    }

    fn add(&self, pair: &mut PairState, key: usize, v: &[f32]) {
        let weight = (self.rules.v_weight)(pair.weights[key]);
        if weight == 0.0 && self.rules.skip_zero {
            return;
        }
        for (acc, element) in pair.acc.iter_mut().zip(v) {
            *acc += weight * element;
        }
        if let Some(round) = self.rules.round_acc {
            pair.acc.iter_mut().for_each(|acc| *acc = round(*acc));
        }
    }

    fn store_partial(&self, pair: &PairState, part: u32, partials: &mut [u32]) {
        let at = self.p.partial_at(part, pair.sight.query.q_row);
        let seen = pair.run_sum != 0.0;
        partials[at] = u32::from(seen);
        if seen {
            partials[at + 1] = (self.rules.part_lse)(pair.run_max, pair.run_sum).to_bits();
            for (c, acc) in pair.acc.iter().enumerate() {
                partials[at + 2 + c] = (self.rules.normalise)(*acc, pair.run_sum).to_bits();
            }
        }
    }
}
