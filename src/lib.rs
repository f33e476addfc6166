//! The harness: takes cases through the KV manager into every layout, runs kernels, judges them and reports.
//!
//! [`runner`] takes one case from its script to result rows; [`kernel`] is what can be judged; [`select`] is what is
//! asked; [`sweep`] looks for false alarms; [`cli`] is the command line.

pub mod cli;
pub mod exit;
pub mod kernel;
pub mod runner;
pub mod select;
pub mod sweep;
