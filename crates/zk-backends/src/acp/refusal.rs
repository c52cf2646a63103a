use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::peer::{INTERNAL, INVALID_PARAMS};

/// Error in the answer to a request of the agent.
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }
}

/// Reads the parameters of a request.
pub(crate) fn parse_params<T: DeserializeOwned>(params: Value) -> Result<T, Refusal> {
    serde_json::from_value(params).map_err(|error| Refusal::invalid(error.to_string()))
}
