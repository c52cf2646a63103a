use bytes::Bytes;
use serde_json::Value;

use crate::rules::Violation;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Number of the request among those for an answer, from 1; nothing for lists of models and token counts.
    pub number: Option<usize>,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Bytes,
    /// The status it was answered with, if it was answered.
    pub status: Option<u16>,
    /// The rule it broke.
    pub violation: Option<Violation>,
}

impl Received {
    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The first header called `name`, in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
