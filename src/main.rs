//! Placeholder during construction.
fn main() {}
