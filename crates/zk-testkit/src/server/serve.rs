//! From a request to its answer.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use serde_json::{Value, json};
use zk_core::model::ErrorKind;

use super::fault::{Fault, RetryAfter};
use super::frames::{self, Telling};
use super::received::Received;
use super::reply::{Body, Broken, Reply};
use super::route::{Route, route};
use super::shared::Shared;
use super::socket::Socket;
use super::{breaking, refusal};
use crate::rules::{self, Dialect, Violation};
use crate::script::{Step, Turn};

/// What is done about a request.
enum Answer {
    Reply(Reply),
    Never,
    Reset,
}

/// An answer that is no turn of the script.
struct Brief {
    reply: Reply,
    violation: Option<Violation>,
}

impl From<Reply> for Brief {
    fn from(reply: Reply) -> Self {
        Self { reply, violation: None }
    }
}

pub(super) async fn serve(
    shared: Arc<Shared>,
    socket: Socket,
    request: Request<Incoming>,
) -> Result<Response<Body>, Broken> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let route = route(&head.method, head.uri.path(), &head.headers);
    let number = match route {
        Route::Generate(_) => Some(shared.count()),
        Route::CountTokens | Route::Models(_) | Route::Model(..) | Route::Unknown => None,
    };
    let (answer, violation) = answer(&shared, &route, number, &head.headers, &body);
    shared.keep(Received {
        number,
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: headers(&head.headers),
        body,
        status: match &answer {
            Answer::Reply(reply) => Some(reply.status),
            Answer::Never | Answer::Reset => None,
        },
        violation,
    });
    match answer {
        Answer::Reply(reply) => reply.into_response(socket, shared.left.clone()).map_err(|_| Broken),
        Answer::Reset => {
            socket.reset_on_close();
            Err(Broken)
        }
        Answer::Never => {
            let never: Infallible = std::future::pending().await;
            match never {}
        }
    }
}

fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}

fn answer(
    shared: &Shared,
    route: &Route,
    number: Option<usize>,
    headers: &HeaderMap,
    body: &Bytes,
) -> (Answer, Option<Violation>) {
    let id = number.unwrap_or(0);
    let brief = match route {
        Route::Unknown => Brief::from(Reply::json(404, json!({"error": "not found"}).to_string())),
        Route::Models(dialect) => match authorised(shared, *dialect, headers, id) {
            Ok(()) => models(shared, *dialect).into(),
            Err(reply) => reply.into(),
        },
        Route::Model(dialect, model) => match known(shared, *dialect, model, id) {
            Ok(()) => Reply::json(200, self::model(*dialect, model).to_string()).into(),
            Err(reply) => reply.into(),
        },
        Route::CountTokens => match admitted(shared, Dialect::Anthropic, headers, body, number) {
            Ok(_) => Reply::json(200, json!({"input_tokens": body.len() / 4}).to_string()).into(),
            Err(brief) => brief,
        },
        Route::Generate(dialect) => {
            let fault = shared.fault(id);
            if let Some(answer) = fault.as_ref().and_then(|fault| at_once(*dialect, fault, id)) {
                return (answer, None);
            }
            match admitted(shared, *dialect, headers, body, number) {
                Ok(json) => return (said(shared, *dialect, &json, fault.as_ref(), id), None),
                Err(brief) => brief,
            }
        }
    };
    (Answer::Reply(brief.reply), brief.violation)
}

/// The faults that do not depend on what is said.
fn at_once(dialect: Dialect, fault: &Fault, number: usize) -> Option<Answer> {
    let error = |status: u16, message: &str, after: RetryAfter| {
        Answer::Reply(refusal::reply(dialect, status, message, number).with_header(after.header()))
    };
    Some(match fault {
        Fault::RateLimited(after) => error(
            429,
            "This request would exceed your organization's rate limit. Please try again later.",
            *after,
        ),
        Fault::Unavailable(after) => error(503, "The service is temporarily unavailable.", *after),
        Fault::Overloaded(after) => error(529, "Overloaded", *after),
        Fault::ServerError => error(500, "Internal server error", RetryAfter::No),
        Fault::ErrorBody200 => {
            let body = refusal::body(dialect, 500, None, "The upstream server failed.", number);
            Answer::Reply(Reply::json(200, body))
        }
        Fault::Html(status) => {
            let page = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\n<body><h1>Bad gateway</h1>\
                        <p>The proxy got no answer.</p></body></html>\n";
            Answer::Reply(Reply::whole(*status, "text/html; charset=utf-8", page.to_owned()))
        }
        Fault::NeverAnswers => Answer::Never,
        Fault::Empty200 => Answer::Reply(Reply::stream(VecDeque::new())),
        Fault::CutAfterEvents(_)
        | Fault::CutAfterBytes(_)
        | Fault::ResetAfterEvents(_)
        | Fault::HalfOpenAfterEvents(_)
        | Fault::Drip(_)
        | Fault::PingOnly(_)
        | Fault::ErrorEventAfter(_)
        | Fault::MalformedEvent(_)
        | Fault::MalformedChunk(_)
        | Fault::SplitUtf8
        | Fault::DuplicateFinish
        | Fault::MissingUsage
        | Fault::GiantDelta(_)
        | Fault::NoTerminal => return None,
    })
}

fn authorised(shared: &Shared, dialect: Dialect, headers: &HeaderMap, number: usize) -> Result<(), Reply> {
    let Some(key) = &shared.options.key else { return Ok(()) };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let (given, message) = match dialect {
        Dialect::Anthropic => (text("x-api-key").or(bearer), "invalid x-api-key"),
        Dialect::Chat => (bearer, "Incorrect API key provided. You can find your API key in your settings."),
    };
    match given {
        Some(given) if given == key => Ok(()),
        Some(_) => Err(refusal::reply(dialect, 401, message, number)),
        None => {
            let message = match dialect {
                Dialect::Anthropic => "x-api-key header is required",
                Dialect::Chat => {
                    "You didn't provide an API key. You need to provide your API key in an Authorization header using \
                     Bearer auth."
                }
            };
            Err(refusal::reply(dialect, 401, message, number))
        }
    }
}

