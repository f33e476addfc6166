//! What a wrong kernel does differently, as plain data. Every default is right; a hypothesis changes one field.

/// Where query tokens are taken to stand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Position {
    #[default]
    Declared,
    TopLeft,
    BottomRight,
    /// `i + 2 (len - q_len)`.
    OffsetTwice,
    /// The first query token's position rounded down to a multiple of the block size.
    BlockFloor,
    /// From the length of the longest row of the batch.
    LongestRow,
}

/// The causal limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Limit {
    #[default]
    Declared,
    Ignored,
    Imposed,
    /// This many keys further than declared.
    Moved(i64),
    /// The same, and the right end of the window with it.
    MovedWithWindow(i64),
}

/// The left end of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Left {
    #[default]
    Declared,
    /// This many keys wider.
    Wider(i64),
    /// No window on either side.
    Ignored,
    BlockFloor,
    TileFloor,
    PreviousToken,
    FirstTokenIgnored,
}

/// The KV head of a query head.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Head {
    #[default]
    Declared,
    Modulo,
    /// `h / Hk`, at most `Hk - 1`.
    DivideByKvHeads,
    Zero,
    Next,
    /// `h >> floor(log2 G)`, at most `Hk - 1`.
    Shift,
}

/// The slope of the bias.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Slope {
    #[default]
    Declared,
    Ignored,
    /// No bias where the row has one query token.
    IgnoredInDecode,
    NextHead,
    PowerOfTwo,
    /// Exponent `h` in place of `h + 1`.
    ExponentShift,
    ByKvHead,
    Negated,
    /// The bias is scaled with the dot product.
    TimesScale,
}

/// What the slope multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Distance {
    #[default]
    Declared,
    /// `j` where `j - p` is declared, and the reverse.
    OtherOrigin,
    /// `-|p - j|`, whatever the causal limit.
    Absolute,
}

/// The factor on `q . k`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Scaling {
    #[default]
    Declared,
    Missing,
    Squared,
    Times(f64),
    /// `1 / sqrt(next power of two of d)`.
    PaddedDim,
    /// `1 / sqrt(d)`.
    InvSqrtD,
    /// The final score times this factor.
    Score(f64),
}

/// The softcap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Cap {
    #[default]
    Declared,
    Ignored,
    Clamp,
    Twice,
    /// `x tanh(x / c)`.
    XTanh,
    BeforeScale,
    OtherOrder,
    /// `(t - 1) / (t + 1)` with `t = exp(2 x / c)` in f32.
    TanhOverflow,
}

/// The sink.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Sink {
    #[default]
    Declared,
    Ignored,
    Scaled,
    Twice,
    PerSplit,
    NextHead,
    Capped,
}

/// How stored codes become numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Decode {
    #[default]
    Declared,
    /// As another format.
    As(crate::Elem),
    /// Subnormal numbers become 0.
    SubnormalsFlushed,
    /// The largest code becomes NaN.
    LargestIsNan,
    Unsigned,
}

/// Which scale a stored value is multiplied with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum ScaleRule {
    #[default]
    Declared,
    /// That of the other tensor.
    OfOther,
    Ignored,
    Divided,
    HeadZero,
    /// That of KV head `h mod Hk`, with the query head `h`.
    QueryHeadModulo,
    /// That of KV head `min(h, Hk - 1)`.
    QueryHeadClamped,
    /// That of the tile's first key.
    FirstOfTile,
    /// Ignored for keys of a prefix shared with another row.
    IgnoredInPrefix(Prefix),
}

/// Which rows share a prefix, as far as their contents tell: whole blocks of equal keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Prefix {
    /// With the row that shares the most.
    Longest,
    /// With all rows that share any block.
    Common,
    /// What the kernel reads as a part that several rows share.
    Parts,
}

/// A run of keys of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Key(usize),
    Block(usize),
    /// The number of the split, and of the tile in it.
    Tile(usize, usize),
    Split(usize),
}

/// Changes to the list of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Edit {
    #[default]
    None,
    Drop(Unit),
    DropLast,
    DropMiddle,
    DropLastBlock,
    DropPrefix(Prefix),
    Duplicate(usize),
    DuplicateMiddle,
    /// V of this key taken from the next one.
    NextV(usize),
    NextVMiddle,
    /// V of every key taken from the one before it.
    ShiftedV,
    SwappedBlocks,
    /// V of a whole tile taken from the block of the tile's first key.
    PageOfTileV,
    /// The last key of every split but the last left out.
    SplitGap,
    /// The same, also where the row ends there, unless it is the last split of the schedule.
    SplitGapAtEnd,
    /// The first key of every split but the first counted twice.
    SplitOverlap,
    /// Only the first half of each tile.
    HalfTiles,
    /// Tiles of a single key skipped.
    SkipSingles,
}

