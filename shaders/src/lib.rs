//! How attention runs: WGSL kernels on any wgpu adapter, and their CPU twin.
//!
//! One attention core (`wgsl/attention.wgsl`) is joined with one address file per KV layout, one decoder per number
//! format and a probe that counts loads or does not ([`compose`]). The [`cpu`] twin does the same addressing in Rust
//! over the same bytes, so that the whole path also runs with no driver at all. [`fault`] is a library of wrong kernels,
//! for both.

pub mod abi;
pub mod calibrate;
pub mod compose;
pub mod cpu;
pub mod device;
pub mod dispatch;
pub mod fault;
pub mod results;
