//! Tests of the journal on real files.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, and read variables"
)]

mod fixtures;
mod full_disk;
mod git;
mod interleavings;
mod kept;
mod kill;
mod undo;
