use serde_json::Value;

/// Failure to read or write a conversation. Nothing of the conversation is left out instead.
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
    /// Something else stands there than the format has there.
    #[error("`{path}` should be {expected} and is {found}")]
    Unexpected {
        /// Path, such as `messages[3].content[1].text`. A list without a body around it is `messages` too.
        path: String,
        /// Description of what has to stand there.
        expected: String,
        /// Description of what stands there.
        found: String,
    },
    /// The format has it, and a history has no place for it.
    #[error("`{path}` cannot be kept in a history: {reason}")]
    Unsupported {
        /// Path, such as `messages[3].content[1].source`.
        path: String,
        /// Cause of the failure, and what to do instead.
        reason: String,
    },
    /// A field that neither is known nor says nothing.
    #[error("`{path}` is not a field that can be kept in a history: take it out if nobody needs it")]
    Unknown {
        /// Path of the field.
        path: String,
    },
    /// The conversation cannot be written as JSON.
    #[error("the conversation cannot be written: {reason}")]
    Unwritable {
        /// Cause of the failure.
        reason: String,
    },
}

impl FormatError {
    /// Returns the path of the fault in the JSON; nothing for a failure to write.
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

/// A value in a few words.
pub(super) fn found(value: &Value) -> String {
    /// Longest text that is shown.
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
