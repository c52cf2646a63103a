//! Tests of the journal on real files.

mod fixtures;
mod git;
mod interleavings;
mod undo;
