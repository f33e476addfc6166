//! Wrong on purpose: KV managers, tables and stores with one known fault each. They show what a check can see.
//!
//! A fault is an entry of [`library`] and one place that asks for it; without a fault that place does nothing. A manager
//! takes one in [`Manager::with_fault`](crate::manager::Manager::with_fault), its tables follow it, and a store takes
//! one in [`Store::with_fault`](crate::pack::Store::with_fault). Each looks only for the faults of its own places, so
//! both may be given the same entry.

mod library;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::kind::LayoutKind;
pub use library::library;

/// What part of the work goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Copies of a shared partial block before it is written.
    CopyOnWrite,
    /// Owners of blocks: who holds one, and when it is free.
    References,
    /// Which contents count as the same in the prefix index.
    PrefixKey,
    /// Which blocks are taken back from the prefix cache, and what remains of them.
    Eviction,
    /// Which blocks a row gets, and its growth room.
    Placement,
    /// Blocks that leave the attention window.
    Window,
    /// A refused operation that leaves something behind.
    Rollback,
    /// The words that a kernel reads to find its keys.
    Tables,
    /// Bytes of K and V in the pools.
    Bytes,
    /// Scales of quantised K and V.
    Scales,
    /// Running totals.
    Statistics,
}

impl Kind {
    /// Every kind, in the order of the library.
    pub const ALL: [Self; 11] = [
        Self::CopyOnWrite,
        Self::References,
        Self::PrefixKey,
        Self::Eviction,
        Self::Placement,
        Self::Window,
        Self::Rollback,
        Self::Tables,
        Self::Bytes,
        Self::Scales,
        Self::Statistics,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::CopyOnWrite => "copy-on-write",
            Self::References => "references",
            Self::PrefixKey => "prefix-key",
            Self::Eviction => "eviction",
            Self::Placement => "placement",
            Self::Window => "window",
            Self::Rollback => "rollback",
            Self::Tables => "tables",
            Self::Bytes => "bytes",
            Self::Scales => "scales",
            Self::Statistics => "statistics",
        }
    }

    const fn fault(
        self,
        id: &'static str,
        flaw: Flaw,
        layouts: &'static [LayoutKind],
        says: &'static str,
    ) -> ManagerFault {
        ManagerFault { id, kind: self, says, layouts, equivalent: None, flaw }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One fault of the manager, of its tables or of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerFault {
    /// Name, unique in the library.
    pub id: &'static str,
    /// What goes wrong.
    pub kind: Kind,
    /// What the faulty code does, in one sentence.
    pub says: &'static str,
    /// Layouts in which it can occur.
    pub layouts: &'static [LayoutKind],
    /// Why no row reads anything wrong, if that is so: only placements, hits or flags differ.
    pub equivalent: Option<&'static str>,
    pub(crate) flaw: Flaw,
}

impl ManagerFault {
    /// The same fault with a reason why it is harmless.
    const fn but(self, equivalent: &'static str) -> Self {
        Self { equivalent: Some(equivalent), ..self }
    }
}

/// The place that goes wrong: one per fault of the library, in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    SharedWritten,
    CopyNotListed,
    CopyFromThreeOwners,
    CopyOneShort,
    CopyKeepsTailStart,
    ClaimsIgnored,
    FreedByOneOwner,
    FreedTwice,
    LastBlockLeaks,
    RoomLeaks,
    ReleaseLeaks,
    HitUnreferenced,
    HitReferencesTwin,
    RoomSharedByFork,
    NoParent,
    NoSalt,
    PolynomialTrusted,
    LowByteTrusted,
    PartialKeyed,
    WholePromptHit,
    NeverHit,
    HeadOneLong,
    EntryOutlivesBlock,
    OneBlockPerKey,
    HitsReferencedLate,
    EvictsInUse,
    NewestFirst,
    HeadFirst,
    RoomGivenTwice,
    GrowsOverNeighbour,
    TailStartKept,
    Unsorted,
    ReleasedEarly,
    ReleasedForNext,
    NeverReleased,
    ReleasedWhileShared,
    RefusalKeepsReferences,
    RefusalEvicts,
    ReleasedEntryLeft,
    LengthShort,
    LengthLong,
    NextRowsBlocks,
    LastLenZero,
    TailStartsEarly,
    TailCountsRoom,
    DescendingMerged,
    GapMerged,
    FlagsMerged,
    MembersShort,
    GroupShort,
    LevelsEqual,
    PrefixTwice,
    MaskBitMissing,
    MaskBitOfOthers,
    ValuesNotCopied,
    CopyOneLong,
    SlotCut,
    OldBytesKept,
    ScalesNotCopied,
    BlockScaleKept,
    ValuesUnderKeyScales,
    HitsCountPrompt,
}
