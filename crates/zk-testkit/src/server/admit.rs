//! Which requests get an answer.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::refusal::Refusal;
use super::reply::Reply;
use super::shared::Shared;
use crate::rules::{self, Dialect, Violation};

/// A request.
pub(super) struct Sent<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Bytes,
    /// Which request for an answer it is, if it is one.
    pub(super) number: Option<usize>,
}

impl Sent<'_> {
    pub(super) fn id(&self) -> usize {
        self.number.unwrap_or(0)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// An answer that is no turn of the script.
pub(super) struct Brief {
    pub(super) reply: Reply,
    pub(super) violation: Option<Violation>,
}

impl From<Reply> for Brief {
    fn from(reply: Reply) -> Self {
        Self { reply, violation: None }
    }
}

pub(super) fn authorised(shared: &Shared, dialect: Dialect, sent: &Sent<'_>) -> Result<(), Reply> {
    let Some(key) = &shared.options.key else { return Ok(()) };
    let bearer = sent.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let (given, missing, wrong) = match dialect {
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
        Some(_) => Err(Refusal::new(dialect, 401, wrong).reply(sent.id())),
        None => Err(Refusal::new(dialect, 401, missing).reply(sent.id())),
    }
}

pub(super) fn known(shared: &Shared, dialect: Dialect, model: &str, sent: &Sent<'_>) -> Result<(), Reply> {
    let models = &shared.options.models;
    if models.is_empty() || models.iter().any(|known| known == model) {
        return Ok(());
    }
    let message = match dialect {
        Dialect::Anthropic => format!("model: {model}"),
        Dialect::Codex => {
            format!("The '{model}' model is not supported when using Codex with a ChatGPT account.")
        }
        Dialect::Chat | Dialect::Responses => {
            format!("The model `{model}` does not exist or you do not have access to it.")
        }
    };
    let refusal = match dialect {
        Dialect::Anthropic | Dialect::Chat => Refusal::new(dialect, 404, &message),
        Dialect::Codex => Refusal::new(dialect, 400, &message),
        // The two APIs of one vendor do not agree about the status.
        Dialect::Responses => Refusal::new(dialect, 400, &message).code(Some("model_not_found")),
    };
    Err(refusal.reply(sent.id()))
}

/// The body of a request that gets an answer.
pub(super) fn admitted(shared: &Shared, dialect: Dialect, sent: &Sent<'_>) -> Result<Value, Brief> {
    authorised(shared, dialect, sent)?;
    let reject = |message: &str| Refusal::new(dialect, 400, message).reply(sent.id());
    let refuse =
        |violation: Violation| Brief { reply: reject(&violation.message), violation: Some(violation) };
    if dialect == Dialect::Anthropic && !sent.headers.contains_key("anthropic-version") {
        return Err(reject("anthropic-version: header is required").into());
    }
    let json: Value = serde_json::from_slice(sent.body)
        .map_err(|error| reject(&format!("The request body is not valid JSON: {error}")))?;
    if let Some(strictness) = shared.options.strictness(dialect) {
        rules::check_with(&strictness, &checkable(dialect, &json, sent)).map_err(refuse)?;
    }
    let model = json.get("model").and_then(Value::as_str).unwrap_or_default();
    known(shared, dialect, model, sent)?;
    if shared.options.strictness(dialect).is_some_and(|strictness| strictness.own_proofs) {
        shared.log().ledger.check(dialect, model, &json).map_err(refuse)?;
    }
    Ok(json)
}

/// A count has no output, so its request has no limit on it.
fn checkable<'a>(dialect: Dialect, json: &'a Value, sent: &Sent<'_>) -> Cow<'a, Value> {
    let mut json = Cow::Borrowed(json);
    if dialect == Dialect::Anthropic
        && sent.number.is_none()
        && let Some(fields) = json.to_mut().as_object_mut()
    {
        fields.entry("max_tokens").or_insert(u32::MAX.into());
    }
    json
}
