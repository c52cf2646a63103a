//! Names of headers and fields that depend on the vendor.

/// Response headers with the provider's id of a request; the first one present counts.
pub(crate) const REQUEST_IDS: &[&str] =
    &["request-id", "x-request-id", "x-generation-id", "mistral-correlation-id"];

/// Request header with the account, for the back end of ChatGPT subscriptions.
pub(crate) const SUBSCRIPTION_ACCOUNT: &str = "chatgpt-account-id";

/// Further headers of every request to the back end of ChatGPT subscriptions.
pub(crate) const SUBSCRIPTION_HEADERS: &[(&str, &str)] =
    &[("originator", "zk"), ("openai-beta", "responses=experimental")];

/// Vendor-specific fields of the last chunk of a Chat Completions stream, whose token counts are nested one
/// level deeper than usual.
pub(crate) const OWN_COUNTS: &[&str] = &["x_groq"];
