//! The decisions of the twin, one field each, so that a fault can make one of them wrong.
//!
//! [`Rules::default`] is the right kernel. A position counts keys of a row from 0; a slot is a place in the pools; a part
//! is the result of one split, or of a split of a shared prefix.

use attnproof_oracle::elem::Elem;

pub use super::addr::{SlotOf, Tile};
use crate::abi::{FLAG_ALIBI_THEN_CAP, FLAG_CAUSAL, FLAG_SINKS, FLAG_TOP_LEFT, Params};
use crate::dispatch::RunError;

/// A (query token, query head) pair of a row.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// Query token in its row.
    pub token: u32,
    /// Query tokens of the row.
    pub q_len: u32,
    /// Keys of the row.
    pub len: u32,
    /// Query head.
    pub head: u32,
    /// Query token of the batch x query heads + query head.
    pub q_row: u32,
}

/// A query and the keys that it may see.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// The query.
    pub query: Query,
    /// Its position among the keys of the row.
    pub position: i32,
    /// First visible key.
    pub lo: u32,
    /// End of the visible keys.
    pub hi: u32,
}

impl Sight {
    /// Whether the query may see `key`.
    pub fn covers(&self, key: u32) -> bool {
        self.lo <= key && key < self.hi
    }
}

/// A part that enters the merge.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its LSE.
    pub lse: f32,
    /// Where its output lies in the partial results, or the value of every element of it.
    pub values: Result<usize, f32>,
}

/// The score, if any, of a key that is not counted.
pub type MaskedScore = fn(&Params, &Sight, u32) -> Option<f32>;

/// The slot of a key, from (key, its right slot).
pub type Slot = fn(&mut SlotOf<'_, '_>, u32, u32) -> Result<u32, RunError>;

/// The slot of V of a key, from (key, its right slot, slot of the tile's first key).
pub type VSlot = fn(&mut SlotOf<'_, '_>, u32, u32, u32) -> Result<u32, RunError>;

/// The query row to which the outputs of one are written, if any; the function tells whether a query row has no key.
pub type OutRow = fn(&Params, u32, &dyn Fn(u32) -> bool) -> Option<u32>;

