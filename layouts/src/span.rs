//! The records of the span layouts as a kernel reads them: arrays of eight u32 words, 16-byte aligned.
//!
//! A span is a maximal run of physically consecutive slots of one row (or of one group) with equal flags.

use attnproof_oracle::elem::Elem;
use attnproof_oracle::scale::Granularity;
use bytemuck::{Pod, Zeroable};

/// "No group" in [`SpanRec::group_id`] and [`SeqDesc::group_id`], "no parent" in [`GroupDesc::parent`].
pub const NONE: u32 = 0xFFFF_FFFF;
/// [`SpanRec::scale_stride_log2`] of spans whose tokens all share one scale row (tensor and head granularity).
pub const WHOLE_RUN: u32 = 31;
/// Flag bit: every block of the run is full and keyed.
pub const SEALED: u32 = 1 << 2;
/// Flag bit: unwritten room owned by the row follows the run.
pub const RESERVED: u32 = 1 << 3;

const SHARING_MASK: u32 = 0x3;
const ELEM_SHIFT: u32 = 4;
const SCALE_SHIFT: u32 = 8;
const POOL_SHIFT: u32 = 16;

/// Who else may read a run, and whether anyone may write to it (flag bits 0-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Sharing {
    /// One owner; not keyed.
    Private = 0,
    /// Several owners; nobody writes.
    SharedRo = 1,
    /// One owner, but keyed in the prefix index; nobody writes.
    CachedRo = 2,
    /// The only writable state: holds the row's next slot.
    Tail = 3,
}

impl Sharing {
    /// The sharing state stored in `flags`.
    pub fn of(flags: u32) -> Self {
        match flags & SHARING_MASK {
            0 => Self::Private,
            1 => Self::SharedRo,
            2 => Self::CachedRo,
            _ => Self::Tail,
        }
    }
}

/// The fields of [`SpanRec::flags`] before packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanFlags {
    /// Bits 0-1.
    pub sharing: Sharing,
    /// Bit 2, [`SEALED`].
    pub sealed: bool,
    /// Bit 3, [`RESERVED`].
    pub reserved: bool,
    /// Bits 4-7, [`Elem::code`].
    pub elem: Elem,
    /// Bits 8-10, [`Granularity::code`], of K.
    pub scale: Granularity,
    /// Bits 16-19: which pool binding holds the run (0..=15; higher bits are cut).
    pub pool: u32,
}

impl SpanFlags {
    /// The packed word.
    pub fn bits(self) -> u32 {
        self.sharing as u32
            | if self.sealed { SEALED } else { 0 }
            | if self.reserved { RESERVED } else { 0 }
            | (self.elem.code() << ELEM_SHIFT)
            | (self.scale.code() << SCALE_SHIFT)
            | ((self.pool & 0xF) << POOL_SHIFT)
    }
}

/// One run of tokens: 8 words, stride 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct SpanRec {
    /// Absolute position of the first token.
    pub logical_start: u32,
    /// Tokens, more than 0.
    pub length: u32,
    /// First physical slot; the run ascends with stride 1.
    pub phys_slot: u32,
    /// Packed [`SpanFlags`].
    pub flags: u32,
    /// First row of the scale table: row = `scale_index + ((t - logical_start) >> scale_stride_log2)`.
    pub scale_index: u32,
    /// log2 of the tokens per scale row; [`WHOLE_RUN`] = one row for the run.
    pub scale_stride_log2: u32,
    /// Index of the group the record belongs to, or [`NONE`].
    pub group_id: u32,
    /// Xor of [`stamp`] over the run's blocks: tells a stale table from a fresh one; kernels ignore it.
    pub check: u32,
}

/// One row of the batch: 8 words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct SeqDesc {
    /// First of the row's private span records.
    pub span_begin: u32,
    /// Number of private span records.
    pub span_count: u32,
    /// Keys of the row.
    pub kv_len: u32,
    /// First query token of the row in the batch.
    pub q_begin: u32,
    /// Query tokens of the row.
    pub q_len: u32,
    /// Window in keys including the query's own, 0 = none.
    pub window: u32,
    /// Deepest group the row is a member of, or [`NONE`].
    pub group_id: u32,
    /// Reserved, 0.
    pub flags: u32,
}

/// One segment of keys shared by several rows: 8 words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct GroupDesc {
    /// First of the segment's span records.
    pub span_begin: u32,
    /// Number of its span records.
    pub span_count: u32,
    /// Absolute position of its first key.
    pub logical_start: u32,
    /// Keys.
    pub length: u32,
    /// First member in the members table.
    pub member_begin: u32,
    /// Number of members, at least 2.
    pub member_count: u32,
    /// Index of the enclosing group, or [`NONE`].
    pub parent: u32,
    /// Number of earlier segments its members are in (the most over members).
    pub level: u32,
}

/// The word of one block incarnation that [`SpanRec::check`] combines: `epoch << 20 | id`.
pub fn stamp(epoch: u32, block: u32) -> u32 {
    (epoch << 20) | block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_eight_words_in_declared_order() {
        let span = SpanRec {
            logical_start: 1,
            length: 2,
            phys_slot: 3,
            flags: 4,
            scale_index: 5,
            scale_stride_log2: 6,
            group_id: 7,
            check: 8,
        };
        let words: [u32; 8] = bytemuck::cast(span);
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(size_of::<SeqDesc>(), 32);
        assert_eq!(size_of::<GroupDesc>(), 32);
        assert_eq!(align_of::<SpanRec>(), 16);
    }

    #[test]
    fn flags_sit_where_kernels_look() {
        let flags = SpanFlags {
            sharing: Sharing::CachedRo,
            sealed: true,
            reserved: true,
            elem: Elem::E4m3fn,
            scale: Granularity::Block,
            pool: 1,
        };
        assert_eq!(flags.bits(), 2 | 4 | 8 | (3 << 4) | (3 << 8) | (1 << 16));
        assert_eq!(Sharing::of(flags.bits()), Sharing::CachedRo);
        for sharing in [Sharing::Private, Sharing::SharedRo, Sharing::Tail] {
            assert_eq!(Sharing::of(SpanFlags { sharing, ..flags }.bits()), sharing);
        }
    }
}
