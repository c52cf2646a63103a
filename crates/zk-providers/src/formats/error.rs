use serde_json::Value;

/// Why a conversation cannot be read or written. Nothing of it is left out instead.
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
        /// Where, such as `messages[3].content[1].text`. A list without a body around it is `messages` too.
        path: String,
        /// What has to stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// The format has it, and a history has no place for it.
    #[error("`{path}` cannot be kept in a history: {reason}")]
    Unsupported {
        /// Where, such as `messages[3].content[1].source`.
        path: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A field that neither is known nor says nothing.
    #[error("`{path}` is not a field that can be kept in a history: take it out if nobody needs it")]
    Unknown {
        /// Where.
        path: String,
    },
    /// The conversation cannot be written as JSON.
    #[error("the conversation cannot be written: {reason}")]
    Unwritable {
        /// Why.
        reason: String,
    },
}

impl FormatError {
    /// Where in the JSON it is; nothing for what is written.
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
    /// The most characters that are shown of a text.
    const LONGEST: usize = 40;
    match value {
        Value::Null => "missing".to_owned(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Number(number) => format!("`{number}`"),
        Value::String(text) if text.chars().count() > LONGEST => "another text".to_owned(),
        Value::String(text) => format!("`{}`", text.escape_debug()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
