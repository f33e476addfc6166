//! The built command, driven from outside: exit codes, result rows, reports and errors.
//!
//! One test binary, so that all tests share one full run. An adapter is required: without one the tests fail and name
//! `tests/run.sh`, which installs a software driver.

mod bad_input;
mod common;
mod diagnosis;
mod explain;
mod judging;
mod probes;
mod reports;
mod run;
mod selftest;
mod snapshots;
mod sweep;
mod trace;
mod user_cases;
