//! Tests of the memory on real files, and of its gate in the real loop.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, and read variables"
)]

mod faults;
mod injections;
#[cfg(feature = "embeddings")]
mod meaning;
mod memory_files;
mod recall;
mod rig;
mod store;
mod turns;
