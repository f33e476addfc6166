//! The list of hypotheses: one entry each. Where a description leaves open what exactly a kernel would do, several
//! entries share an id.

use super::{
    Hypothesis, Scene,
    tweaks::{
        Cap, Coarse, Decode, Dims, Distance, Edit, Empty, Head, Left, Limit, Loaded, Lse, Masked, Merge,
        Normalise, Position, Prefix, Rescale, ScaleRule, Scaling, Sink, Slope, Table, Tweaks, Unit, Where,
    },
};
use crate::{
    elem::Elem,
    scale::Granularity,
    spec::{Causal, Profile},
};

/// A hypothesis that differs from the right kernel as `change` says.
fn h(id: &str, says: &str, change: impl FnOnce(&mut Tweaks)) -> Hypothesis {
    let mut tweaks = Tweaks::default();
    change(&mut tweaks);
    Hypothesis { id: id.to_owned(), says: says.to_owned(), tweaks }
}

/// Every hypothesis without a parameter that makes sense for the scene's profile, formats and schedule.
pub(super) fn named(scene: &Scene<'_>) -> Vec<Hypothesis> {
    let profile = scene.spec.profile();
    let scaled = [scene.k_granularity, scene.v_granularity].iter().any(|&scale| scale != Granularity::None);
    let several_parts = scene.rows.iter().any(|row| row.parts() > 1);
    let groups = [
        (profile.window.left.is_some(), window as fn() -> Vec<Hypothesis>),
        (true, positions),
        (profile.causal == Causal::None, uncausal),
        (profile.causal == Causal::TopLeft, top_left),
        (profile.causal == Causal::BottomRight, bottom_right),
        (profile.causal != Causal::None, causal),
        (scene.spec.shape().kv_heads > 1, heads),
        (scene.spec.slopes().is_some(), alibi),
        (true, scale),
        (profile.softcap.is_some(), softcap),
        (profile.sinks.is_some(), sinks),
        (scaled, scales),
        (true, addressing),
        (true, edits),
        (true, masked),
        (scene.splits > 1 || several_parts || profile.sinks.is_some(), merge),
        (several_parts, shared_parts),
        (true, log_sum_exp),
        (true, empty),
        (true, arithmetic),
    ];
    let mut list: Vec<Hypothesis> =
        groups.iter().filter(|(applies, _)| *applies).flat_map(|(_, group)| group()).collect();
    list.extend(formats(scene.elem));
    list.extend(both(profile));
    list
}

/// What only a profile with two features can show.
fn both(profile: &Profile) -> Vec<Hypothesis> {
    let mut list = Vec::new();
    if profile.softcap.is_some() && profile.sinks.is_some() {
        list.push(h("sink-capped", "the softcap is applied to the sink", |t| t.sink = Sink::Capped));
    }
    list
}

fn window() -> Vec<Hypothesis> {
    vec![
        h("window-plus-one", "the window has one key too many at its left end", |t| t.left = Left::Wider(1)),
        h("window-minus-one", "the window has one key too few at its left end", |t| t.left = Left::Wider(-1)),
        h("window-ignored", "the window is ignored", |t| t.left = Left::Ignored),
        h("window-block-floor", "the window's first key is rounded down to a whole block", |t| {
            t.left = Left::BlockFloor;
        }),
        h("window-tile-floor", "the window's first key is rounded down to a whole tile", |t| {
            t.left = Left::TileFloor;
        }),
        h("window-of-previous-token", "a query token uses the window start of the one before it", |t| {
            t.left = Left::PreviousToken;
        }),
        h("window-first-token-ignored", "the first of several query tokens has no window", |t| {
            t.left = Left::FirstTokenIgnored;
        }),
    ]
}

fn positions() -> Vec<Hypothesis> {
    vec![
        h("causal-offset-twice", "the cached length counts twice in positions", |t| {
            t.position = Position::OffsetTwice;
        }),
        h("position-block-floor", "the first query token's position is rounded down to a whole block", |t| {
            t.position = Position::BlockFloor;
        }),
        h("position-from-longest-row", "positions come from the length of the longest row", |t| {
            t.position = Position::LongestRow;
        }),
    ]
}

