//! Copies of repositories, and their changes.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

mod bounds;
mod copies;
mod kept;
