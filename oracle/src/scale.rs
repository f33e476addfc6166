//! Scales of quantised K and V: how finely they are given, and how one is chosen.
//!
//! A stored code `c` stands for `decode(c) * scale`; K and V have separate scales.

use crate::elem::Elem;

/// What shares one scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Granularity {
    /// No scale: codes stand for themselves.
    #[default]
    None,
    /// One scale for the whole tensor.
    Tensor,
    /// One scale per KV head.
    Head,
    /// One scale per block and KV head.
    Block,
    /// One scale per token and KV head.
    Token,
}

impl Granularity {
    /// Every granularity, in the order of [`Granularity::code`].
    pub const ALL: [Granularity; 5] =
        [Granularity::None, Granularity::Tensor, Granularity::Head, Granularity::Block, Granularity::Token];

    /// The number of the granularity, 0 to 4 in the order of [`Granularity::ALL`].
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The name, such as `block`.
    pub const fn name(self) -> &'static str {
        match self {
            Granularity::None => "none",
            Granularity::Tensor => "tensor",
            Granularity::Head => "head",
            Granularity::Block => "block",
            Granularity::Token => "token",
        }
    }

    /// The granularity with this [`name`](Granularity::name), if there is one.
    pub fn parse(name: &str) -> Option<Granularity> {
        Granularity::ALL.into_iter().find(|granularity| granularity.name() == name)
    }
}

/// The room that a block's scale leaves for tokens louder than its first.
const BLOCK_HEADROOM: f64 = 4.0;

/// The scale of a block, fixed when its first token is written: four times that token's largest magnitude fills
/// the format; later tokens may be up to four times as loud before they saturate. 1 where that would be zero.
pub fn block_scale(first_token_absmax: f64, elem: Elem) -> f32 {
    token_scale(BLOCK_HEADROOM * first_token_absmax, elem)
}

/// The scale of one token: its largest magnitude becomes the largest finite value. 1 where that would be zero.
pub fn token_scale(absmax: f64, elem: Elem) -> f32 {
    let scale = (absmax / elem.max_finite()) as f32;
    if scale == 0.0 { 1.0 } else { scale }
}
