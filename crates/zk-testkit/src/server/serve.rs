//! Handling of requests.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use serde_json::{Value, json};

use super::lists;
use super::next_reply::{next_reply, reply_for_fault};
use super::reply::{Answer, Body, Broken, Reply};
use super::requests::admission::{Brief, Sent, admit, check_key, check_model};
use super::requests::received::Received;
use super::requests::route::{Route, route};
use super::shared::Shared;
use super::socket::Socket;
use crate::rules::{Dialect, Violation};

pub(super) async fn serve(
    shared: Arc<Shared>,
    socket: Socket,
    request: Request<Incoming>,
) -> Result<Response<Body>, Broken> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let route = route(&head.method, head.uri.path(), &head.headers);
    let is_raw = !shared.options.raw.is_empty();
    let number = match route {
        _ if is_raw => Some(shared.next_number()),
        Route::Generate(_) => Some(shared.next_number()),
        Route::CountTokens(_) | Route::Models(_) | Route::Model(..) | Route::Show | Route::Unknown => None,
    };
    let sent = Sent { uri: &head.uri, headers: &head.headers, body: &body, number };
    let (answer, violation) = match raw_reply(&shared, number) {
        Some(reply) => (Answer::Reply(reply), None),
        None => route_request(&shared, &route, &sent),
    };
    shared.record_request(Received {
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

/// Raw reply to the `number`th request, if the test provides one.
fn raw_reply(shared: &Shared, number: Option<usize>) -> Option<Reply> {
    let replies = &shared.options.raw;
    let reply = replies.get(number?.checked_sub(1)?).or(replies.last())?;
    Some(reply.reply())
}

fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}

fn route_request(shared: &Shared, route: &Route, sent: &Sent<'_>) -> (Answer, Option<Violation>) {
    let brief = match route {
        Route::Unknown => Ok(Reply::json(404, json!({"error": "not found"}).to_string())),
        Route::Models(dialect) => check_key(shared, *dialect, sent)
            .map(|()| lists::model_list(shared, *dialect))
            .map_err(Brief::from),
        Route::Model(dialect, model) => check_model(shared, *dialect, model, sent)
            .map(|()| lists::model_entry(*dialect, model))
            .map_err(Brief::from),
        Route::Show => {
            let json: Value = serde_json::from_slice(sent.body).unwrap_or_default();
            let model = json.get("model").and_then(Value::as_str).unwrap_or_default();
            check_model(shared, Dialect::Ollama, model, sent)
                .map(|()| lists::model_details())
                .map_err(Brief::from)
        }
        Route::CountTokens(dialect) => {
            admit(shared, *dialect, sent).map(|_| lists::token_count(*dialect, sent.body.len() / 4))
        }
        Route::Generate(dialect) => {
            let fault = shared.fault_of(sent.id());
            if let Some(answer) = fault.as_ref().and_then(|fault| reply_for_fault(*dialect, fault, sent.id()))
            {
                return (answer, None);
            }
            match admit(shared, *dialect, sent) {
                Ok(admitted) => {
                    return (next_reply(shared, *dialect, &admitted, fault.as_ref(), sent.id()), None);
                }
                Err(brief) => Err(brief),
            }
        }
    };
    match brief {
        Ok(reply) => (Answer::Reply(reply), None),
        Err(brief) => (Answer::Reply(brief.reply), brief.violation),
    }
}
