//! Recorded sessions of many shapes, replayed as events and through the loop, and changes that are found.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of tests fail by panicking"
)]

mod changes;
mod packs;
mod sessions;
mod support;
