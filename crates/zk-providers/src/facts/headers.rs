//! Names of response headers.

/// Headers that hold the provider's id of a request, the first that is there counts.
pub(crate) const REQUEST_IDS: &[&str] =
    &["request-id", "x-request-id", "x-generation-id", "mistral-correlation-id"];