fn known(shared: &Shared, dialect: Dialect, model: &str, number: usize) -> Result<(), Reply> {
    let models = &shared.options.models;
    if models.is_empty() || models.iter().any(|known| known == model) {
        return Ok(());
    }
    let message = match dialect {
        Dialect::Anthropic => format!("model: {model}"),
        Dialect::Chat => format!("The model `{model}` does not exist or you do not have access to it."),
    };
    Err(refusal::reply(dialect, 404, &message, number))
}

/// The body of a request that gets an answer.
fn admitted(
    shared: &Shared,
    dialect: Dialect,
    headers: &HeaderMap,
    body: &Bytes,
    number: Option<usize>,
) -> Result<Value, Brief> {
    let (number, generates) = (number.unwrap_or(0), number.is_some());
    authorised(shared, dialect, headers, number)?;
    let reject = |message: &str| refusal::reply(dialect, 400, message, number);
    if dialect == Dialect::Anthropic && !headers.contains_key("anthropic-version") {
        return Err(reject("anthropic-version: header is required").into());
    }
    let json: Value = serde_json::from_slice(body)
        .map_err(|error| reject(&format!("The request body is not valid JSON: {error}")))?;
    if let Some(strictness) = shared.options.strictness(dialect) {
        rules::check_with(&strictness, &checkable(&json, generates))
            .map_err(|violation| Brief { reply: reject(&violation.message), violation: Some(violation) })?;
    }
    let model = json.get("model").and_then(Value::as_str).unwrap_or_default();
    known(shared, dialect, model, number)?;
    Ok(json)
}

/// A count has no output, so its request has no limit on it.
fn checkable(json: &Value, generates: bool) -> Cow<'_, Value> {
    let mut json = Cow::Borrowed(json);
    if !generates && let Some(fields) = json.to_mut().as_object_mut() {
        fields.entry("max_tokens").or_insert(u32::MAX.into());
    }
    json
}

/// The next turn of the script, as the client wants it.
fn said(shared: &Shared, dialect: Dialect, json: &Value, fault: Option<&Fault>, number: usize) -> Answer {
    let model = json.get("model").and_then(Value::as_str).unwrap_or_default();
    let streams = json.get("stream") == Some(&Value::Bool(true));
    if let Some(bulk) = &shared.options.bulk {
        return Answer::Reply(Reply::stream(bulk.acts(dialect, model).into()));
    }
    let turn = match shared.next_turn(dialect, json, number) {
        Ok(turn) => turn,
        Err(why) => return Answer::Reply(refusal::coded(dialect, 400, Some("script_ended"), &why, number)),
    };
    if fault.is_some_and(|fault| !fault.completes()) {
        shared.hold(turn.clone());
    }
    let turn = match fault {
        Some(Fault::GiantDelta(bytes)) => Turn::new().chunks(["x".repeat(*bytes)]),
        _ => turn,
    };
    if let Some(Step::Fail(error)) = turn.steps.first() {
        return match refusal::class(dialect, error.kind) {
            Some(class) => {
                let status = error.status.unwrap_or(class.status);
                let after = error
                    .retry_after
                    .map_or(RetryAfter::No, |wait| RetryAfter::Millis(wait.as_secs_f64() * 1000.0));
                let code = error.code.as_deref().or(class.code);
                let message = refusal::message(dialect, error);
                let reply = refusal::coded(dialect, status, code, &message, number);
                Answer::Reply(reply.with_header(after.header()))
            }
            None if error.kind == ErrorKind::Stalled => Answer::Never,
            None if error.kind == ErrorKind::Malformed => Answer::Reply(Reply::stream(VecDeque::new())),
            None => Answer::Reset,
        };
    }
    let wants_usage = match dialect {
        Dialect::Anthropic => true,
        Dialect::Chat => {
            !streams || json.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
        }
    };
    let usage = (wants_usage && fault != Some(&Fault::MissingUsage)).then(|| turn.total_usage());
    let telling = Telling { model, number, usage, pace: shared.playback.pace() };
    let id = (refusal::request_id_header(dialect), refusal::request_id(number));
    let reply = if streams {
        let pieces = frames::stream(dialect, &turn, telling);
        Reply::stream(breaking::acts(dialect, pieces, fault, number))
    } else {
        let body = frames::whole(dialect, &turn, telling).to_string();
        let piece = frames::Piece::Event { bytes: Bytes::from(body), part: frames::Part::Content };
        let acts = breaking::acts(dialect, vec![piece], fault, number);
        Reply { acts, ..Reply::json(200, String::new()) }
    };
    Answer::Reply(reply.with_header(Some(id)))
}

fn models(shared: &Shared, dialect: Dialect) -> Reply {
    let all: Vec<Value> = shared.options.models.iter().map(|id| model(dialect, id)).collect();
    let body = match dialect {
        Dialect::Anthropic => json!({
            "data": all,
            "has_more": false,
            "first_id": shared.options.models.first(),
            "last_id": shared.options.models.last(),
        }),
        Dialect::Chat => json!({"object": "list", "data": all}),
    };
    Reply::json(200, body.to_string())
}

fn model(dialect: Dialect, id: &str) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
        }
        Dialect::Chat => {
            json!({"id": id, "object": "model", "created": 1_767_225_600, "owned_by": "zk-testkit"})
        }
    }
}