fn uncausal() -> Vec<Hypothesis> {
    let imposed = h("causal-imposed", "a causal limit is imposed", |t| t.limit = Limit::Imposed);
    bottom_right().into_iter().chain([imposed]).collect()
}

fn top_left() -> Vec<Hypothesis> {
    vec![h("causal-bottom-right", "query tokens are counted from the last key", |t| {
        t.position = Position::BottomRight;
    })]
}

fn bottom_right() -> Vec<Hypothesis> {
    vec![h("causal-top-left", "query tokens are counted from the first key", |t| {
        t.position = Position::TopLeft;
    })]
}

fn causal() -> Vec<Hypothesis> {
    let plus = "each query also sees the key after its own";
    let ignored = "the causal limit is ignored";
    vec![
        h("causal-plus-one", plus, |t| t.limit = Limit::Moved(1)),
        h("causal-plus-one", plus, |t| t.limit = Limit::MovedWithWindow(1)),
        h("causal-minus-one", "no query sees its own key", |t| t.limit = Limit::Moved(-1)),
        h("causal-ignored", ignored, |t| t.limit = Limit::Ignored),
        h("causal-ignored", ignored, |t| {
            t.limit = Limit::Ignored;
            t.distance = Distance::Absolute;
        }),
    ]
}

fn heads() -> Vec<Hypothesis> {
    let both = |id: &str, says: &str, rule: Head| h(id, says, |t| (t.k_head, t.v_head) = (rule, rule));
    vec![
        both("head-mod", "the KV head is h mod Hk", Head::Modulo),
        h("head-k-mod", "K's head is h mod Hk", |t| t.k_head = Head::Modulo),
        h("head-v-mod", "V's head is h mod Hk", |t| t.v_head = Head::Modulo),
        both("head-div-kv", "the KV head is h / Hk", Head::DivideByKvHeads),
        both("head-zero", "every query head reads KV head 0", Head::Zero),
        both("head-next", "every query head reads the next KV head", Head::Next),
        both("head-shift", "the group is divided by with a shift", Head::Shift),
    ]
}

fn alibi() -> Vec<Hypothesis> {
    let slope = |id: &str, says: &str, rule: Slope| h(id, says, |t| t.slope = rule);
    vec![
        slope("alibi-ignored", "ALiBi is ignored", Slope::Ignored),
        slope("alibi-ignored-in-decode", "ALiBi is ignored with one query token", Slope::IgnoredInDecode),
        slope("alibi-next-head", "the ALiBi slope is the next head's", Slope::NextHead),
        slope("alibi-power-of-two", "ALiBi slopes as if heads were a power of two", Slope::PowerOfTwo),
        slope(
            "alibi-exponent-shift",
            "the exponent of ALiBi slopes is short by one head",
            Slope::ExponentShift,
        ),
        slope("alibi-sign", "the ALiBi bias has the wrong sign", Slope::Negated),
        h("alibi-origin", "ALiBi measures from the other origin", |t| t.distance = Distance::OtherOrigin),
        slope("alibi-by-kv-head", "ALiBi slopes are indexed by the KV head", Slope::ByKvHead),
        slope("alibi-times-scale", "the ALiBi bias is scaled with the dot product", Slope::TimesScale),
    ]
}

fn scale() -> Vec<Hypothesis> {
    let scale = |id: &str, says: &str, rule: Scaling| h(id, says, |t| t.scale = rule);
    let log2e = "scores are times log2 e, but the exponential is to base e";
    vec![
        scale("scale-missing", "the scale is 1", Scaling::Missing),
        scale("scale-squared", "the scale is applied twice", Scaling::Squared),
        scale("scale-doubled", "the scale is doubled", Scaling::Times(2.0)),
        scale("scale-one-percent", "the scale is 1 % too large", Scaling::Times(1.01)),
        scale("scale-per-mille", "the scale is 0.1 % too large", Scaling::Times(1.001)),
        scale("scale-padded-dim", "the scale comes from D padded to a power of two", Scaling::PaddedDim),
        scale("scale-default", "the scale is 1 / sqrt(D)", Scaling::InvSqrtD),
        scale("scale-log2e", log2e, Scaling::Score(std::f64::consts::LOG2_E)),
        scale("scale-log2e", log2e, Scaling::Times(std::f64::consts::LOG2_E)),
    ]
}

