//! Model providers for zk: wire dialects, streaming, retry, watchdog, usage.
//!
//! | module or type | what it is |
//! |---|---|
//! | [`Anthropic`] | the Messages API |
//! | [`Compat`] | Chat Completions, with a [`CompatProfile`] of data for each kind of server |
//! | [`Responses`] | OpenAI's Responses API, and what imitates it |
//! | [`Gemini`] | the API of Google's Gemini, on the developer service and on Vertex |
//! | [`Ollama`] | the native API of Ollama |
//! | [`Vendor`] | the services and servers known by name: [`VENDORS`] |
//! | [`Connection`] | where a provider is and what it is shown: the same for every dialect |
//! | [`Retrying`] | a decorator that sends a failed request again, and one limit for everybody who uses it |
//! | [`Clocks`] | how long a response may keep its reader waiting |
//! | [`Replay`] | a dialect's reading of recorded bytes, without a network |
//! | [`formats`] | conversations of other programs, read and written |
//! | [`auth`] | keys, the credential store, signing in with OAuth |
//! | [`Http`] | the HTTP clients, made late and shared |
//! | [`sse`] | the decoder of event streams, with no I/O of its own |
//!
//! # What this crate must never know
//!
//! The loop, the tools, the sessions and the settings files. It reads no environment, prints nothing, keeps
//! no key in anything that can be shown, and never changes a history: what it sends is a
//! [`WireReady`](zk_core::model::WireReady), as it is.

mod anthropic;
mod args;
pub mod auth;
mod catalogue;
mod chat;
mod clocks;
mod connection;
mod documents;
mod effort;
mod endpoint;
mod exchange;
mod extra;
mod fault;
pub mod formats;
mod frames;
mod gemini;
mod http;
mod ollama;
mod once_more;
mod opaque;
mod output;
mod prefix;
mod replay;
mod responses;
mod retry;
mod schema;
mod secret;
pub mod sse;
mod text;
mod tiers;
mod vendor;
mod weight;

pub use anthropic::{Anthropic, AnthropicOptions, CacheTtl};
pub use catalogue::{
    Override, Overrides, Shutdown, known_efforts, known_model, known_models, known_providers, known_shutdown,
    near_matches,
};
pub use chat::{
    CacheMarks, Compat, CompatProfile, EchoRule, EmptyContent, FieldValue, FixedField, JsonSchemas,
    ModelPattern, PROFILES, PatternError, ReasoningEcho, ReasoningFormat, SystemRole, ToolChoices,
};
pub use clocks::Clocks;
pub use connection::Connection;
pub use effort::Efforts;
pub use endpoint::SetupError;
pub use gemini::Gemini;
pub use http::Http;
pub use ollama::{Ollama, OllamaOptions};
pub use replay::Replay;
pub use responses::{Responses, ResponsesBackend, ResponsesOptions};
pub use retry::{Limits, RetryPolicy, Retrying};
pub use secret::{Auth, Secret};
pub use vendor::{Access, Speaks, VENDORS, Vendor};
