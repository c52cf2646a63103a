//! The provider tests: real sockets, recorded traffic, injected faults.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "a test fails by panicking, and says what it counted"
)]

mod adaptive;
mod anthropic_hosted;
mod anthropic_settings;
mod anthropic_thinking;
mod anthropic_usage;

mod breakage;
mod cache_marks;
mod chat_histories;
mod collect;
mod connections;
mod corpus;
mod echoed_secrets;
mod endless;
mod extra_body;
mod fault_matrix;
mod faults;
mod fixtures;
mod formats;
mod gaps;
mod gemini_requests;
mod lists;
mod media;
mod ollama_requests;
mod outputs;
mod overrides;
mod own_dialect;
mod own_ids;
mod promises;
mod quirks;
mod quotas;
mod real;
mod recordings;
mod requests;
mod responses;
mod responses_requests;
mod rows;
mod run_updates;
#[cfg(test)]
mod selection;
mod server;
mod signed_in;
mod switching;
mod tiers;
mod too_long;
mod vendor_answers;
mod vendor_quirks;
mod vendors;
