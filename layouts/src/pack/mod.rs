//! The physical store: encoded K and V rows that live through a script, slot by slot. Rows are written once and copied;
//! [`Store::pools`] only puts them in the layout's element order, with poison wherever nothing was written.

mod order;
mod poison;
#[cfg(test)]
mod tests;

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;
use thiserror::Error;

use crate::fault::{Flaw, ManagerFault};
use crate::kind::LayoutKind;
use crate::launch::Addressing;
use crate::manager::SlotCopy;
use order::Order;
pub use poison::{LOUD_SCALE, Poison, poison_max};

/// Words of poison before the first and after the last slot of a pool.
pub const GUARD_WORDS: u32 = 64;

/// Size and format of the two pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Layout; it decides the element order.
    pub kind: LayoutKind,
    /// Format of the elements.
    pub elem: Elem,
    /// KV heads.
    pub kv_heads: u32,
    /// Dims of a key.
    pub d: u32,
    /// Dims of a value.
    pub dv: u32,
    /// Tokens per block, a power of two.
    pub block_size: u32,
    /// Blocks in the pool.
    pub blocks: u32,
    /// Elements of poison after each slot (slot-major layouts only, others ignore it).
    pub slot_pad: u32,
    /// What shares one K scale.
    pub k_scale: Granularity,
    /// What shares one V scale.
    pub v_scale: Granularity,
}

/// Why a store cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackError {
    /// A field of [`Geometry`] is out of range.
    #[error("geometry: {field} = {value} ({rule})")]
    Geometry {
        /// Field name.
        field: &'static str,
        /// Its value.
        value: u32,
        /// What it must satisfy.
        rule: &'static str,
    },
    /// The elements of a pool cannot be counted in u32.
    #[error("the {tensor} pool has more than 2^32 - 1 elements")]
    TooLarge {
        /// `k` or `v`.
        tensor: &'static str,
    },
    /// The fixed scales do not fit the granularity.
    #[error("{tensor}: {got} fixed scales, granularity {granularity} takes {want}")]
    StaticScales {
        /// `k` or `v`.
        tensor: &'static str,
        /// Name of the granularity.
        granularity: &'static str,
        /// Scales it takes.
        want: usize,
        /// Scales given.
        got: usize,
    },
}

/// One token's row to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowCodes<'a> {
    /// K codes `[KV head][d]`.
    pub k: &'a [u32],
    /// V codes `[KV head][dv]`.
    pub v: &'a [u32],
    /// K scales `[KV head]`; used with granularity token, and block if the row is the first of its block.
    pub k_scale: &'a [f32],
    /// V scales `[KV head]`, likewise.
    pub v_scale: &'a [f32],
}

/// One token's row as the pool holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedRow {
    /// K codes `[KV head][d]`.
    pub k: Vec<u32>,
    /// V codes `[KV head][dv]`.
    pub v: Vec<u32>,
    /// K scale that applies to each KV head, 1 without scales, NaN where the pool has none.
    pub k_scale: Vec<f32>,
    /// V scale of each KV head, likewise.
    pub v_scale: Vec<f32>,
}

/// The buffers of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Pools {
    /// K elements, little endian in words, with guards.
    pub k: Vec<u32>,
    /// V elements, likewise.
    pub v: Vec<u32>,
    /// K scales `[row][KV head]`; rows: none 0, tensor 1 (a single scale), head 1, block per block, token per slot.
    pub k_scales: Vec<f32>,
    /// V scales, likewise.
    pub v_scales: Vec<f32>,
}

/// K or V: codes by slot and scales by scale row; [`None`] = never written.
#[derive(Clone, Debug)]
struct Tensor {
    order: Order,
    granularity: Granularity,
    rows: Vec<Option<Box<[u32]>>>,
    scales: Vec<Option<Box<[f32]>>>,
    /// What this tensor does wrong on purpose.
    flaw: Option<Flaw>,
}

/// Both pools and their scale tables.
#[derive(Clone, Debug)]
pub struct Store {
    geometry: Geometry,
    k: Tensor,
    v: Tensor,
}

