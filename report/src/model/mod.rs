//! What a run found: one row per case, layout and kernel, as plain data.
//!
//! JSON lines are the source of truth; every renderer of this crate is a pure function of rows.

mod diagnosis;
mod lines;
mod num;
mod reads;
mod row;
mod status;

pub use diagnosis::{Diagnosis, Guess};
pub use lines::{ReadError, read, write_line};
pub use num::Num;
pub use reads::{Predicted, Reads, Touched};
pub use row::{Acceptance, Adapter, Counts, Over, Row, RowKey, Worst};
pub use status::{Class, Status};
