//! Names of headers.

/// Headers that hold the provider's id of a request, the first that is there counts.
pub(crate) const REQUEST_IDS: &[&str] =
    &["request-id", "x-request-id", "x-generation-id", "mistral-correlation-id"];

/// The request header that says to the back end of subscriptions which account asks.
pub(crate) const SUBSCRIPTION_ACCOUNT: &str = "chatgpt-account-id";

/// What every request to the back end of subscriptions has besides.
pub(crate) const SUBSCRIPTION: &[(&str, &str)] =
    &[("originator", "zk"), ("openai-beta", "responses=experimental")];
