//! The profile: every convention on which attention libraries differ, as a named field with a default.
//!
//! With `x_j = scale * sum_d q_d K_jd`, a score `s_j` (ALiBi and softcap applied to `x_j` in the declared order),
//! `m` the maximum over visible keys (and the sink), `w_j = exp(s_j - m)` for visible keys and exactly 0
//! otherwise, `l = sum_j w_j` (plus `exp(sink - m)`):
//! `o_d = sum_j w_j V_jd / l` and `lse = m + ln l`.
//!
//! A query token `i` of `Tq` stands at the absolute position `p`; keys are numbered `j = 0 .. Tk`.

mod alibi;
mod window;

pub use alibi::{Alibi, alibi_slopes};
pub use window::Window;

use crate::{
    elem::{OutType, Saturate},
    error::SpecError,
};

/// Sizes that every sequence of a call shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Query heads, a multiple of `kv_heads`.
    pub q_heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Head dimension of Q and K.
    pub d: usize,
    /// Head dimension of V and of the output.
    pub dv: usize,
}

impl Shape {
    /// Query heads that read one KV head.
    pub const fn group(&self) -> usize {
        self.q_heads / self.kv_heads
    }
}

/// The factor on `q . k`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// `1 / sqrt(d)`, rounded to f32.
    #[default]
    InvSqrtD,
    /// This factor; any finite number.
    Explicit(f32),
}

/// Which KV head a query head `h` reads, with `G` query heads per KV head and `Hk` KV heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeadMap {
    /// `h / G`, rounded down: the usual grouped-query attention.
    #[default]
    Floor,
    /// `h mod Hk`.
    Modulo,
}

/// Where the causal diagonal lies. A key is visible if and only if `j <= p`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Causal {
    /// `p = Tk - Tq + i`: the last query sees the last key.
    #[default]
    BottomRight,
    /// `p = i`: the first query stands at the first key.
    TopLeft,
    /// No causal limit. Windows and ALiBi still need a position: `p = Tk - Tq + i`.
    None,
}

/// What distance ALiBi measures; one row's outputs are the same, its LSE differs by a constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AlibiOrigin {
    /// `slope * (j - p)`, or `-slope * |p - j|` without a causal limit.
    #[default]
    Query,
    /// `slope * j`.
    Absolute,
}

/// The order of the two changes to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BiasOrder {
    /// `c tanh(x / c) + bias` (FlashAttention 2, llama.cpp).
    #[default]
    CapThenAlibi,
    /// `c tanh((x + bias) / c)` (FlashInfer).
    AlibiThenCap,
}

/// The output of a row with no visible key and no sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmptyRow {
    /// Zero.
    #[default]
    Zero,
    /// NaN.
    Nan,
}

/// The base of the logarithm in the LSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LseBase {
    /// Natural logarithm.
    #[default]
    E,
    /// Logarithm to base two (FlashInfer).
    Two,
}

/// The LSE of a row with no visible key and no sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LseEmpty {
    /// Negative infinity, the value of the formula (FlashAttention 3).
    #[default]
    NegInf,
    /// Positive infinity (FlashAttention 2).
    PosInf,
}

/// How the softmax weights are rounded before they meet V. Widens the bound, leaves the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PRounding {
    /// Not rounded beyond f32.
    #[default]
    None,
    /// To binary16.
    F16,
    /// To bf16.
    Bf16,
    /// To e4m3fn after multiplication by `scale`.
    E4m3 {
        /// The factor, above 0 and at most 448, so that a weight of 1 does not overflow.
        scale: f32,
    },
}

/// The format in which products are summed. Widens the bound, leaves the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accum {
    /// f32 everywhere.
    #[default]
    F32,
    /// `q . k` in binary16, the rest in f32.
    F16Qk,
}

/// What a kernel promises to ignore in slots that it must not attend to. Does not change the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NanSlots {
    /// Any finite garbage.
    #[default]
    Finite,
    /// NaN and infinity in K.
    NanK,
    /// NaN and infinity in V.
    NanV,
}

