//! Placeholder during construction.
