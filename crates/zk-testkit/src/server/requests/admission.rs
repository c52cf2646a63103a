//! Admission of requests: key, model and rules.

use bytes::Bytes;
use hyper::Uri;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::route;
use crate::rules::{self, Dialect, Violation};
use crate::server::refusal::Refusal;
use crate::server::reply::Reply;
use crate::server::shared::Shared;

/// Received request.
pub(crate) struct Sent<'a> {
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    /// Number among the model requests; `None` for other requests.
    pub(crate) number: Option<usize>,
}

impl Sent<'_> {
    pub(crate) fn id(&self) -> usize {
        self.number.unwrap_or(0)
    }

    /// Value of the URL's parameter `name`.
    fn query(&self, name: &str) -> Option<&str> {
        let pairs = self.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Accepted request.
pub(crate) struct Admitted {
    /// Body with the model in it.
    pub(crate) json: Value,
    pub(crate) form: Form,
}

/// Form of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Stream,
    Whole,
    /// Whole response in a list: Gemini's form of a stream that was not requested as events.
    List,
}

impl Admitted {
    pub(crate) fn model(&self) -> &str {
        self.json.get("model").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Response before a turn of the script is used, such as an error or a token count.
pub(crate) struct Brief {
    pub(crate) reply: Reply,
    pub(crate) violation: Option<Violation>,
}

impl From<Reply> for Brief {
    fn from(reply: Reply) -> Self {
        Self { reply, violation: None }
    }
}

pub(crate) fn check_key(shared: &Shared, dialect: Dialect, sent: &Sent<'_>) -> Result<(), Reply> {
    let Some(key) = &shared.options.key else { return Ok(()) };
    let bearer = sent.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let (given, missing, wrong) = match dialect {
        Dialect::Ollama => (bearer, "unauthorized", "unauthorized"),
        Dialect::Gemini => (
            sent.header("x-goog-api-key").or(sent.query("key")),
            "Method doesn't allow unregistered callers (callers without established identity).",
            "API key not valid. Please pass a valid API key.",
        ),
        Dialect::Anthropic => {
            (sent.header("x-api-key").or(bearer), "x-api-key header is required", "invalid x-api-key")
        }
        Dialect::Codex => (
            bearer,
            "Unauthorized",
            "Could not parse your authentication token. Please try signing in again.",
        ),
        Dialect::Chat | Dialect::Responses => (
            bearer,
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer \
             auth.",
            "Incorrect API key provided. You can find your API key in your settings.",
        ),
    };
    match given {
        Some(given) if given == key => Ok(()),
        Some(_) if dialect == Dialect::Gemini => {
            Err(Refusal::new(dialect, 400, wrong).with_code(Some("API_KEY_INVALID")).reply(sent.id()))
        }
        None if dialect == Dialect::Gemini => Err(Refusal::new(dialect, 403, missing).reply(sent.id())),
        Some(_) => Err(Refusal::new(dialect, 401, wrong).reply(sent.id())),
        None => Err(Refusal::new(dialect, 401, missing).reply(sent.id())),
    }
}

pub(crate) fn check_model(
    shared: &Shared,
    dialect: Dialect,
    model: &str,
    sent: &Sent<'_>,
) -> Result<(), Reply> {
    let models = &shared.options.models;
    if models.is_empty() || models.iter().any(|known| known == model) {
        return Ok(());
    }
    let message = match dialect {
        Dialect::Ollama => format!("model '{model}' not found"),
        Dialect::Gemini => format!(
            "models/{model} is not found for API version v1beta, or is not supported for generateContent."
        ),
        Dialect::Anthropic => format!("model: {model}"),
        Dialect::Codex => {
            format!("The '{model}' model is not supported when using Codex with a ChatGPT account.")
        }
        Dialect::Chat | Dialect::Responses => {
            format!("The model `{model}` does not exist or you do not have access to it.")
        }
    };
    let refusal = match dialect {
        Dialect::Anthropic | Dialect::Chat | Dialect::Gemini | Dialect::Ollama => {
            Refusal::new(dialect, 404, &message)
        }
        Dialect::Codex => Refusal::new(dialect, 400, &message),
        // The two APIs of this vendor have different statuses here.
        Dialect::Responses => Refusal::new(dialect, 400, &message).with_code(Some("model_not_found")),
    };
    Err(refusal.reply(sent.id()))
}

/// Checks a request and returns its body.
pub(crate) fn admit(shared: &Shared, dialect: Dialect, sent: &Sent<'_>) -> Result<Admitted, Brief> {
    check_key(shared, dialect, sent)?;
    let reject = |message: &str| Refusal::new(dialect, 400, message).reply(sent.id());
    let refuse =
        |violation: Violation| Brief { reply: reject(&violation.message), violation: Some(violation) };
    if dialect == Dialect::Anthropic && !sent.headers.contains_key("anthropic-version") {
        return Err(reject("anthropic-version: header is required").into());
    }
    let mut json: Value = serde_json::from_slice(sent.body)
        .map_err(|error| reject(&format!("The request body is not valid JSON: {error}")))?;
    let form = complete_body(dialect, &mut json, sent);
    if let Some(strictness) = shared.options.strictness(dialect) {
        rules::check_with(&strictness, &json).map_err(refuse)?;
    }
    let admitted = Admitted { json, form };
    let (json, model) = (&admitted.json, admitted.model());
    check_model(shared, dialect, model, sent)?;
    if shared.options.strictness(dialect).is_some_and(|strictness| strictness.own_proofs) {
        shared.log().ledger.check_tokens(dialect, model, json).map_err(refuse)?;
    }
    Ok(admitted)
}

/// Adds fields to the body that the request has in its URL, or that a count request lacks; returns the form of the
/// response.
fn complete_body(dialect: Dialect, json: &mut Value, sent: &Sent<'_>) -> Form {
    match dialect {
        Dialect::Anthropic => {
            // A count has no output, so its request has no limit for it.
            if let (None, Some(fields)) = (sent.number, json.as_object_mut()) {
                fields.entry("max_tokens").or_insert(u32::MAX.into());
            }
        }
        Dialect::Gemini => {
            if let Some(inner) = json.get_mut("generateContentRequest") {
                *json = inner.take();
            }
            let (model, method) = route::method(sent.uri.path()).unwrap_or_default();
            if let Some(fields) = json.as_object_mut() {
                fields.insert("model".into(), model.into());
            }
            return match (method, sent.query("alt")) {
                ("streamGenerateContent", Some("sse")) => Form::Stream,
                ("streamGenerateContent", _) => Form::List,
                _ => Form::Whole,
            };
        }
        // Ollama streams by default.
        Dialect::Ollama if json.get("stream").is_none() => return Form::Stream,
        Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Ollama => {}
    }
    if json.get("stream") == Some(&Value::Bool(true)) { Form::Stream } else { Form::Whole }
}
