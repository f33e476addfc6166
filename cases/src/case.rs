//! One case: a shape, an attention profile, number formats and a lifecycle script.

use attnproof_oracle as oracle;
use oracle::{
    Alibi, BiasOrder, Causal, Elem, Granularity, Profile, Saturate, Scale, Shape, Spec, SpecError, Window,
};

pub use crate::fill::FillKind;
use crate::query::typical_maximum;
use crate::script::{Op, Script};
use crate::{SUITE, hash};

/// Where a case comes from; the first part of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// One of the thirty decode cases.
    Decode,
    /// Beyond the thirty: several query tokens, softcap, sinks, other formats.
    Extra,
    /// Made from a trace of real requests.
    Trace,
    /// Probes: inputs whose outputs spell what was read.
    Probe,
    /// Random inputs of plain profiles.
    Random,
    /// Read from a user's file.
    User,
}

impl Family {
    /// The prefix of the id: `decode`, `extra`, `trace`, `probe`, `random` or `user`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Extra => "extra",
            Self::Trace => "trace",
            Self::Probe => "probe",
            Self::Random => "random",
            Self::User => "user",
        }
    }
}

/// Everything that is asked, without a layout: each case runs on every layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Origin; the prefix of the id.
    pub family: Family,
    /// Unique name within the family; inputs are keyed by it.
    pub name: String,
    /// One sentence: what the case is for.
    pub why: String,
    /// Heads and head dims.
    pub shape: Shape,
    /// Tokens per block, a power of two.
    pub block_size: u32,
    /// Blocks in the pool.
    pub blocks: u32,
    /// First block handed out; blocks below it are not used.
    pub first_block: u32,
    /// Forced number of splits of the key range.
    pub splits: Option<u32>,
    /// Tokens per split instead of the layout's default; a multiple of the block size.
    pub split_tokens: Option<u32>,
    /// Element format of K and V.
    pub kv: Elem,
    /// Granularity of K's scales.
    pub k_scale: Granularity,
    /// Granularity of V's scales.
    pub v_scale: Granularity,
    /// What encoding does with values beyond the largest finite one.
    pub saturate: Saturate,
    /// Softmax scale, an f32 exactly.
    pub scale: f32,
    /// Sliding window in keys, the query's own key included.
    pub window: Option<u32>,
    /// Blocks wholly below the window are freed.
    pub release: bool,
    /// `ALiBi` with the slopes of the BLOOM formula.
    pub alibi: bool,
    /// Softcap `c` in nats: scores become `c tanh(x / c)`.
    pub softcap: Option<f32>,
    /// Order of softcap and `ALiBi`.
    pub bias_order: BiasOrder,
    /// One sink logit per query head.
    pub sinks: bool,
    /// Causal alignment.
    pub causal: Causal,
    /// Unused elements between the slots of slot-major pools, a multiple of 16.
    pub slot_pad: u32,
    /// Content of K and V.
    pub fill: FillKind,
    /// What happens to the cache.
    pub script: Script,
}

