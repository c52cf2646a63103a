//! Model providers for zk: wire dialects, streaming, watchdog, usage.
//!
//! | module or type | what it is |
//! |---|---|
//! | [`Anthropic`] | the Messages API |
//! | [`Compat`] | Chat Completions, with a [`CompatProfile`] of data for each kind of server |
//! | [`Responses`] | OpenAI's Responses API, and what imitates it |
//! | [`Gemini`] | the API of Google's Gemini, on the developer service and on Vertex |
//! | [`Ollama`] | the native API of Ollama |
//! | [`Vendor`], [`Vendors`] | the services and servers known by name: [`VENDORS`], and those of other crates |
//! | [`Connection`] | where a provider is and what it is shown: the same for every dialect |
//! | [`Clocks`] | how long a response may keep its reader waiting |
//! | [`Replay`] | a dialect's reading of recorded bytes, without a network |
//! | [`formats`] | conversations of other programs, read and written |
//! | [`select`] | the provider, the credential and the model that a program talks to |
//! | [`Auth`], [`Secret`], [`TokenSource`] | what a request shows: a key, or the token of a sign-in of [`zk_auth`] |
//! | [`Http`] | the HTTP clients of [`zk_auth`], made late and shared |
//! | [`sse`] | the decoder of event streams, with no I/O of its own |
//!
//! # Example
//!
//! `cargo run -p zk-providers --example ask`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/ask.rs")]
#![doc = "```"]
//!
//! # Where things are
//!
//! | wing | what is in it |
//! |---|---|
//! | `wire` | connections, event streams, time-outs, errors: the same for every dialect |
//! | `encode` | what dialects share in writing requests and reading answers |
//! | `catalogue` | vendors, models, profiles, service tiers, meanings of errors: data |
//! | `dialects` | the protocols |
//! | [`formats`] | conversations of other programs |
//! | [`select`] | which provider, with which key, for which model |
//!
//! # What this crate must never know
//!
//! The loop, the tools, the sessions and the settings files. It reads no environment, prints nothing, keeps
//! no key in anything that can be shown, and never changes a history: what it sends is a
//! [`WireReady`](zk_core::model::WireReady), as it is.

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