/// One field per decision. `Params` are the uniforms after [`Rules::params`].
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Changes the uniforms before anything is computed.
    pub params: fn(&mut Params),

    /// The key length of a row, from the one in its table.
    pub len: fn(&Params, u32) -> u32,
    /// The position of a query.
    pub position: fn(&Params, &Query) -> i32,
    /// First key that a query at this position may see; below 0 counts as 0.
    pub first_key: fn(&Params, &Query, i32) -> i32,
    /// End of the keys that a query at this position may see.
    pub end_key: fn(&Params, &Query, i32) -> i32,
    /// Whether a key of a tile is counted.
    pub sees: fn(&Params, &Sight, &Tile, u32) -> bool,
    /// The score of a key that is not counted, if it is to be counted all the same.
    pub masked_score: Option<MaskedScore>,
    /// The weight of a key of a tile that is not counted.
    pub masked_weight: f32,
    /// Whether a key of weight 0 is left out of the output instead of multiplied.
    pub skip_zero: bool,

    /// The KV head whose K a query head meets.
    pub k_head: fn(&Params, u32) -> u32,
    /// The KV head whose V a query head meets.
    pub v_head: fn(&Params, u32) -> u32,
    /// The head of the scale of a (query head, KV head).
    pub scale_head: fn(&Params, u32, u32) -> u32,
    /// The slot whose scale is taken for (key, its slot, slot of the tile's first key).
    pub scale_slot: fn(u32, u32, u32) -> u32,
    /// The factor on K or V, from the stored scale.
    pub kv_scale: fn(f32) -> f32,
    /// The value of an element's code.
    pub decode: fn(Elem, u32) -> f32,

    /// The ALiBi slope of a query, from the slopes of all query heads.
    pub slope: fn(&Params, &Query, &[f32]) -> f32,
    /// The distance that the slope multiplies, from (position of the query, key, slot of the key).
    pub distance: fn(&Params, i32, u32, u32) -> i32,
    /// Dims of q . k.
    pub dims: fn(&Params) -> u32,
    /// What becomes of q . k after each addition; `None` for nothing.
    pub round_dot: Option<fn(f32) -> f32>,
    /// What becomes of the finished q . k, before any scale.
    pub finish_dot: fn(f32) -> f32,
    /// The softcap.
    pub cap: fn(&Params, f32) -> f32,
    /// The score of a key from q . k and the ALiBi bias.
    pub score: fn(&Rules, &Params, &Sight, u32, f32, f32) -> f32,

    /// The running maximum after a tile, from the one before it, if a key was seen, and the larger of it and the tile's.
    pub running_max: fn(Option<f32>, f32) -> f32,
    /// What multiplies the denominator and the output when the maximum moves, from the right factor.
    pub rescale: fn(f32) -> (f32, f32),
    /// The weight with which V is multiplied, from the one in the denominator.
    pub v_weight: fn(f32) -> f32,
    /// What becomes of the output after each addition; `None` for nothing.
    pub round_acc: Option<fn(f32) -> f32>,
    /// The LSE of a part from its maximum and its denominator.
    pub part_lse: fn(f32, f32) -> f32,
    /// An output element of a part from its sum and its denominator.
    pub normalise: fn(f32, f32) -> f32,

    /// The row of the batch whose table a row reads.
    pub table_row: fn(&Params, u32) -> u32,
    /// The slot of a key, from the right one; `None` for the right one.
    pub slot: Option<Slot>,
    /// The slot that V of a key is read from, from (key, its slot, slot of the tile's first key).
    pub v_slot: Option<VSlot>,
    /// The length of a span record, and whether it is the last of its row.
    pub span_length: fn(u32, bool) -> u32,
    /// The positions that are a row's to read, from the right ones.
    pub bounds: fn(&Params, [u32; 2]) -> [u32; 2],
    /// The keys that a workgroup reads before they are cut to its split, from (what its pairs see, `bounds`).
    pub range: fn(&Params, [u32; 2], [u32; 2]) -> [u32; 2],
    /// How often each word of K is loaded.
    pub k_loads: u32,
    /// Whether a block entry is loaded for every key instead of once a block.
    pub entry_per_key: bool,
    /// How often K of the last key that a workgroup reads is loaded in excess.
    pub loads_past_end: fn(&Params) -> u32,

    /// Which parts of a query token exist, from the mask.
    pub mask: fn(u32) -> u32,
    /// LSE and output with which a part without keys is merged; `None` if it is skipped.
    pub empty_part: Option<(f32, f32)>,
    /// Changes the list of parts to merge.
    pub parts: fn(&mut Vec<Part>),
    /// The sink of a query head, from the sinks of all.
    pub sink: fn(&Rules, &Params, u32, &[f32]) -> Option<f32>,
    /// What is subtracted from every LSE, from the largest.
    pub merge_max: fn(f32) -> f32,
    /// The weight of a part in the output, from its LSE without the maximum.
    pub merge_weight: fn(f32) -> f32,
    /// The LSE, from what was subtracted, the denominator, the sink and the parts.
    pub lse: fn(f32, f32, Option<f32>, &[Part]) -> f32,
    /// Output and LSE of a row without keys, from its sink; `None` if nothing is written.
    pub empty: fn(Option<f32>) -> Option<(f32, f32)>,

    /// Where the outputs of a query row are written.
    pub out_row: OutRow,
    /// Dims of an output row that are written.
    pub out_dims: fn(&Params) -> u32,
    /// Whether the LSE is written.
    pub write_lse: bool,
    /// A word of the output buffer that is written besides the outputs.
    pub stray: fn(&Params) -> Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            params: |_| (),
            len: |_, len| len,
            position,
            first_key: |p, _, position| position - p.left as i32,
            end_key,
            sees: |_, sight, _, key| sight.covers(key),
            masked_score: None,
            masked_weight: 0.0,
            skip_zero: true,
            k_head: |p, head| head / p.group,
            v_head: |p, head| head / p.group,
            scale_head: |_, _, kv_head| kv_head,
            scale_slot: |_, slot, _| slot,
            kv_scale: |scale| scale,
            decode,
            slope: |_, query, slopes| slopes[query.head as usize],
            distance,
            dims: |p| p.d,
            round_dot: None,
            finish_dot: |dot| dot,
            cap,
            score,
            running_max: |_, top| top,
            rescale: |old| (old, old),
            v_weight: |weight| weight,
            round_acc: None,
            part_lse: |max, sum| max + libm::logf(sum),
            normalise: |acc, sum| acc / sum,
            table_row: |_, y| y,
            slot: None,
            v_slot: None,
            span_length: |length, _| length,
            bounds: |_, bounds| bounds,
            range: |_, keys, _| keys,
            k_loads: 1,
            entry_per_key: false,
            loads_past_end: |_| 0,
            mask: |mask| mask,
            empty_part: None,
            parts: |_| (),
            sink,
            merge_max: |top| top,
            merge_weight: libm::expf,
            lse: |top, sum, _, _| top + libm::logf(sum),
            empty: |sink| Some((0.0, sink.unwrap_or(f32::NEG_INFINITY))),
            out_row: |_, q_row, _| Some(q_row),
            out_dims: |p| p.dv,
            write_lse: true,
            stray: |_| None,
        }
    }
}

/// Bottom-right, or top-left where it is declared.
pub(crate) fn position(p: &Params, query: &Query) -> i32 {
    let from = if p.flags & FLAG_TOP_LEFT == 0 { query.len as i32 - query.q_len as i32 } else { 0 };
    from + query.token as i32
}

/// The end of the row, of the window or at the query's own key.
pub(crate) fn end_key(p: &Params, query: &Query, position: i32) -> i32 {
    let end = (query.len as i32).min(position + p.right as i32 + 1);
    if p.flags & FLAG_CAUSAL != 0 { end.min(position + 1) } else { end }
}

/// The value of a code of `elem`.
pub(crate) fn decode(elem: Elem, bits: u32) -> f32 {
    match elem {
        Elem::F32 => f32::from_bits(bits),
        Elem::Bf16 => f32::from_bits(bits << 16),
        _ => elem.decode(bits) as f32,
    }
}

/// Signed under a causal mask, to either side without one.
pub(crate) fn distance(p: &Params, position: i32, key: u32, _slot: u32) -> i32 {
    let distance = key as i32 - position;
    if p.flags & FLAG_CAUSAL == 0 { -distance.abs() } else { distance }
}

/// `c tanh(x / c)`.
pub(crate) fn cap(p: &Params, x: f32) -> f32 {
    let cap = p.softcap;
    if cap > 0.0 { cap * libm::tanhf((x / cap).clamp(-15.0, 15.0)) } else { x }
}

/// Scale, cap and bias in the declared order.
pub(crate) fn score(r: &Rules, p: &Params, _: &Sight, _key: u32, dot: f32, bias: f32) -> f32 {
    let x = dot * p.scale;
    if p.flags & FLAG_ALIBI_THEN_CAP != 0 { (r.cap)(p, x + bias) } else { (r.cap)(p, x) + bias }
}

/// The head's own sink.
pub(crate) fn sink(_: &Rules, p: &Params, head: u32, sinks: &[f32]) -> Option<f32> {
    (p.flags & FLAG_SINKS != 0).then(|| sinks[head as usize])
}