impl Store {
    /// An unwritten store. `static_scales` = fixed scales of (K, V): one for granularity tensor, one per KV head for
    /// head, none otherwise.
    ///
    /// # Errors
    /// [`PackError`]: head dims or strides that are not whole words, a pool beyond u32, scales that do not fit.
    pub fn new(geometry: Geometry, static_scales: (&[f32], &[f32])) -> Result<Self, PackError> {
        let (k_order, v_order) = order::of(&geometry)?;
        Ok(Self {
            geometry,
            k: Tensor::new("k", k_order, geometry.k_scale, &geometry, static_scales.0)?,
            v: Tensor::new("v", v_order, geometry.v_scale, &geometry, static_scales.1)?,
        })
    }

    /// The same store, wrong on purpose. A fault of the manager or its tables changes nothing.
    #[must_use]
    pub fn with_fault(mut self, fault: &ManagerFault) -> Self {
        self.k.flaw = Some(fault.flaw).filter(|&flaw| flaw != Flaw::ValuesNotCopied);
        self.v.flaw = Some(fault.flaw);
        self
    }

    /// Size and format.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Element strides of the pools, the same for every poison.
    pub fn addressing(&self) -> Addressing {
        let (k, v) = (&self.k.order, &self.v.order);
        Addressing {
            k_base: k.base,
            v_base: v.base,
            k_slot: k.slot,
            v_slot: v.slot,
            k_head: k.head,
            v_head: v.head,
            k_block: k.block,
            v_block: v.block,
        }
    }

    /// Writes one token. Its scales go with it where the granularity is token, or block and this is the first slot of
    /// a block; otherwise the scale in place stays.
    ///
    /// # Panics
    /// When the slot is not in the pool or the row has another shape than the geometry: a fault of the caller.
    pub fn write(&mut self, slot: u32, row: &RowCodes<'_>) {
        self.k.write(slot, row.k, row.k_scale);
        let swapped = self.v.has(Flaw::ValuesUnderKeyScales) && row.k_scale.len() == row.v_scale.len();
        self.v.write(slot, row.v, if swapped { row.k_scale } else { row.v_scale });
    }

    /// Copies codes and, where whole scale rows go with them, scales: token rows always, a block's row when the first
    /// slot of a block is copied to the first slot of another.
    ///
    /// # Panics
    /// When a slot is not in the pool: a fault of the caller.
    pub fn copy(&mut self, copy: &SlotCopy) {
        self.k.copy(copy);
        self.v.copy(copy);
    }

    /// What a slot holds; [`None`] if nothing was ever written to it or it is not in the pool.
    pub fn read_row(&self, slot: u32) -> Option<OwnedRow> {
        Some(OwnedRow {
            k: self.k.row(slot)?.to_vec(),
            v: self.v.row(slot)?.to_vec(),
            k_scale: self.k.scales_at(slot),
            v_scale: self.v.scales_at(slot),
        })
    }

    /// Whether a slot holds exactly these codes under these scales. Scales are compared by bits, and only where they
    /// are stored with tokens or blocks.
    pub fn holds(&self, slot: u32, row: &RowCodes<'_>) -> bool {
        self.k.holds(slot, row.k, row.k_scale) && self.v.holds(slot, row.v, row.v_scale)
    }

    /// The buffers, with `poison` in slots and scale rows never written, in pad elements and in both guards.
    pub fn pools(&self, poison: Poison) -> Pools {
        let fill = poison.fill(self.geometry.elem);
        Pools {
            k: self.k.order.pack(&self.k.rows, fill.k, self.geometry.elem),
            v: self.v.order.pack(&self.v.rows, fill.v, self.geometry.elem),
            k_scales: self.k.scale_table(fill.k_scale),
            v_scales: self.v.scale_table(fill.v_scale),
        }
    }
}

impl Tensor {
    fn new(
        tensor: &'static str,
        order: Order,
        granularity: Granularity,
        geometry: &Geometry,
        fixed: &[f32],
    ) -> Result<Self, PackError> {
        let slots = geometry.blocks * geometry.block_size;
        let want = match granularity {
            Granularity::Tensor => 1,
            Granularity::Head => geometry.kv_heads as usize,
            Granularity::None | Granularity::Block | Granularity::Token => 0,
        };
        if fixed.len() != want {
            let granularity = granularity.name();
            return Err(PackError::StaticScales { tensor, granularity, want, got: fixed.len() });
        }
        let scales = match granularity {
            Granularity::None => Vec::new(),
            Granularity::Tensor | Granularity::Head => vec![Some(fixed.into())],
            Granularity::Block => vec![None; geometry.blocks as usize],
            Granularity::Token => vec![None; slots as usize],
        };
        Ok(Self { order, granularity, rows: vec![None; slots as usize], scales, flaw: None })
    }

