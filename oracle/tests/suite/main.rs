//! Tests of the oracle against second implementations, hand-solved cases and simulated kernels.

mod agreement;
mod analytic;
mod bound_sense;
mod codec;
mod fault_schedule;
mod faults;
mod inputs;
mod scenes;
mod soundness;
mod spec;
mod stat;
mod verdict;