/// The conventions a kernel declares; the default of each field is what most kernels do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The factor on `q . k`.
    pub scale: Scale,
    /// Which KV head a query head reads.
    pub head_map: HeadMap,
    /// Where the causal diagonal lies.
    pub causal: Causal,
    /// The sliding window.
    pub window: Window,
    /// Linear position bias.
    pub alibi: Alibi,
    /// What distance the bias measures.
    pub alibi_origin: AlibiOrigin,
    /// `c` of `c tanh(x / c)`; `None` for no cap. Never applied to a sink.
    pub softcap: Option<f32>,
    /// The order of softcap and bias.
    pub bias_order: BiasOrder,
    /// One logit per query head that joins the denominator only; neither scaled nor capped; counted in the LSE.
    pub sinks: Option<Vec<f32>>,
    /// The output of an empty row.
    pub empty_row: EmptyRow,
    /// The base of the LSE.
    pub lse_base: LseBase,
    /// The LSE of an empty row.
    pub lse_empty: LseEmpty,
    /// How weights are rounded before they meet V.
    pub p_rounding: PRounding,
    /// The format in which products are summed.
    pub accum: Accum,
    /// The format of the output.
    pub out: OutType,
    /// What the kernel promises to ignore in slots it must not attend to.
    pub nan_slots: NanSlots,
    /// How values are stored that exceed the format of K and V.
    pub saturate: Saturate,
}

/// A shape and a profile that fit each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    shape: Shape,
    profile: Profile,
    scale: f64,
    slopes: Option<Vec<f32>>,
}

impl Spec {
    /// Checks every field.
    ///
    /// # Errors
    /// [`SpecError`] names the first field at fault: a size of zero, query heads that are no multiple of the KV
    /// heads, a number out of range, a list without exactly one entry per query head.
    pub fn new(shape: Shape, profile: Profile) -> Result<Spec, SpecError> {
        check_shape(&shape)?;
        check_numbers(&profile)?;
        let slopes = match &profile.alibi {
            Alibi::None => None,
            Alibi::Formula => Some(alibi_slopes(shape.q_heads)),
            Alibi::Slopes(slopes) => Some(slopes.clone()),
        };
        for (field, list) in [("alibi.slopes", &slopes), ("sinks", &profile.sinks)] {
            if let Some(list) = list {
                check_per_head(field, list, shape.q_heads)?;
            }
        }
        let scale = match profile.scale {
            Scale::InvSqrtD => f64::from((1.0 / (shape.d as f64).sqrt()) as f32),
            Scale::Explicit(scale) => f64::from(scale),
        };
        Ok(Spec { shape, profile, scale, slopes })
    }

    /// The sizes.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The conventions.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The factor on `q . k`: exactly the f32 that a kernel is given.
    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// The ALiBi slope of each query head, `None` without ALiBi.
    pub fn slopes(&self) -> Option<&[f32]> {
        self.slopes.as_deref()
    }

    /// The sink logit of query head `h`, `None` without sinks.
    pub(crate) fn sink(&self, h: usize) -> Option<f64> {
        self.profile.sinks.as_ref().map(|sinks| f64::from(sinks[h]))
    }
}

fn check_shape(shape: &Shape) -> Result<(), SpecError> {
    let sizes = [("q_heads", shape.q_heads), ("kv_heads", shape.kv_heads), ("d", shape.d), ("dv", shape.dv)];
    for (field, size) in sizes {
        if size == 0 {
            return Err(SpecError::Zero { field });
        }
    }
    if !shape.q_heads.is_multiple_of(shape.kv_heads) {
        return Err(SpecError::Heads { q_heads: shape.q_heads, kv_heads: shape.kv_heads });
    }
    Ok(())
}

fn check_numbers(profile: &Profile) -> Result<(), SpecError> {
    let in_range = |field, value: f32, ok: bool, range| {
        if ok { Ok(()) } else { Err(SpecError::Value { field, value, range }) }
    };
    if let Scale::Explicit(scale) = profile.scale {
        in_range("scale", scale, scale.is_finite(), "finite")?;
    }
    if let Some(cap) = profile.softcap {
        in_range("softcap", cap, cap.is_normal() && cap > 0.0, "finite and above 0")?;
    }
    if let PRounding::E4m3 { scale } = profile.p_rounding {
        in_range("p_rounding.scale", scale, scale > 0.0 && scale <= 448.0, "above 0 and at most 448")?;
    }
    Ok(())
}

fn check_per_head(field: &'static str, list: &[f32], q_heads: usize) -> Result<(), SpecError> {
    if list.len() != q_heads {
        return Err(SpecError::PerHead { field, expected: q_heads, found: list.len() });
    }
    match list.iter().find(|value| !value.is_finite()) {
        Some(&value) => Err(SpecError::Value { field, value, range: "finite" }),
        None => Ok(()),
    }
}
