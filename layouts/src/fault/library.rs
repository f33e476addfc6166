//! The faults. The entries are in the order of [`Flaw`].

use super::{Flaw, Kind, ManagerFault};
use crate::kind::LayoutKind as L;

const ALL: &[L] = &L::ALL;
/// Layouts in which a fork shares a partial block until the first write.
const COPY_ON_WRITE: &[L] =
    &[L::ClassicPaged, L::PackedBlockTable, L::VirtualContiguous, L::HybridPrefixShared];
/// Layouts that grow in extents and so have growth room.
const EXTENTS: &[L] = &[L::HotTailContiguous, L::VirtualContiguous, L::HybridPrefixShared];
/// Layouts that sort what they pop.
const SORTED: &[L] = &[L::PackedBlockTable, L::HotTailContiguous];
const SPANS: &[L] = &[L::VirtualContiguous, L::HybridPrefixShared];
const PACKED: &[L] = &[L::PackedBlockTable];
const HOT_TAIL: &[L] = &[L::HotTailContiguous];
const HYBRID: &[L] = &[L::HybridPrefixShared];

/// Every fault, by kind.
pub fn library() -> &'static [ManagerFault] {
    LIBRARY
}

static LIBRARY: &[ManagerFault] = &[
    Kind::CopyOnWrite.fault(
        "shared-block-written-in-place",
        Flaw::SharedWritten,
        ALL,
        "a partial block that a fork shares is written without a copy",
    ),
    Kind::CopyOnWrite.fault(
        "copy-not-carried-out",
        Flaw::CopyNotListed,
        ALL,
        "the block for a copy is taken, but nothing is copied into it",
    ),
    Kind::CopyOnWrite.fault(
        "copy-only-with-three-owners",
        Flaw::CopyFromThreeOwners,
        COPY_ON_WRITE,
        "of two owners of a partial block neither makes a copy",
    ),
    Kind::CopyOnWrite.fault(
        "copy-one-slot-short",
        Flaw::CopyOneShort,
        ALL,
        "the last written slot of a copied block is not copied",
    ),
    Kind::CopyOnWrite.fault(
        "fork-keeps-tail-start",
        Flaw::CopyKeepsTailStart,
        HOT_TAIL,
        "a fork has its own copy of the last block and the tail start of its parent",
    ),
    Kind::CopyOnWrite.fault(
        "fork-claims-ignored",
        Flaw::ClaimsIgnored,
        COPY_ON_WRITE,
        "the blocks that forks will need for their copies are given to others",
    ),
    Kind::References.fault(
        "freed-by-one-owner",
        Flaw::FreedByOneOwner,
        ALL,
        "the first owner that leaves frees a block that others still list",
    ),
    Kind::References.fault(
        "last-block-freed-twice",
        Flaw::FreedTwice,
        ALL,
        "freeing a row gives up its last block twice",
    ),
    Kind::References.fault(
        "last-block-leaks",
        Flaw::LastBlockLeaks,
        ALL,
        "freeing a row keeps its last block",
    ),
    Kind::References.fault(
        "growth-room-leaks",
        Flaw::RoomLeaks,
        EXTENTS,
        "growth room that is taken back from a row never becomes free",
    ),
    Kind::References.fault(
        "released-block-leaks",
        Flaw::ReleaseLeaks,
        ALL,
        "a block that leaves the window keeps its reference",
    ),
    Kind::References.fault(
        "hit-without-reference",
        Flaw::HitUnreferenced,
        ALL,
        "a prefix hit takes no reference, so the block stays in the free queue",
    ),
    Kind::References.fault(
        "hit-references-another-copy",
        Flaw::HitReferencesTwin,
        ALL,
        "with two blocks of one content a hit lists the first and takes its reference on the last",
    ),
    Kind::References.fault(
        "growth-room-shared-by-fork",
        Flaw::RoomSharedByFork,
        SPANS,
        "a fork also lists the unwritten growth room of its parent",
    ),
    Kind::PrefixKey.fault(
        "key-without-parent",
        Flaw::NoParent,
        ALL,
        "the key of a block leaves out what comes before it",
    ),
    Kind::PrefixKey.fault("key-without-salt", Flaw::NoSalt, ALL, "the key of a block leaves out the salt"),
    Kind::PrefixKey.fault(
        "polynomial-hash-trusted",
        Flaw::PolynomialTrusted,
        ALL,
        "the key is a polynomial of base 31 and tokens are not compared",
    ),
    Kind::PrefixKey.fault(
        "low-byte-trusted",
        Flaw::LowByteTrusted,
        ALL,
        "the key is the low byte of the hash and tokens are not compared",
    ),
    Kind::PrefixKey.fault(
        "partial-block-keyed",
        Flaw::PartialKeyed,
        ALL,
        "the partial last block of a prompt enters the prefix index before it is full",
    ),
    Kind::PrefixKey.fault(
        "whole-prompt-hit",
        Flaw::WholePromptHit,
        ALL,
        "a prompt found as a whole leaves no token to compute",
    ),
    Kind::PrefixKey.fault(
        "prefix-never-hit",
        Flaw::NeverHit,
        ALL,
        "no prompt is ever found in the prefix index",
    ),
    Kind::PrefixKey.fault(
        "matched-head-one-long",
        Flaw::HeadOneLong,
        HYBRID,
        "one token more than matches is copied from another prompt's block",
    ),
    Kind::Eviction.fault(
        "entry-outlives-block",
        Flaw::EntryOutlivesBlock,
        ALL,
        "the index entry of an evicted block stays, and a hit returns what overwrote it",
    ),
    Kind::Eviction.fault(
        "one-block-per-key",
        Flaw::OneBlockPerKey,
        ALL,
        "dropping one of two blocks of a content removes the entry of both",
    ),
    Kind::Eviction.fault(
        "hits-referenced-late",
        Flaw::HitsReferencedLate,
        ALL,
        "the blocks that a prompt hits can be evicted for the rest of the same prompt",
    ),
    Kind::Eviction.fault(
        "block-in-use-evicted",
        Flaw::EvictsInUse,
        ALL,
        "where a cached block must go, a keyed block in use is taken instead",
    ),
    Kind::Eviction
        .fault("newest-evicted-first", Flaw::NewestFirst, ALL, "the block freed last is reused first")
        .but("any free block may be taken: only hits and locality suffer"),
    Kind::Eviction
        .fault(
            "head-evicted-first",
            Flaw::HeadFirst,
            ALL,
            "a row is freed from its first block on, so its prefix is evicted before its end",
        )
        .but("any free block may be taken: only hits and locality suffer"),
    Kind::Placement.fault(
        "growth-room-given-twice",
        Flaw::RoomGivenTwice,
        EXTENTS,
        "growth room is handed to another row while its owner still lists it",
    ),
    Kind::Placement.fault(
        "grows-over-neighbour",
        Flaw::GrowsOverNeighbour,
        EXTENTS,
        "a row grows into the blocks behind its last one without asking whether they are free",
    ),
    Kind::Placement.fault(
        "tail-start-kept",
        Flaw::TailStartKept,
        HOT_TAIL,
        "a row that grows elsewhere keeps the start of its old extent",
    ),
    Kind::Placement
        .fault(
            "blocks-not-sorted",
            Flaw::Unsorted,
            SORTED,
            "popped blocks are listed in the order of the free queue",
        )
        .but("a table may list blocks in any order: only locality suffers"),
    Kind::Window.fault(
        "released-one-block-early",
        Flaw::ReleasedEarly,
        ALL,
        "the block in which the window starts is released",
    ),
    Kind::Window.fault(
        "released-for-the-next-query",
        Flaw::ReleasedForNext,
        ALL,
        "the window is counted from the token to come, so the oldest visible key can go",
    ),
    Kind::Window.fault(
        "never-released",
        Flaw::NeverReleased,
        ALL,
        "blocks that have left the window stay with the row",
    ),
    Kind::Window.fault(
        "released-while-shared",
        Flaw::ReleasedWhileShared,
        ALL,
        "a block that leaves one row's window is freed although another row lists it",
    ),
    Kind::Rollback.fault(
        "refused-prompt-keeps-references",
        Flaw::RefusalKeepsReferences,
        ALL,
        "a refused prompt keeps the references on its hits",
    ),
    Kind::Rollback.fault(
        "refused-prompt-evicts",
        Flaw::RefusalEvicts,
        ALL,
        "a refused prompt has already emptied the prefix cache",
    ),
    Kind::Tables.fault(
        "released-entry-left",
        Flaw::ReleasedEntryLeft,
        ALL,
        "the entry of a released block still names the block that was there",
    ),
    Kind::Tables.fault("length-one-short", Flaw::LengthShort, ALL, "the tables give each row one key less"),
    Kind::Tables.fault(
        "length-one-long",
        Flaw::LengthLong,
        ALL,
        "a row that ends in mid-block is given one key more",
    ),
    Kind::Tables.fault(
        "blocks-of-the-next-row",
        Flaw::NextRowsBlocks,
        ALL,
        "each row is given the blocks of the next row of the batch",
    ),
    Kind::Tables.fault(
        "last-len-zero-at-multiples",
        Flaw::LastLenZero,
        PACKED,
        "the last block of a row of whole blocks counts 0 tokens",
    ),
    Kind::Tables.fault(
        "tail-starts-one-block-early",
        Flaw::TailStartsEarly,
        HOT_TAIL,
        "the tail's first position is one block too low for its slot",
    ),
    Kind::Tables.fault(
        "tail-counts-growth-room",
        Flaw::TailCountsRoom,
        HOT_TAIL,
        "unwritten growth room counts as part of the tail",
    ),
    Kind::Tables.fault(
        "descending-blocks-merged",
        Flaw::DescendingMerged,
        SPANS,
        "a block that lies just below the previous one is read as if it lay above it",
    ),
    Kind::Tables.fault(
        "gapped-blocks-merged",
        Flaw::GapMerged,
        SPANS,
        "a run goes on over a gap of one block",
    ),
    Kind::Tables
        .fault(
            "flags-ignored-in-runs",
            Flaw::FlagsMerged,
            SPANS,
            "a run goes on where its blocks differ in who may write them",
        )
        .but("the same slots are read: kernels do not look at these flags"),
    Kind::Tables.fault(
        "group-one-member-short",
        Flaw::MembersShort,
        HYBRID,
        "the last member of a group is not served its shared prefix",
    ),
    Kind::Tables.fault(
        "group-one-block-short",
        Flaw::GroupShort,
        HYBRID,
        "the last block of a shared prefix is left out for all its members",
    ),
    Kind::Tables.fault(
        "nested-groups-on-one-level",
        Flaw::LevelsEqual,
        HYBRID,
        "all groups are given level 0, so one overwrites the partial results of another",
    ),
    Kind::Tables.fault(
        "shared-prefix-read-twice",
        Flaw::PrefixTwice,
        HYBRID,
        "a row's own records hold its shared prefix as well",
    ),
    Kind::Tables.fault(
        "merge-mask-bit-missing",
        Flaw::MaskBitMissing,
        HYBRID,
        "the result of a group is not merged for its last member",
    ),
    Kind::Tables.fault(
        "merge-mask-of-other-rows",
        Flaw::MaskBitOfOthers,
        HYBRID,
        "a row merges parts of every level, also of groups that it is not in",
    ),
    Kind::Bytes.fault("values-not-copied", Flaw::ValuesNotCopied, ALL, "a copy takes K and leaves V"),
    Kind::Bytes
        .fault("copy-one-slot-long", Flaw::CopyOneLong, ALL, "a copy takes one slot more than is written")
        .but("the slot lies behind the row's last token and is written before it is read"),
    Kind::Bytes.fault("slot-cut-to-16-bits", Flaw::SlotCut, ALL, "a write takes its slot modulo 65536"),
    Kind::Bytes.fault(
        "old-bytes-kept",
        Flaw::OldBytesKept,
        ALL,
        "a slot of a reused block keeps the bytes of its first owner",
    ),
    Kind::Scales.fault(
        "scales-not-copied",
        Flaw::ScalesNotCopied,
        ALL,
        "a copy takes the codes and leaves their scales",
    ),
    Kind::Scales.fault(
        "block-scale-kept",
        Flaw::BlockScaleKept,
        ALL,
        "a reused block keeps the scale of its first owner",
    ),
    Kind::Scales.fault(
        "values-under-key-scales",
        Flaw::ValuesUnderKeyScales,
        ALL,
        "the scales of V are written with those of K",
    ),
    Kind::Statistics.fault(
        "hits-count-the-prompt",
        Flaw::HitsCountPrompt,
        ALL,
        "a prompt with a hit counts as reused from end to end",
    ),
];