fn softcap() -> Vec<Hypothesis> {
    let cap = |id: &str, says: &str, rule: Cap| h(id, says, |t| t.cap = rule);
    let after = "masked keys get the score -c";
    vec![
        cap("softcap-ignored", "the softcap is ignored", Cap::Ignored),
        h("softcap-after-mask", after, |t| t.masked = Masked::MinusCap(Loaded::Row)),
        h("softcap-after-mask", after, |t| t.masked = Masked::MinusCap(Loaded::Read)),
        h("softcap-after-mask", after, |t| t.masked = Masked::MinusCap(Loaded::Blocks)),
        cap("softcap-clamp", "the softcap clamps", Cap::Clamp),
        cap("softcap-twice", "the softcap is applied twice", Cap::Twice),
        cap("softcap-x-tanh", "the softcap is x tanh(x / c)", Cap::XTanh),
        cap("softcap-before-scale", "the softcap comes before the scale", Cap::BeforeScale),
        cap("softcap-other-order", "softcap and ALiBi are in the other order", Cap::OtherOrder),
        cap("softcap-tanh-overflow", "tanh overflows to NaN", Cap::TanhOverflow),
    ]
}

fn sinks() -> Vec<Hypothesis> {
    let sink = |id: &str, says: &str, rule: Sink| h(id, says, |t| t.sink = rule);
    vec![
        sink("sink-ignored", "the sink is ignored", Sink::Ignored),
        sink("sink-scaled", "the sink is scaled", Sink::Scaled),
        sink("sink-twice", "the sink counts twice", Sink::Twice),
        sink("sink-per-split", "the sink counts once per split", Sink::PerSplit),
        sink("sink-next-head", "the sink is the next head's", Sink::NextHead),
        h("sink-not-in-lse", "the LSE leaves out the sink", |t| t.lse = Lse::WithoutSink),
    ]
}

fn formats(elem: Elem) -> Vec<Hypothesis> {
    let decode = |id: &str, says: &str, rule: Decode| h(id, says, |t| t.decode = rule);
    let eight_bit = matches!(elem, Elem::E4m3fn | Elem::E5m2 | Elem::E4m3fnuz | Elem::E5m2fnuz);
    let e4m3_as = |id: &str, other: Elem| {
        decode(id, &format!("{} is decoded as {}", elem.name(), other.name()), Decode::As(other))
    };
    let mut list = match elem {
        Elem::E4m3fn => vec![e4m3_as("fn-as-fnuz", Elem::E4m3fnuz), e4m3_as("e4m3-as-e5m2", Elem::E5m2)],
        Elem::E4m3fnuz => vec![e4m3_as("fnuz-as-fn", Elem::E4m3fn)],
        Elem::E5m2 => vec![e4m3_as("e5m2-as-e4m3", Elem::E4m3fn)],
        Elem::E5m2fnuz => vec![e4m3_as("e5m2fnuz-as-e5m2", Elem::E5m2)],
        Elem::Int8 => vec![decode("int8-unsigned", "int8 is read as unsigned", Decode::Unsigned)],
        Elem::F16 => vec![
            e4m3_as("f16-as-bf16", Elem::Bf16),
            decode("f16-subnormals-flushed", "subnormal f16 decode to 0", Decode::SubnormalsFlushed),
        ],
        Elem::F32 | Elem::Bf16 => Vec::new(),
    };
    if eight_bit {
        let flushed = "subnormal 8-bit floats decode to 0";
        list.push(decode("fp8-subnormals-flushed", flushed, Decode::SubnormalsFlushed));
    }
    let nan = "the largest code of the format decodes to NaN";
    list.push(decode("saturation-as-nan", nan, Decode::LargestIsNan));
    list
}

