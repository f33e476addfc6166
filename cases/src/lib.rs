//! What is asked: conformance cases, lifecycle scripts and seeded inputs.
//!
//! A [`Case`] is a shape, an attention profile, number formats and a lifecycle script (prefill,
//! append, fork, free, ...). [`replay`](replay::replay) turns it into dense logical Q, K and V by deep
//! copies; it knows nothing of blocks or slots, so a fault of a KV manager cannot hide in it.
//! [`Content`] gives the element codes and scales a manager's tokens must be written with.
//!
//! Where to look: [`catalogue`] the thirty cases and the extra family, [`script`] the verbs,
//! [`fill`] what K and V hold, [`query`] which keys the queries aim at, [`select`] filters,
//! [`trace`] real request traces as cases.

pub mod case;
pub mod catalogue;
pub mod fill;
pub mod hash;
pub mod id;
pub mod query;
pub mod replay;
pub mod script;
pub mod select;
pub mod tiers;
pub mod trace;

pub use case::{Case, CaseError, Family};
pub use fill::{Content, FillKind, SUITE, TokenRow};
pub use replay::{Check, CheckRow, Replay, Walk};
pub use script::{Op, Script, ScriptError, parse_script};
pub use select::{Filter, FilterError};
pub use tiers::Tier;
