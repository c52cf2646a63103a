//! The test kit, used as its users use it.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

mod provider;
mod recorder;
