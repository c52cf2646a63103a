//! Transports to a server: a program's standard streams, and HTTP.

#[cfg(feature = "http")]
pub(crate) mod authorised_client;
#[cfg(feature = "http")]
pub(crate) mod event_bytes;
#[cfg(feature = "http")]
pub(crate) mod event_stream;
#[cfg(feature = "http")]
pub(crate) mod http_endpoint;
#[cfg(feature = "http")]
pub(crate) mod post;
#[cfg(feature = "http")]
pub(crate) mod response_filter;
pub(crate) mod sent_tools;
pub(crate) mod stdio;
pub(crate) mod value_limits;
