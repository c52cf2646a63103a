//! How a request gets to a server and its response back, the same for every dialect: HTTP clients, connections,
//! the decoder of event streams, time-outs, errors, retries.

pub(crate) mod caps;
pub(crate) mod client;
pub(crate) mod clocks;
pub(crate) mod connection;
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod replay;
pub(crate) mod resend;
pub(crate) mod retry;
pub(crate) mod secret;
pub mod sse;
