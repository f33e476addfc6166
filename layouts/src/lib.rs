//! Where the bytes live: one KV manager, five layouts of its state, the packed pools and the reads a kernel must make.
//!
//! * [`kind`] names the five layouts.
//! * [`manager`] owns blocks, references, the free queue and the prefix index; a layout only decides *which* block.
//! * [`tables`] lowers the manager's state to the words a kernel reads, [`span`] holds the records of the span layouts.
//! * [`pack`] is the physical store: encoded rows, poison and guards.
//! * [`fault`] is a library of managers, tables and stores that are wrong on purpose.
//! * [`launch`] describes one kernel run in logical terms, [`traffic`] predicts its reads from that alone.

pub mod fault;
pub mod kind;
pub mod launch;
pub mod manager;
pub mod pack;
pub mod span;
pub mod tables;
pub mod traffic;
