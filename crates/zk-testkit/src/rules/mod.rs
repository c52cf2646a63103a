//! Rules by which providers reject requests, as pure functions of a request.
//!
//! [`check`] validates a request body as its provider would, [`check_wire`] a history before it reaches an
//! adapter. Neither shares code with the normaliser or an adapter, so these can be tested against them.
//! [`FakeServer`](crate::FakeServer) answers violations with status 400.

mod anthropic;
mod chat;
mod format;
mod gemini;
mod ollama;
mod responses;
mod strictness;
mod wire;

use serde_json::Value;

#[cfg(feature = "server")]
pub(crate) use gemini::{SIGNED, generation};
pub use strictness::{Reasoning, Strictness};
pub use wire::check_wire;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Responses, in the variant of the back end for ChatGPT subscriptions.
    Codex,
    /// Ollama's native API.
    Ollama,
    /// Google's Gemini. The model, which a request has in its path, is expected in the body's `model`.
    Gemini,
}

/// Reason why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// Broken rule.
    pub rule: Rule,
    /// Message as the provider words it, with the position in the request.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, message: impl Into<String>) -> Self {
        Self { rule, message: message.into() }
    }
}

/// Rule that a request can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A value has the wrong form.
    Shape,
    /// `model` is missing.
    NoModel,
    /// `max_tokens` is missing.
    NoMaxTokens,
    /// There are no messages.
    NoMessages,
    /// An unknown role, or one at the wrong position.
    Role,
    /// The first message is not the user's.
    FirstNotUser,
    /// The last message is not the user's or a tool's.
    LastNotUser,
    /// Two messages of one role in a row.
    SameRole,
    /// A message without content.
    EmptyMessage,
    /// An empty text.
    EmptyText,
    /// A call without a result directly after it.
    UnansweredCall,
    /// A result without a call directly before it.
    OrphanResult,
    /// A second result of the same call.
    DuplicateResult,
    /// A result after other content in its message.
    ResultsNotFirst,
    /// An id used twice.
    DuplicateId,
    /// An id the provider does not accept.
    IllegalId,
    /// Call arguments that are not an object.
    Arguments,
    /// An illegal tool name.
    ToolName,
    /// A bad tool declaration.
    ToolSchema,
    /// Calls or results in the history and no tools declared.
    ToolsMissing,
    /// A tool choice that cannot be met.
    ToolChoice,
    /// An image or a document where none is accepted.
    Media,
    /// An image or a document in a failed result.
    MediaInError,
    /// Thinking that may not be sent, or only with the content after it.
    Thinking,
    /// A thinking signature or item id of another model or for other content.
    Proof,
    /// Contradictory thinking parameters.
    ThinkingParams,
    /// Too many cache markers.
    TooManyCacheMarkers,
    /// A cache marker where none is accepted.
    CacheMarker,
    /// A parameter out of range, or in an invalid combination.
    Parameter,
    /// An invalid output schema, or one in an invalid combination.
    Output,
    /// A NUL character, which some back ends cannot store.
    Nul,
    /// Provider data of another model, or an unknown kind of block.
    Foreign,
}

/// Checks a request body as the first-party API of `dialect` does.
///
/// ```
/// use serde_json::json;
/// use zk_testkit::rules::{self, Dialect, Rule};
///
/// let body = json!({"model": "m", "max_tokens": 10, "messages": [{"role": "assistant", "content": "hi"}]});
/// assert_eq!(rules::check(Dialect::Anthropic, &body).unwrap_err().rule, Rule::FirstNotUser);
/// ```
///
/// # Errors
/// The first [`Violation`].
pub fn check(dialect: Dialect, body: &Value) -> Result<(), Violation> {
    check_with(&Strictness::of(dialect), body)
}

/// Checks a request body as a provider of this strictness does.
///
/// # Errors
/// The first [`Violation`].
pub fn check_with(strictness: &Strictness, body: &Value) -> Result<(), Violation> {
    if has_nul(body) {
        return Err(Violation::new(
            Rule::Nul,
            "unsupported Unicode escape sequence: \\u0000 cannot be converted",
        ));
    }
    match strictness.dialect {
        Dialect::Anthropic => anthropic::check(strictness, body),
        Dialect::Chat => chat::check(strictness, body),
        Dialect::Responses | Dialect::Codex => responses::check(strictness, body),
        Dialect::Gemini => gemini::check(strictness, body),
        Dialect::Ollama => ollama::check(strictness, body),
    }
}

type Checked<T = ()> = Result<T, Violation>;

fn reject<T>(rule: Rule, message: impl Into<String>) -> Checked<T> {
    Err(Violation::new(rule, message))
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(key, field)| key.contains('\0') || has_nul(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Image types that most providers accept.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Whether the content of a `data:` URL is an image, judged by its type and its bytes.
fn is_image((media_type, data): (&str, &str)) -> bool {
    IMAGES.contains(&media_type) && !data.is_empty()
}

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}
