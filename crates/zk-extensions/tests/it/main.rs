//! Programs that extend zk, as real processes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail by panicking")]

mod abilities;
mod backends;
mod faults;
mod life;
mod requests;
mod sdk;
mod support;