/// Where the edit of the list of keys applies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Where {
    #[default]
    Everywhere,
    Row(usize),
    LastHeadOfLastRow,
}

/// What becomes of masked keys that a kernel loads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Masked {
    #[default]
    LeftOut,
    /// The score `-c` of the softcap.
    MinusCap(Loaded),
    /// The weight 2^-20 relative to the running maximum.
    SmallWeight(Loaded),
    /// The score -1e4.
    Sentinel(Loaded),
}

/// Which masked keys a kernel loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Loaded {
    /// What the workgroup reads.
    Read,
    /// The blocks of those.
    Blocks,
    /// All keys of the row.
    Row,
}

/// Which dims `q . k` covers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Dims {
    #[default]
    All,
    /// Whole groups of 32, at least one.
    MultipleOf32,
    AtMost128,
}

/// Arithmetic that is coarser than declared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Coarse {
    #[default]
    No,
    /// The output accumulator in binary16.
    AccumulatorF16,
    /// `q . k` in binary16.
    DotF16,
    /// Only the finished, unscaled `q . k` in binary16.
    FinishedDotF16,
    /// Weights in bf16 before V.
    WeightsBf16,
    /// Weights in bf16 before V and in the denominator.
    WeightsBf16InSum,
}

/// What happens when the maximum moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Rescale {
    #[default]
    Both,
    NotAccumulator,
    NotSum,
    Neither,
    /// The maximum of the first tile is kept, in f32.
    Frozen,
}

/// How parts are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Merge {
    #[default]
    ByLse,
    EqualWeights,
    /// The same, with the right LSE.
    EqualWeightsRightLse,
    /// `2^x` of natural LSEs.
    BaseTwo {
        /// The sink's weight is a power of two, too.
        sink: bool,
        /// The merged LSE has `log2` of the sum.
        lse: bool,
    },
    /// The last part is left out, even if it is the only one.
    DropsLast,
    DropsLastOfSeveral,
    /// The parts with the numbers 0 and 1.
    FirstTwo,
    /// The first two that have keys.
    FirstTwoSeen,
    /// `exp(lse)` in f32, without subtracting the maximum.
    WithoutMax,
    /// An empty part has the LSE 0.
    EmptyCountsOne,
}

/// What is written where a query token sees no key and there is no sink.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Empty {
    #[default]
    Declared,
    /// The output NaN.
    Nan,
    /// The LSE +inf.
    PlusInf,
    /// The LSE 0.
    ZeroLse,
}

/// The LSE.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Lse {
    #[default]
    Right,
    OtherBase,
    /// Without the largest score.
    WithoutMax,
    /// Without the largest LSE of a part.
    WithoutTop,
    /// Each part's LSE without its maximum, which spoils the merge too.
    PartsWithoutMax,
    OfLastPart,
    WithoutSink,
}

/// The division by the denominator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Normalise {
    #[default]
    Right,
    NotParts,
    NotMerged,
    Never,
}

/// Whose keys a row reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Table {
    #[default]
    Own,
    NextRow,
}

/// What becomes of a part whose denominator is NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum NanPart {
    /// It spreads.
    #[default]
    Spreads,
    /// The part counts as empty, since NaN is not above 0.
    Vanishes,
}

/// One wrong kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tweaks {
    pub(super) position: Position,
    pub(super) limit: Limit,
    pub(super) left: Left,
    pub(super) k_head: Head,
    pub(super) v_head: Head,
    pub(super) slope: Slope,
    pub(super) distance: Distance,
    pub(super) scale: Scaling,
    pub(super) cap: Cap,
    pub(super) sink: Sink,
    pub(super) decode: Decode,
    pub(super) k_scale: ScaleRule,
    pub(super) v_scale: ScaleRule,
    pub(super) edit: Edit,
    pub(super) edit_where: Where,
    pub(super) masked: Masked,
    pub(super) dims: Dims,
    pub(super) coarse: Coarse,
    pub(super) rescale: Rescale,
    pub(super) merge: Merge,
    pub(super) lse: Lse,
    pub(super) normalise: Normalise,
    pub(super) table: Table,
    pub(super) nan_part: NanPart,
    pub(super) empty: Empty,
}

impl Tweaks {
    /// Whether `q . k` of a key is the right one, up to the scale.
    pub(super) fn right_dots(&self) -> bool {
        let coarse = matches!(self.coarse, Coarse::DotF16 | Coarse::FinishedDotF16);
        !coarse
            && self.k_head == Head::Declared
            && self.decode == Decode::Declared
            && self.dims == Dims::All
            && self.table == Table::Own
    }
}
