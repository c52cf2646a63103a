//! Filters the answer to an HTTP request: messages that do not belong to the request are dropped.

use futures_util::StreamExt;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerResult};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use sse_stream::Sse;

use super::post::RequestFailure;
use super::sent_tools::SentTools;
use crate::transport::value_limits::bound_text;

/// Removes invalid messages and responses to other requests from the answer to `message`, because rmcp takes
/// the first response of a stream for the expected one.
pub(crate) fn drop_foreign_messages(
    message: &ClientJsonRpcMessage,
    answer: StreamableHttpPostResponse,
) -> Result<StreamableHttpPostResponse, RequestFailure> {
    let JsonRpcMessage::Request(request) = message else { return Ok(answer) };
    let id = request.id.clone();
    match answer {
        StreamableHttpPostResponse::Sse(events, session) => {
            // Such events are emptied instead of removed, since they carry the event id and the retry pause.
            let wanted = events.map(move |event| {
                event.map(|event| {
                    let data = event.data.and_then(bound_text).filter(|data| is_wanted(data, &id));
                    Sse { data, ..event }
                })
            });
            Ok(StreamableHttpPostResponse::Sse(wanted.boxed(), session))
        }
        StreamableHttpPostResponse::Json(message, session) => {
            let other = match &message {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            match other.filter(|other| other.to_string() != id.to_string()) {
                Some(other) => {
                    let why = format!("it answered the request {id} with a response to {other}");
                    Err(StreamableHttpError::UnexpectedServerResponse(why.into()))
                }
                None => Ok(StreamableHttpPostResponse::Json(message, session)),
            }
        }
        other => Ok(other),
    }
}

/// Records the tool names of the answer in `sent`, if `message` asked for the list of tools.
pub(crate) fn record_tools(
    message: &ClientJsonRpcMessage,
    answer: StreamableHttpPostResponse,
    sent: &SentTools,
) -> StreamableHttpPostResponse {
    let is_list = matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::ListToolsRequest(_)));
    match answer {
        StreamableHttpPostResponse::Json(message, session) if is_list => {
            if let JsonRpcMessage::Response(response) = &message
                && let ServerResult::ListToolsResult(list) = &response.result
            {
                sent.record(list.tools.iter().map(|tool| tool.name.to_string()));
            }
            StreamableHttpPostResponse::Json(message, session)
        }
        StreamableHttpPostResponse::Sse(events, session) if is_list => {
            let sent = sent.clone();
            let noted = events.inspect(move |event| {
                let data = event.as_ref().ok().and_then(|event| event.data.as_deref());
                let list = data.and_then(|data| serde_json::from_str::<ToolList>(data).ok());
                sent.record(list.into_iter().flat_map(|list| list.result.tools).map(|tool| tool.name));
            });
            StreamableHttpPostResponse::Sse(noted.boxed(), session)
        }
        other => other,
    }
}

/// Names in a list of tools.
#[derive(Deserialize)]
struct ToolList {
    result: Tools,
}

#[derive(Deserialize)]
struct Tools {
    tools: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Fields that distinguish kinds of messages.
#[derive(Deserialize)]
struct Shape {
    id: Option<Value>,
    method: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Whether a text is a valid message and no response to another request than `id`.
fn is_wanted(text: &str, id: &RequestId) -> bool {
    match serde_json::from_str(text) {
        Ok(Shape { method: Some(_), .. }) => true,
        Ok(Shape { id: Some(Value::String(other)), .. }) => other == id.to_string(),
        Ok(Shape { id: Some(other), .. }) => {
            matches!(id, RequestId::Number(own) if other.as_i64() == Some(*own))
        }
        // An error without id: the server could not parse the request.
        Ok(Shape { id: None, error, .. }) => error.is_some(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_names_of_listed_tools_are_noted_from_a_stream_too() {
        let request = |method: &str| {
            let request = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method});
            serde_json::from_value::<ClientJsonRpcMessage>(request).unwrap()
        };
        let list = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}}"#;
        for (method, expected) in [("tools/list", vec!["a", "b"]), ("prompts/list", vec![])] {
            let event = Sse { data: Some(list.to_owned()), ..Sse::default() };
            let events = futures_util::stream::iter([Ok(event)]).boxed();
            let sent = SentTools::default();
            let answer = record_tools(&request(method), StreamableHttpPostResponse::Sse(events, None), &sent);
            let StreamableHttpPostResponse::Sse(events, _) = answer else { panic!() };
            assert_eq!(events.count().await, 1);
            assert_eq!(sent.names(), expected, "{method}");
        }
    }

    #[test]
    fn only_messages_and_the_response_to_the_request_are_wanted() {
        let id = RequestId::Number(7);
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"s1","method":"roots/list"}"#,
        ] {
            assert!(is_wanted(text, &id), "{text}");
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"no":"message"}"#,
            "[1, 2]",
            "Starting up...",
            "",
        ] {
            assert!(!is_wanted(text, &id), "{text}");
        }
    }
}
