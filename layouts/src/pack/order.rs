//! Element orders. Slot-major: `[slot][head][dim]` and a pad after each slot. Classic (the cache of vLLM's paged
//! kernel): `K[block][head][D/x][B][x]` with x = 16 bytes of elements, and `V[block][head][Dv][B]`.

use attnproof_oracle::elem::Elem;

use super::{GUARD_WORDS, Geometry, PackError};
use crate::kind::LayoutKind;

/// Bytes of the innermost chunk of the classic K order.
const CHUNK_BYTES: u32 = 16;

/// Where each element of one pool lies; all strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) base: u32,
    pub(super) slot: u32,
    pub(super) head: u32,
    pub(super) block: u32,
    pub(super) heads: u32,
    pub(super) block_size: u32,
    dims: u32,
    /// Consecutive dims of one token (classic; 1 for V, 0 in slot-major orders).
    chunk: u32,
    /// All elements, guards included.
    total: u32,
}

/// The orders of K and V.
pub(super) fn of(g: &Geometry) -> Result<(Order, Order), PackError> {
    let refuse = |field, value, rule| Err(PackError::Geometry { field, value, rule });
    let per_word = 4 / g.elem.bytes() as u32;
    for (field, value) in [
        ("kv_heads", g.kv_heads),
        ("d", g.d),
        ("dv", g.dv),
        ("block_size", g.block_size),
        ("blocks", g.blocks),
    ] {
        if value == 0 {
            return refuse(field, value, "at least 1");
        }
    }
    for (field, value) in [("d", g.d), ("dv", g.dv)] {
        if !value.is_multiple_of(per_word) {
            return refuse(field, value, "a row of one head must be whole 32-bit words");
        }
    }
    if !g.block_size.is_power_of_two() {
        return refuse("block_size", g.block_size, "a power of two");
    }
    if g.blocks.checked_mul(g.block_size).is_none() {
        return refuse("blocks", g.blocks, "blocks * block_size must fit 32 bits");
    }
    let chunk = CHUNK_BYTES / g.elem.bytes() as u32;
    if g.kind == LayoutKind::ClassicPaged {
        if !g.block_size.is_multiple_of(per_word) {
            return refuse("block_size", g.block_size, "a block of one dim must be whole 32-bit words");
        }
        if !g.d.is_multiple_of(chunk) {
            return refuse("d", g.d, "the classic K order takes whole 16-byte chunks");
        }
    } else if !g.slot_pad.is_multiple_of(per_word) {
        return refuse("slot_pad", g.slot_pad, "whole 32-bit words");
    }
    let k = order(g, g.d, chunk).ok_or(PackError::TooLarge { tensor: "k" })?;
    let v = order(g, g.dv, 1).ok_or(PackError::TooLarge { tensor: "v" })?;
    Ok((k, v))
}

/// [`None`]: beyond u32.
fn order(g: &Geometry, dims: u32, chunk: u32) -> Option<Order> {
    let base = GUARD_WORDS * (4 / g.elem.bytes() as u32);
    let token = g.kv_heads.checked_mul(dims)?;
    let classic = g.kind == LayoutKind::ClassicPaged;
    let (slot, head, block, chunk) = if classic {
        (0, dims.checked_mul(g.block_size)?, token.checked_mul(g.block_size)?, chunk)
    } else {
        (token.checked_add(g.slot_pad)?, dims, 0, 0)
    };
    let body =
        if classic { block.checked_mul(g.blocks)? } else { slot.checked_mul(g.blocks * g.block_size)? };
    let total = body.checked_add(2 * base)?;
    Some(Order { base, slot, head, block, heads: g.kv_heads, block_size: g.block_size, dims, chunk, total })
}

impl Order {
    /// Elements of one token.
    pub(super) fn row_elements(&self) -> usize {
        (self.heads * self.dims) as usize
    }

    /// Where element `dim` of one token's head lies.
    fn at(&self, slot: u32, head: u32, dim: u32) -> u32 {
        if self.chunk == 0 {
            return self.base + slot * self.slot + head * self.head + dim;
        }
        let (block, token) = (slot / self.block_size, slot % self.block_size);
        let (piece, lane) = (dim / self.chunk, dim % self.chunk);
        self.base
            + block * self.block
            + head * self.head
            + (piece * self.block_size + token) * self.chunk
            + lane
    }

    /// The pool as words. Slots without a row hold `poison[slot % 2]`, pads and guards hold `poison[1]`.
    pub(super) fn pack(&self, rows: &[Option<Box<[u32]>>], poison: [u32; 2], elem: Elem) -> Vec<u32> {
        let bits = 8 * elem.bytes() as u32;
        let per_word = 32 / bits;
        let word = |code: u32| (0..per_word).fold(0, |word, lane| word | code << (lane * bits));
        let mut words = vec![word(poison[1]); (self.total / per_word) as usize];
        let mask = u32::MAX >> (32 - bits);
        // neighbouring dims of one token that lie side by side
        let run = if self.chunk == 0 { self.dims } else { self.chunk };
        for (slot, row) in (0u32..).zip(rows) {
            let codes = match row {
                None if slot % 2 == 1 => continue,
                row => row.as_deref(),
            };
            for head in 0..self.heads {
                for first in (0..self.dims).step_by(run as usize) {
                    let at = self.at(slot, head, first);
                    let from = (head * self.dims + first) as usize;
                    let place = &mut words[(at / per_word) as usize..];
                    if run < per_word {
                        // several tokens share the word
                        let code = codes.map_or(poison[0], |codes| codes[from]);
                        let shift = at % per_word * bits;
                        place[0] = place[0] & !(mask << shift) | (code & mask) << shift;
                        continue;
                    }
                    let place = &mut place[..(run / per_word) as usize];
                    match codes {
                        None => place.fill(word(poison[0])),
                        Some(codes) => {
                            let codes = codes[from..from + run as usize].chunks_exact(per_word as usize);
                            for (word, codes) in place.iter_mut().zip(codes) {
                                *word = codes
                                    .iter()
                                    .rev()
                                    .fold(0, |word, code| word << (bits % 32) | code & mask);
                            }
                        }
                    }
                }
            }
        }
        words
    }
}
