use serde_json::Value;

/// Failure to read or write a conversation. No content is dropped silently instead.
///
/// ```
/// use serde_json::json;
/// use zk_core::model::ModelRef;
/// use zk_providers::formats::Format;
///
/// let messages = json!([{"role": "user", "content": [{"type": "text"}]}]);
/// let error = Format::AnthropicMessages.read(&messages, &ModelRef::new("anthropic", "claude")).unwrap_err();
/// assert_eq!(error.to_string(), "`messages[0].content[0].text` should be a text and is missing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The value is not of the kind that the format requires.
    #[error("`{path}` should be {expected} and is {found}")]
    Unexpected {
        /// Path of the value, such as `messages[3].content[1].text`. A list without a body is called
        /// `messages` too.
        path: String,
        /// Description of the expected value.
        expected: String,
        /// Description of the actual value.
        found: String,
    },
    /// The format allows the value, but a history cannot represent it.
    #[error("`{path}` cannot be kept in a history: {reason}")]
    Unsupported {
        /// Path of the value, such as `messages[3].content[1].source`.
        path: String,
        /// Cause of the failure, and the alternative.
        reason: String,
    },
    /// The field is unknown and not empty.
    #[error("`{path}` is not a field that can be kept in a history: take it out if nobody needs it")]
    Unknown {
        /// Path of the field.
        path: String,
    },
    /// The conversation cannot be serialised as JSON.
    #[error("the conversation cannot be written: {reason}")]
    Unwritable {
        /// Cause of the failure.
        reason: String,
    },
}

impl FormatError {
    /// Returns the path of the invalid value; `None` for a failure to write.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Unexpected { path, .. } | Self::Unsupported { path, .. } | Self::Unknown { path } => {
                Some(path)
            }
            Self::Unwritable { .. } => None,
        }
    }
}

/// Describes a value in a few words.
pub(super) fn describe_value(value: &Value) -> String {
    /// Length limit of a quoted text in characters.
    const MAX_TEXT_CHARS: usize = 40;
    match value {
        Value::Null => "missing".to_owned(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Number(number) => format!("`{number}`"),
        Value::String(text) if text.chars().count() > MAX_TEXT_CHARS => "another text".to_owned(),
        Value::String(text) => format!("`{}`", text.escape_debug()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