/// Why a case cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A field is outside its limits.
    #[error("case {case}: {field}: {reason}")]
    Field {
        /// Name of the case.
        case: String,
        /// Field, by its key in ids and case files.
        field: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// The oracle refuses the profile.
    #[error("case {case}: {source}")]
    Spec {
        /// Name of the case.
        case: String,
        /// The oracle's reason.
        source: SpecError,
    },
    /// An operation that the state of the rows does not allow (scripts built by hand; the parser refuses them).
    #[error("case {case}: operation {op} (line {line}): {reason}")]
    Script {
        /// Name of the case.
        case: String,
        /// Index into `script.ops`.
        op: usize,
        /// Source line, 0 if unknown.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// Largest sum of prompt and appended tokens of one case.
pub const MAX_TOKENS: usize = 1 << 20;
/// Largest number of elements of one pool (K or V), padding included.
pub const MAX_POOL_ELEMENTS: u64 = 1 << 28;

impl Case {
    /// A case with every default: block 16, pool of 64 blocks, f32 without scales, causal, scale
    /// `1/sqrt(D)` rounded to f32.
    pub fn new(family: Family, name: &str, why: &str, shape: Shape, script: Script) -> Self {
        let scale = default_scale(shape.d);
        Self {
            family,
            name: name.to_owned(),
            why: why.to_owned(),
            shape,
            block_size: 16,
            blocks: 64,
            first_block: 0,
            splits: None,
            split_tokens: None,
            kv: Elem::F32,
            k_scale: Granularity::None,
            v_scale: Granularity::None,
            saturate: Saturate::Finite,
            scale,
            window: None,
            release: false,
            alibi: false,
            softcap: None,
            bias_order: BiasOrder::CapThenAlibi,
            sinks: false,
            causal: Causal::BottomRight,
            slot_pad: 0,
            fill: FillKind::Plain,
            script,
        }
    }

    /// The 64-bit key of everything drawn for this case: suite, seed and name.
    pub(crate) fn key(&self, seed: u64) -> u64 {
        hash::key(&[SUITE.as_bytes(), &seed.to_le_bytes(), self.name.as_bytes()])
    }

    /// The attention profile. Sinks are drawn from the seed: near the row maxima that the queries
    /// aim at, different for each head, in turn above and below.
    ///
    /// # Errors
    /// [`CaseError::Spec`] if the oracle refuses the profile.
    pub fn spec(&self, seed: u64) -> Result<Spec, CaseError> {
        let window = self.window.map_or_else(Window::default, Window::keys_including_self);
        let profile = Profile {
            scale: Scale::Explicit(self.scale),
            causal: self.causal,
            window,
            alibi: if self.alibi { Alibi::Formula } else { Alibi::None },
            softcap: self.softcap,
            bias_order: self.bias_order,
            sinks: self.sinks.then(|| self.sink_logits(seed)),
            saturate: self.saturate,
            ..Profile::default()
        };
        Spec::new(self.shape, profile).map_err(|source| CaseError::Spec { case: self.name.clone(), source })
    }

    /// One sink logit in nats per query head: the maximum the queries aim at, plus or minus up to 3.
    fn sink_logits(&self, seed: u64) -> Vec<f32> {
        let key = hash::fold(self.key(seed), 0x51_4B);
        let centre = typical_maximum(self);
        (0..self.shape.q_heads)
            .map(|head| {
                let distance = 0.5 + 2.5 * hash::signed_unit(hash::word(key, head as u64)).abs();
                let side = if head % 2 == 0 { 1.0 } else { -1.0 };
                (centre + side * distance) as f32
            })
            .collect()
    }

    /// Checks every limit a case must keep so that each layout and kernel can run it.
    ///
    /// # Errors
    /// [`CaseError::Field`] names the first field outside its limits, [`CaseError::Spec`] carries the
    /// oracle's refusal.
    pub fn validate(&self) -> Result<(), CaseError> {
        self.limits().map_err(|(field, reason)| CaseError::Field {
            case: self.name.clone(),
            field,
            reason,
        })?;
        self.spec(0).map(|_| ())
    }

    /// The limits themselves: a field and what is wrong with it.
    pub(crate) fn limits(&self) -> Result<(), (&'static str, String)> {
        let Shape { q_heads, kv_heads, d, dv } = self.shape;
        let bytes = self.kv.bytes();
        let block = self.block_size as usize;
        let window = self.window;
        let slots = u64::from(self.blocks) * u64::from(self.block_size);
        let slot_elements =
            (kv_heads as u64).saturating_mul(d.max(dv) as u64).saturating_add(self.slot_pad.into());
        let pool = slots.saturating_mul(slot_elements);
        let refusal = self.fill.refusal(self);
        let uneven_hits = self.script.uneven_hits(self.block_size).map(|(_, reason)| reason);
        let name_is_plain = !self.name.is_empty() && self.name.chars().all(is_name_char);
        let checks = [
            ("name", name_is_plain, "must be letters, digits, `-`, `_` and `.`"),
            ("why", !self.why.trim().is_empty(), "must say what the case is for"),
            ("hq", (1..=256).contains(&q_heads), "must be 1 to 256"),
            ("hk", kv_heads >= 1 && q_heads.is_multiple_of(kv_heads), "must divide hq"),
            ("d", (4..=256).contains(&d) && d.is_multiple_of(4), "must be a multiple of 4, 4 to 256"),
            (
                "d",
                d.saturating_mul(bytes).is_multiple_of(16),
                "one row of K must fill whole 16-byte words, the vector of the classic order",
            ),
            ("dv", (4..=256).contains(&dv) && dv.is_multiple_of(4), "must be a multiple of 4, 4 to 256"),
            ("block", block.is_power_of_two() && block <= 1024, "must be a power of two, 1 to 1024"),
            ("block", (block * bytes).is_multiple_of(4), "one dim of a block must fill whole 4-byte words"),
            ("blocks", self.blocks >= 1, "must be at least 1"),
            ("blocks", pool <= MAX_POOL_ELEMENTS, "the pool would hold more than 2^28 elements"),
            ("first", self.first_block < self.blocks, "must be less than blocks"),
            ("splits", self.splits.is_none_or(|n| (1..=1024).contains(&n)), "must be 1 to 1024"),
            (
                "split",
                self.split_tokens.is_none_or(|n| n > 0 && n.is_multiple_of(self.block_size)),
                "must be a positive multiple of block",
            ),
            (
                "split",
                self.splits.is_none() || self.split_tokens.is_none(),
                "either splits or split, not both",
            ),
            (
                "scale",
                self.scale.is_normal(),
                "must be finite, not 0 and no subnormal, which a kernel may read as 0",
            ),
            ("window", window.is_none_or(|w| w >= 1), "must be at least 1: it counts the query's own key"),
            ("window", window.is_none() || self.causal != Causal::None, "needs a causal case"),
            ("release", !self.release || window.is_some(), "needs a window"),
            (
                "release",
                !self.release || (self.causal == Causal::BottomRight && self.script.asks_last_tokens_only()),
                "needs bottom-right checks of one query token: earlier queries may see released keys",
            ),
            ("softcap", self.softcap.is_none_or(|c| c.is_finite() && c > 0.0), "must be finite and above 0"),
            ("pad", self.slot_pad.is_multiple_of(16), "must be a multiple of 16"),
            (
                "scales",
                self.kv != Elem::Int8
                    || (self.k_scale != Granularity::None && self.v_scale != Granularity::None),
                "int8 needs scales for K and V",
            ),
            (
                "scales",
                !matches!(self.kv, Elem::F32 | Elem::Bf16)
                    || [self.k_scale, self.v_scale]
                        .iter()
                        .all(|scale| !matches!(scale, Granularity::Block | Granularity::Token)),
                "scales per block or token fill the range of the format: those of f32 and bf16 leave no room for q . k",
            ),
            ("fill", refusal.is_none(), refusal.unwrap_or_default()),
            ("script", self.script.token_count() <= MAX_TOKENS, "more than 2^20 tokens"),
            (
                "script",
                self.script.ops.iter().any(|op| matches!(op, Op::Check { .. })),
                "no `check`: it would ask nothing",
            ),
            ("script", uneven_hits.is_none(), uneven_hits.as_deref().unwrap_or_default()),
        ];
        match checks.into_iter().find(|(_, kept, _)| !kept) {
            None => Ok(()),
            Some((field, _, reason)) => Err((field, reason.to_owned())),
        }
    }
}

/// `1/sqrt(D)` rounded to f32.
pub fn default_scale(d: usize) -> f32 {
    (1.0 / (d as f64).sqrt()) as f32
}

/// Characters of case, row and stream names.
pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}
