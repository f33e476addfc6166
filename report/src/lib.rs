//! What is said: result rows and their renderers.
//!
//! Plain data only: nothing here knows a GPU, a layout or a kernel. [`read`] and [`write_line`] move rows from and
//! to JSON lines; [`Summary`] counts them; `text`, `markdown`, `html` and `junit` render them.

mod environment;
mod evidence;
mod format;
mod grid;
pub mod html;
pub mod junit;
pub mod kill;
pub mod markdown;
pub mod model;
pub mod summary;
pub mod svg;
mod target;
pub mod text;

pub use evidence::repro;
pub use model::{
    Adapter, Class, Counts, Diagnosis, Guess, Num, Over, Predicted, ReadError, Reads, Row, RowKey, Status,
    Touched, Worst, read, write_line,
};
pub use summary::{PLANTED, Summary, Verdict};
