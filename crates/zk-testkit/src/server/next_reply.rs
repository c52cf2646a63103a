//! Response with the next turn of the script, or a fault in its place.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::Value;
use zk_core::model::ErrorKind;

use super::fault::{Fault, RetryAfter};
use super::formats::breaking;
use super::formats::frames;
use super::formats::pieces::{Part, Piece, Rendering};
use super::refusal::{self, Refusal};
use super::reply::{Answer, Reply};
use super::requests::admission::{Admitted, Form};
use super::shared::Shared;
use crate::rules::Dialect;
use crate::script::{Step, Turn};

/// Response for faults that do not depend on the script.
pub(crate) fn reply_for_fault(dialect: Dialect, fault: &Fault, number: usize) -> Option<Answer> {
    let error = |status: u16, message: &str, after: RetryAfter| {
        Answer::Reply(Refusal::new(dialect, status, message).with_retry_after(after).reply(number))
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
            let body = Refusal::new(dialect, 500, "The upstream server failed.").body(number);
            Answer::Reply(Reply::json(200, body.to_string()))
        }
        Fault::Html(status) => {
            let page = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\n<body><h1>Bad gateway</h1>\
                        <p>The proxy got no answer.</p></body></html>\n";
            Answer::Reply(Reply::whole(*status, "text/html; charset=utf-8", page.to_owned()))
        }
        Fault::NeverAnswers => Answer::Never,
        Fault::Empty200 => Answer::Reply(Reply::stream(dialect, VecDeque::new())),
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

/// Response with the next turn of the script, in the requested form.
pub(crate) fn next_reply(
    shared: &Shared,
    dialect: Dialect,
    admitted: &Admitted,
    fault: Option<&Fault>,
    number: usize,
) -> Answer {
    let (json, model) = (&admitted.json, admitted.model());
    let streams = admitted.form == Form::Stream;
    if let Some(bulk) = &shared.options.bulk {
        return Answer::Reply(Reply::stream(dialect, bulk.acts(dialect, model).into()));
    }
    let turn = match shared.next_turn(dialect, json, number) {
        Ok(turn) => turn,
        Err(why) => {
            return Answer::Reply(
                Refusal::new(dialect, 400, &why).with_code(Some("script_ended")).reply(number),
            );
        }
    };
    if fault.is_some_and(|fault| !fault.completes()) {
        shared.repeat_turn_later(turn.clone());
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
                Answer::Reply(
                    Refusal::new(dialect, status, &message)
                        .with_code(code)
                        .with_retry_after(after)
                        .reply(number),
                )
            }
            None if error.kind == ErrorKind::Stalled => Answer::Never,
            None if error.kind == ErrorKind::Malformed => {
                Answer::Reply(Reply::stream(dialect, VecDeque::new()))
            }
            None => Answer::Reset,
        };
    }
    let wants_usage = match dialect {
        Dialect::Anthropic | Dialect::Responses | Dialect::Codex | Dialect::Gemini | Dialect::Ollama => true,
        Dialect::Chat => {
            let is_told = shared.options.strictness(dialect).is_some_and(|strictness| strictness.tells_usage);
            is_told || !streams || json.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
        }
    };
    let usage = (wants_usage && fault != Some(&Fault::MissingUsage)).then(|| turn.total_usage());
    let rendering = Rendering {
        model,
        number,
        usage,
        pace: shared.playback.pace(),
        reasoning: shared.options.reasoning(dialect),
    };
    let id = refusal::request_id_header(dialect).map(|name| (name, refusal::request_id(number)));
    let whole = frames::response_body(dialect, &turn, rendering);
    shared.log().ledger.record_tokens(dialect, model, &whole);
    let reply = if streams {
        let pieces = frames::stream(dialect, &turn, rendering);
        Reply::stream(dialect, breaking::acts(dialect, pieces, fault, number))
    } else {
        let whole = if admitted.form == Form::List { Value::from(vec![whole]) } else { whole };
        let piece = Piece::Event { bytes: Bytes::from(whole.to_string()), part: Part::Content };
        let acts = breaking::acts(dialect, vec![piece], fault, number);
        Reply { acts, ..Reply::json(200, String::new()) }
    };
    Answer::Reply(reply.with_header(id))
}
