//! The five layouts by name: a layout is a placement policy, an element order, a table format and a read schedule.

use std::fmt;

/// One of the five layouts under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayoutKind {
    /// Padded block table over `K[block][head][D/x][B][x]` pools, blocks popped one by one (the vLLM paged kernel).
    ClassicPaged,
    /// `indptr`/`indices`/`last_len` over slot-major pools, every popped batch sorted (`FlashInfer`'s page table).
    PackedBlockTable,
    /// Packed table for cold blocks and one contiguous extent per row for the tokens being decoded.
    HotTailContiguous,
    /// Best-fit contiguous runs described by spans (the virtually contiguous cache of `vAttention`, without a VMM).
    VirtualContiguous,
    /// Spans, with the prefix shared by several rows read once per group and merged by LSE (Hydragen, `ChunkAttention`).
    HybridPrefixShared,
}

impl LayoutKind {
    /// Every layout, in the order used by reports.
    pub const ALL: [Self; 5] = [
        Self::ClassicPaged,
        Self::PackedBlockTable,
        Self::HotTailContiguous,
        Self::VirtualContiguous,
        Self::HybridPrefixShared,
    ];

    /// The name used in case ids and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClassicPaged => "classic-paged",
            Self::PackedBlockTable => "packed-block-table",
            Self::HotTailContiguous => "hot-tail-contiguous",
            Self::VirtualContiguous => "virtual-contiguous",
            Self::HybridPrefixShared => "hybrid-prefix-shared",
        }
    }

    /// The layout of that exact name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether rows are described by span records instead of block tables.
    pub fn has_spans(self) -> bool {
        matches!(self, Self::VirtualContiguous | Self::HybridPrefixShared)
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::LayoutKind;

    #[test]
    fn names_are_distinct_and_parse_back() {
        for kind in LayoutKind::ALL {
            assert_eq!(LayoutKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(LayoutKind::parse("classic"), None);
        assert_eq!(format!("{}", LayoutKind::ClassicPaged), "classic-paged");
    }
}
