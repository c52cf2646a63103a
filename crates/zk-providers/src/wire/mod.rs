//! Transport of requests and responses, shared by all dialects.
//!
//! Implement [`Dialect`] for a protocol that zk does not support: it writes requests, and its [`Decode`]
//! reads responses. [`HttpProvider`] makes a provider of it.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod dialect;
pub(crate) mod embeddings;
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod provider;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod secret;
pub(crate) mod streaming;

pub use crate::encode::args::tool_call;
pub use client::ApiClient;
pub use dialect::{Attempt, CountRequest, Dialect, ModelList};
pub use endpoint::BaseUrl;
pub use error::WireError;
pub use provider::HttpProvider;
pub use request::{Headers, WireRequest};
pub use response::decode::{Decode, Framing};
pub use response::sse;
