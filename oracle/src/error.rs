//! Errors of the oracle: each names the field or the tensor at fault.

use thiserror::Error;

/// A shape or a profile that stands for no attention.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    /// A size of the shape is zero.
    #[error("shape.{field} is 0, must be at least 1")]
    Zero {
        /// The field of [`Shape`](crate::Shape).
        field: &'static str,
    },
    /// Query heads do not divide evenly among KV heads.
    #[error("shape.q_heads is {q_heads}, not a multiple of shape.kv_heads, which is {kv_heads}")]
    Heads {
        /// Query heads.
        q_heads: usize,
        /// KV heads.
        kv_heads: usize,
    },
    /// A number of the profile is out of its range.
    #[error("profile.{field} is {value}, must be {range}")]
    Value {
        /// The field of [`Profile`](crate::Profile).
        field: &'static str,
        /// The offending value.
        value: f32,
        /// What is allowed, in words.
        range: &'static str,
    },
    /// A list with one entry per query head has another length.
    #[error("profile.{field} has {found} entries, must have one per query head: {expected}")]
    PerHead {
        /// The field of [`Profile`](crate::Profile).
        field: &'static str,
        /// The number of query heads.
        expected: usize,
        /// The length of the list.
        found: usize,
    },
}

/// Inputs that do not fit the spec or each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OracleError {
    /// A tensor has another shape than the spec and the other tensors ask for.
    #[error("{tensor} has shape {found:?}, expected {expected:?} in the order {axes}")]
    Shape {
        /// `k`, `v`, `q`, `mask` or `o`.
        tensor: &'static str,
        /// The axes in order.
        axes: &'static str,
        /// What was expected.
        expected: Vec<usize>,
        /// What was found.
        found: Vec<usize>,
    },
}