fn scales() -> Vec<Hypothesis> {
    let both = |id: &str, says: &str, rule: ScaleRule| h(id, says, |t| (t.k_scale, t.v_scale) = (rule, rule));
    let by_query = "scales of K and V are indexed by the query head";
    let prefix = "scales are ignored in the shared prefix";
    vec![
        h("kscale-for-v", "V is scaled with K's scale", |t| t.v_scale = ScaleRule::OfOther),
        h("vscale-for-k", "K is scaled with V's scale", |t| t.k_scale = ScaleRule::OfOther),
        h("kscale-ignored", "K is not scaled", |t| t.k_scale = ScaleRule::Ignored),
        h("vscale-ignored", "V is not scaled", |t| t.v_scale = ScaleRule::Ignored),
        both("kvscale-divided", "K and V are divided by their scales", ScaleRule::Divided),
        both("kvscale-head-zero", "every KV head has the scale of head 0", ScaleRule::HeadZero),
        both("kvscale-by-query-head", by_query, ScaleRule::QueryHeadModulo),
        both("kvscale-by-query-head", by_query, ScaleRule::QueryHeadClamped),
        both("kvscale-of-first-token", "a tile has the scale of its first key", ScaleRule::FirstOfTile),
        both("kvscale-missing-in-prefix", prefix, ScaleRule::IgnoredInPrefix(Prefix::Longest)),
        both("kvscale-missing-in-prefix", prefix, ScaleRule::IgnoredInPrefix(Prefix::Common)),
    ]
}

fn edits() -> Vec<Hypothesis> {
    let edit = |id: &str, says: &str, edit: Edit| h(id, says, |t| t.edit = edit);
    let prefix = "the shared prefix is left out";
    let gap = "the last key of every split but the last is left out";
    vec![
        edit("drop-last-token", "the last key of the row is left out", Edit::DropLast),
        edit("drop-first-token", "key 0 is left out", Edit::Drop(Unit::Key(0))),
        edit("drop-middle-token", "key len / 2 is left out", Edit::DropMiddle),
        edit("drop-last-block", "the last block of the row is left out", Edit::DropLastBlock),
        edit("drop-first-block", "the first block is left out", Edit::Drop(Unit::Block(0))),
        edit("duplicate-middle-token", "key len / 2 counts twice", Edit::DuplicateMiddle),
        edit("v-of-next-token", "V of key len / 2 is that of the next key", Edit::NextVMiddle),
        edit("v-shifted", "V of every key is that of the key before it", Edit::ShiftedV),
        edit("blocks-swapped", "blocks 0 and 1 of a row are swapped", Edit::SwappedBlocks),
        edit("v-page-not-advanced", "V of a tile is read from the block of its first key", Edit::PageOfTileV),
        edit("half-tile", "only the first half of each tile is visited", Edit::HalfTiles),
        edit("tile-tail-of-one", "a tile with a single key is skipped", Edit::SkipSingles),
        edit("split-gap", gap, Edit::SplitGap),
        edit("split-gap", gap, Edit::SplitGapAtEnd),
        edit("split-overlap", "the first key of every split but the first counts twice", Edit::SplitOverlap),
        edit("prefix-part-dropped", prefix, Edit::DropPrefix(Prefix::Longest)),
        edit("prefix-part-dropped", prefix, Edit::DropPrefix(Prefix::Common)),
        h("one-head-of-one-row", "the last key is left out in the last head of the last row", |t| {
            (t.edit, t.edit_where) = (Edit::DropLast, Where::LastHeadOfLastRow);
        }),
    ]
}

fn addressing() -> Vec<Hypothesis> {
    vec![
        h("neighbours-table", "a row reads the keys of the next row", |t| t.table = Table::NextRow),
        h("head-dim-32", "q . k covers only whole groups of 32 dims", |t| t.dims = Dims::MultipleOf32),
        h("head-dim-128", "q . k covers at most 128 dims", |t| t.dims = Dims::AtMost128),
    ]
}

fn masked() -> Vec<Hypothesis> {
    let mut list = Vec::new();
    for loaded in [Loaded::Read, Loaded::Blocks, Loaded::Row] {
        let small = "masked keys of a loaded tile get a small weight";
        list.push(h("masked-weight-small", small, |t| t.masked = Masked::SmallWeight(loaded)));
        let sentinel = "masked keys of a loaded tile get the score -1e4";
        list.push(h("sentinel-1e4", sentinel, |t| t.masked = Masked::Sentinel(loaded)));
    }
    list
}