    fn row(&self, slot: u32) -> Option<&[u32]> {
        self.rows.get(slot as usize)?.as_deref()
    }

    /// The scale row that applies to a slot, if scales are stored with tokens or blocks.
    fn stored_row(&self, slot: u32) -> Option<usize> {
        match self.granularity {
            Granularity::None | Granularity::Tensor | Granularity::Head => None,
            Granularity::Block => Some((slot / self.order.block_size) as usize),
            Granularity::Token => Some(slot as usize),
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether a scale row is written together with this slot.
    fn scale_goes_with(&self, slot: u32) -> bool {
        self.granularity == Granularity::Token || slot.is_multiple_of(self.order.block_size)
    }

    /// One scale per KV head.
    fn scales_at(&self, slot: u32) -> Vec<f32> {
        let heads = self.order.heads as usize;
        if self.granularity == Granularity::None {
            return vec![1.0; heads];
        }
        let row = self.scales.get(self.stored_row(slot).unwrap_or(0)).and_then(Option::as_deref);
        match row {
            Some(&[whole]) => vec![whole; heads],
            Some(row) => row.to_vec(),
            None => vec![f32::NAN; heads],
        }
    }

    fn write(&mut self, slot: u32, codes: &[u32], scales: &[f32]) {
        assert_eq!(codes.len(), self.order.row_elements(), "a row has heads x dims codes");
        let slot = if self.has(Flaw::SlotCut) { slot & 0xFFFF } else { slot };
        let place = &mut self.rows[slot as usize];
        if place.is_none() || self.flaw != Some(Flaw::OldBytesKept) {
            *place = Some(codes.into());
        }
        if let Some(row) = self.stored_row(slot)
            && self.scale_goes_with(slot)
        {
            if self.has(Flaw::BlockScaleKept)
                && self.granularity == Granularity::Block
                && self.scales[row].is_some()
            {
                return;
            }
            assert_eq!(scales.len(), self.order.heads as usize, "a row has one scale per head");
            self.scales[row] = Some(scales.into());
        }
    }

    fn copy(&mut self, copy: &SlotCopy) {
        if self.has(Flaw::ValuesNotCopied) {
            return;
        }
        let longer = self.has(Flaw::CopyOneLong) && !copy.count.is_multiple_of(self.order.block_size);
        let copy = SlotCopy { count: copy.count + u32::from(longer), ..*copy };
        let (from, to, count) = (copy.from as usize, copy.to as usize, copy.count as usize);
        let rows = self.rows[from..from + count].to_vec();
        self.rows[to..to + count].clone_from_slice(&rows);
        if self.has(Flaw::ScalesNotCopied) {
            return;
        }
        let moved: Vec<_> = (0..copy.count)
            .map(|i| (copy.from + i, copy.to + i))
            .filter(|&(from, to)| self.scale_goes_with(from) && self.scale_goes_with(to))
            .filter_map(|(from, to)| {
                Some((self.scales[self.stored_row(from)?].clone(), self.stored_row(to)?))
            })
            .collect();
        for (scales, row) in moved {
            self.scales[row] = scales;
        }
    }

    fn holds(&self, slot: u32, codes: &[u32], scales: &[f32]) -> bool {
        let bits = |scales: &[f32]| -> Vec<u32> { scales.iter().map(|s| s.to_bits()).collect() };
        self.row(slot) == Some(codes)
            && (self.stored_row(slot).is_none() || bits(&self.scales_at(slot)) == bits(scales))
    }

    fn scale_table(&self, poison: f32) -> Vec<f32> {
        let unwritten = vec![poison; self.order.heads as usize];
        self.scales.iter().flat_map(|row| row.as_deref().unwrap_or(&unwritten)).copied().collect()
    }
}
