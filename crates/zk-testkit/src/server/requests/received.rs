use bytes::Bytes;
use serde_json::Value;

use crate::rules::Violation;

/// Received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// Number among the model requests, from 1; `None` for model lists and token counts.
    pub number: Option<usize>,
    /// HTTP method.
    pub method: String,
    /// Path of the URL.
    pub path: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Raw body.
    pub body: Bytes,
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Rule that the request broke, if any.
    pub violation: Option<Violation>,
}

impl Received {
    /// Body as JSON; null if it is invalid.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// First header called `name`, which has to be in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