fn merge() -> Vec<Hypothesis> {
    let merge = |id: &str, says: &str, rule: Merge| h(id, says, |t| t.merge = rule);
    let equal = "parts are averaged with equal weights";
    let two = "natural LSEs are merged to base 2";
    let last = "the last part is not merged";
    let first = "only the first two parts are merged";
    vec![
        merge("merge-no-weights", equal, Merge::EqualWeights),
        merge("merge-no-weights", equal, Merge::EqualWeightsRightLse),
        merge("merge-base2", two, Merge::BaseTwo { sink: false, lse: false }),
        merge("merge-base2", two, Merge::BaseTwo { sink: true, lse: false }),
        merge("merge-base2", two, Merge::BaseTwo { sink: false, lse: true }),
        merge("merge-base2", two, Merge::BaseTwo { sink: true, lse: true }),
        merge("merge-drops-last", last, Merge::DropsLast),
        merge("merge-drops-last", last, Merge::DropsLastOfSeveral),
        merge("merge-first-two", first, Merge::FirstTwo),
        merge("merge-first-two", first, Merge::FirstTwoSeen),
        h("lse-of-last-part", "the LSE is the last part's", |t| t.lse = Lse::OfLastPart),
    ]
}

/// What can happen to a part that several rows have in common.
fn shared_parts() -> Vec<Hypothesis> {
    let unscaled = ScaleRule::IgnoredInPrefix(Prefix::Parts);
    vec![
        h("prefix-part-dropped", "the shared prefix is left out", |t| {
            t.edit = Edit::DropPrefix(Prefix::Parts);
        }),
        h("kvscale-missing-in-prefix", "scales are ignored in the shared prefix", |t| {
            (t.k_scale, t.v_scale) = (unscaled, unscaled);
        }),
    ]
}

fn log_sum_exp() -> Vec<Hypothesis> {
    let lse = |id: &str, says: &str, rule: Lse| h(id, says, |t| t.lse = rule);
    let without = "the LSE leaves out the maximum";
    vec![
        lse("lse-base2", "the LSE is to the other base", Lse::OtherBase),
        lse("lse-without-max", without, Lse::WithoutMax),
        lse("lse-without-max", without, Lse::WithoutTop),
        lse("lse-without-max", without, Lse::PartsWithoutMax),
        h("empty-split-weight-one", "an empty part is merged with the LSE 0", |t| {
            t.merge = Merge::EmptyCountsOne;
        }),
        h("merge-without-max", "parts are merged by exp(LSE), which overflows", |t| {
            t.merge = Merge::WithoutMax;
        }),
    ]
}

fn empty() -> Vec<Hypothesis> {
    let empty = |id: &str, says: &str, rule: Empty| h(id, says, |t| t.empty = rule);
    vec![
        empty("empty-row-nan", "the output of a row without keys is NaN", Empty::Nan),
        empty("empty-row-plus-inf", "the LSE of a row without keys is +inf", Empty::PlusInf),
        empty("empty-row-zero-lse", "the LSE of a row without keys is 0", Empty::ZeroLse),
    ]
}

fn arithmetic() -> Vec<Hypothesis> {
    let coarse = |id: &str, says: &str, rule: Coarse| h(id, says, |t| t.coarse = rule);
    let rescale = |id: &str, says: &str, rule: Rescale| h(id, says, |t| t.rescale = rule);
    let normalise = |rule: Normalise| {
        h("not-normalised", "the output is not divided by the denominator", |t| t.normalise = rule)
    };
    let bf16 = "weights are rounded to bf16";
    vec![
        rescale("no-rescale-acc", "the output is not rescaled to a new maximum", Rescale::NotAccumulator),
        rescale("no-rescale-sum", "the denominator is not rescaled to a new maximum", Rescale::NotSum),
        rescale("no-rescale", "nothing is rescaled to a new maximum", Rescale::Neither),
        rescale("max-frozen", "the maximum of the first tile is kept", Rescale::Frozen),
        coarse("f16-accumulator", "the output is accumulated in f16", Coarse::AccumulatorF16),
        coarse("f16-dot", "q . k is accumulated in f16", Coarse::DotF16),
        coarse("f16-dot-unscaled-overflow", "the unscaled q . k is rounded to f16", Coarse::FinishedDotF16),
        coarse("p-bf16", bf16, Coarse::WeightsBf16),
        coarse("p-bf16", bf16, Coarse::WeightsBf16InSum),
        normalise(Normalise::NotParts),
        normalise(Normalise::NotMerged),
        normalise(Normalise::Never),
    ]
}
