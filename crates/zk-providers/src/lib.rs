//! Model providers for zk: wire dialects, streaming, watchdog, usage.
//!
//! | module or type | what it is |
//! |---|---|
//! | [`Anthropic`] | the Messages API |
//! | [`Compat`] | Chat Completions, with a [`CompatProfile`] of data for each kind of server |
//! | [`Responses`] | OpenAI's Responses API, and compatible servers |
//! | [`Gemini`] | the API of Google's Gemini, on the developer service and on Vertex |
//! | [`Ollama`] | the native API of Ollama |
//! | [`Vendor`], [`Vendors`] | the services and servers known by name: [`VENDORS`], and those of other crates |
//! | [`Connection`] | base URL, credential and options of a provider, for every dialect |
//! | [`Clocks`] | time limits for parts of a response |
//! | [`Replay`] | decoding of recorded responses without a network |
//! | [`formats`] | reads and writes conversations of other programs |
//! | [`select`] | selection of the provider, the credential and the model |
//! | [`Auth`], [`Secret`], [`TokenSource`] | credentials of requests: keys, or sign-in tokens of [`zk_auth`] |
//! | [`Http`] | shared HTTP clients of [`zk_auth`], created on first use |
//! | [`sse`] | decoder of server-sent events without I/O |
//!
//! # Example
//!
//! `cargo run -p zk-harness-providers --example ask`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/ask.rs")]
#![doc = "```"]
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `wire` | connections, event streams, time-outs, errors, shared by all dialects |
//! | `encode` | helpers shared by dialects for requests and answers |
//! | `catalogue` | data on vendors, models, profiles, service tiers, errors |
//! | `dialects` | the protocols |
//! | [`formats`] | conversations of other programs |
//! | [`select`] | selection of the provider, the credential and the model |
//!
//! # What this crate must never know
//!
//! The agent loop, the tools, the sessions and the settings files. This crate reads no environment, prints
//! nothing, keeps no key in anything that can be displayed, and never changes a history: it sends a
//! [`WireReady`](zk_core::model::WireReady) unchanged.

mod catalogue;
mod dialects;
mod encode;
pub mod formats;
pub mod select;
#[cfg(feature = "settings")]
pub mod settings;
pub mod wire;

pub use catalogue::models::{
    Override, Overrides, ResolvedModel, Shutdown, known_efforts, known_model, known_models, known_providers,
    known_shutdown, near_matches, resolve_model,
};
pub use catalogue::profiles::{
    CacheMarks, CompatProfile, EchoRule, EmptyContent, FieldValue, FixedField, JsonSchemas, ModelPattern,
    PROFILES, PatternError, ReasoningEcho, ReasoningFormat, SystemRole, ToolChoices,
};
pub use catalogue::purposes::purpose;
pub use catalogue::smaller::smaller_model;
pub use catalogue::vendors::{
    Access, MakeProvider, VENDOR_VARIABLES, VENDORS, Vendor, VendorDialect, VendorVariable, Vendors,
    subscription_sign_in,
};
pub use dialects::anthropic::{Anthropic, AnthropicOptions, CacheTtl};
pub use dialects::chat::Compat;
pub use dialects::gemini::Gemini;
pub use dialects::ollama::{Ollama, OllamaOptions};
pub use dialects::responses::{Responses, ResponsesBackend, ResponsesOptions};
pub use encode::compact_at::CompactAt;
pub use encode::effort::Efforts;
pub use wire::connection::Connection;
pub use wire::endpoint::SetupError;
pub use wire::replay::Replay;
pub use wire::response::timeouts::Clocks;
pub use wire::secret::Auth;
pub use wire::sse;
pub use zk_auth::{Http, Secret, TokenSource};
