//! Tests of the WGSL kernels on a real adapter and of their CPU twin, through the public interface of the crate.
//!
//! They need an adapter; a software one such as Mesa's lavapipe is enough.

mod adapters;
mod agreement;
mod batch;
mod corrupt;
mod decoders;
mod faults;
mod limits;
mod machine;
mod outputs;
mod pipelines;
mod random;
mod uniforms;
