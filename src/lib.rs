//! The harness: takes cases through the KV manager into every layout, runs kernels, judges them and reports.
//!
//! [`runner`] takes one case from its script to result rows; [`kernel`] is what can be judged; [`select`] is what is
//! asked; [`diagnose`] names the fault behind a failure; [`selftest`] asks whether wrong kernels and managers are caught,
//! [`sweep`] whether right kernels are accused; [`cli`] is the command line.

pub mod cli;
pub mod diagnose;
pub mod exit;
pub mod kernel;
pub mod runner;
pub mod select;
pub mod selftest;
pub mod sweep;
