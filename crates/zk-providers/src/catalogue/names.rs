//! Names of headers and fields.

/// Headers that hold the provider's id of a request, the first that is there counts.
pub(crate) const REQUEST_IDS: &[&str] =
    &["request-id", "x-request-id", "x-generation-id", "mistral-correlation-id"];

/// The request header that says to the back end of subscriptions which account asks.
pub(crate) const SUBSCRIPTION_ACCOUNT: &str = "chatgpt-account-id";

/// Headers that every request to the back end of subscriptions has besides.
pub(crate) const SUBSCRIPTION_HEADERS: &[(&str, &str)] =
    &[("originator", "zk"), ("openai-beta", "responses=experimental")];

/// Fields of a vendor's own in which the last chunk of a Chat Completions stream counts tokens, one level deeper than
/// where the others do.
pub(crate) const OWN_COUNTS: &[&str] = &["x_groq"];
