//! Commands that take part in events, as real processes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail by panicking")]

mod command;
