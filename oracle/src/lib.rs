//! What attention means: number formats, the profile of conventions, two independent f64 references, a
//! rigorous bound on what a low-precision kernel may return, and the verdict on one tensor.
//!
//! The crate knows nothing of block tables, layouts or GPUs. It sees dense logical Q, K and V in f64 (each value
//! exactly the one the stored bytes stand for) and says what the output is ([`mod@reference`]), how far a correct
//! kernel may be from it ([`mod@bound`]) and whether a given tensor is within that distance ([`mod@compare`]). For random
//! data there is a narrower bound ([`stat_bounds`]) and a score test ([`matched`]); what is wrong, [`mod@fault`] names.
//!
//! Same bits on every machine: exp, log and tanh come from the `libm` crate, sums run in a fixed order.

pub mod bound;
pub mod compare;
pub mod elem;
pub mod error;
pub mod fault;
pub mod reference;
mod rule;
pub mod scale;
pub mod second;
pub mod simulate;
pub mod spec;

pub use bound::{Bounds, Model, bounds, matched, stat_bounds};
pub use compare::{CompareError, Finding, Tensor, TensorVerdict, Worst, budget_used, compare};
pub use elem::{Elem, OutType, Saturate};
pub use error::{OracleError, SpecError};
pub use reference::{Answer, Row, attention};
pub use scale::{Granularity, block_scale, token_scale};
pub use spec::{
    Accum, Alibi, AlibiOrigin, BiasOrder, Causal, EmptyRow, HeadMap, LseBase, LseEmpty, NanSlots, PRounding,
    Profile, Scale, Shape, Spec, Window, alibi_slopes,
};
