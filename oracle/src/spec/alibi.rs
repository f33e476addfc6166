//! ALiBi slopes, one per query head.

/// The linear position bias.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Alibi {
    /// No bias.
    #[default]
    None,
    /// The slopes of [`alibi_slopes`].
    Formula,
    /// These slopes, one finite number per query head.
    Slopes(Vec<f32>),
}

/// The slopes of BLOOM, one per query head, each rounded to f32.
///
/// With `n` the largest power of two not above `q_heads`: `2^(-8 (h + 1) / n)` for `h < n`, and
/// `2^(-4 (2 (h - n) + 1) / n)` for the rest. Source: Press, Smith, Lewis, "Train short, test long", 2022, and the
/// extension to other head counts in BLOOM, as in vLLM's `_get_alibi_slopes`.
pub fn alibi_slopes(q_heads: usize) -> Vec<f32> {
    let Some(log) = q_heads.checked_ilog2() else { return Vec::new() };
    let n = 1_usize << log;
    let exponent = |h: usize| {
        if h < n { -8.0 * (h + 1) as f64 / n as f64 } else { -4.0 * (2 * (h - n) + 1) as f64 / n as f64 }
    };
    (0..q_heads).map(|h| libm::exp2(exponent(h)) as f32).collect()
}
