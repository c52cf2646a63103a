//! The test kit, used as its users use it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod client;
mod clock;
mod conformance;
mod faults;
mod formats;
mod gemini;
mod gemini_rules;
mod ollama;
mod ollama_rules;
mod provider;
mod recorder;
mod responses;
mod responses_rules;
mod rules;
mod server;
mod vendors;
mod wire;
