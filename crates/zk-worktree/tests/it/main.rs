//! Copies of repositories, and their changes.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail by panicking")]

mod copies;
