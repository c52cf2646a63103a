//! Agents with scripted models in each protocol.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail by panicking")]

mod deferred;
mod inline;
mod lookup;
mod real_server;
mod reasoning;
mod support;
