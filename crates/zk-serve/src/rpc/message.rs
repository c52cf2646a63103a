use serde::Serialize;
use serde_json::{Value, json};

use super::wire::refusal::Refusal;

/// Error in the answer to a request: code, message and data for programs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        Self { code: refusal.code(), message: message.into(), data: None }
    }

    pub(super) fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Error of an action that was tried and failed.
    #[expect(clippy::needless_pass_by_value, reason = "it maps errors, which come by value")]
    pub(super) fn failed(why: impl ToString) -> Self {
        Self::new(Refusal::Failed, why.to_string())
    }

    pub(super) fn field(field: &str, why: impl std::fmt::Display) -> Self {
        Self::new(Refusal::InvalidParams, format!("`{field}`: {why}")).with(json!({ "field": field }))
    }
}

/// Message of a client.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    /// A request; without an id it gets no answer.
    Request { id: Option<Value>, method: String, params: Value },
    /// An answer. The server sends no requests, so it is ignored.
    Answer,
}

/// Error of a line that is no valid request, with the id to answer; `None` for a notification.
pub(super) type Unreadable = (Option<Value>, RpcError);

/// Parses a line.
pub(super) fn read(line: &str) -> Result<Incoming, Unreadable> {
    let parsed: Value = serde_json::from_str(line).map_err(|error| {
        (Some(Value::Null), RpcError::new(Refusal::Parse, format!("this line is no JSON: {error}")))
    })?;
    let invalid = |id: Value, why: &str| (Some(id), RpcError::new(Refusal::InvalidRequest, why));
    let Value::Object(mut fields) = parsed else {
        let why = match parsed {
            Value::Array(_) => "batches are not served: send each message as a line of its own",
            _ => "a message is an object of JSON-RPC 2.0",
        };
        return Err(invalid(Value::Null, why));
    };
    let id = match fields.remove("id") {
        None => None,
        Some(id @ (Value::String(_) | Value::Number(_))) => Some(id),
        Some(_) => return Err(invalid(Value::Null, "`id` is a text or a number")),
    };
    let known = || id.clone().unwrap_or(Value::Null);
    if fields.get("jsonrpc").is_some_and(|version| version != "2.0") {
        return Err(invalid(known(), "`jsonrpc` is \"2.0\""));
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        None if fields.contains_key("result") || fields.contains_key("error") => return Ok(Incoming::Answer),
        Some(_) | None => return Err(invalid(known(), "`method` is missing, or is no text")),
    };
    let params = match fields.remove("params") {
        None | Some(Value::Null) => json!({}),
        Some(params @ Value::Object(_)) => params,
        Some(_) => {
            let error = RpcError::new(Refusal::InvalidParams, "`params` is an object with named fields");
            return Err((id, error.with(json!({ "field": "params" }))));
        }
    };
    Ok(Incoming::Request { id, method, params })
}

/// Answer to a request, as a line.
pub(super) fn answer(id: &Value, outcome: Result<Value, RpcError>) -> String {
    let message = match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(RpcError { code, message, data: None }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
        Err(RpcError { code, message, data: Some(data) }) => json!({
            "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data }
        }),
    };
    message.to_string()
}

/// Notification, as a line.
pub(super) fn notification(method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    // Params are plain data with texts as keys.
    serde_json::to_string(&Notification { jsonrpc: "2.0", method, params }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_that_is_no_request_is_refused_in_words_and_with_its_id() {
        for (line, id, code) in [
            ("{", Value::Null, -32700),
            ("[]", Value::Null, -32600),
            ("1", Value::Null, -32600),
            (r#"{"id":null,"method":"x"}"#, Value::Null, -32600),
            (r#"{"id":7}"#, json!(7), -32600),
            (r#"{"id":"a","method":5}"#, json!("a"), -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, json!(1), -32600),
            (r#"{"id":1,"method":"x","params":[1]}"#, json!(1), -32602),
        ] {
            let (of, error) = read(line).unwrap_err();
            assert_eq!((of, error.code), (Some(id), code), "{line}");
        }
        assert_eq!(read(r#"{"method":"x","params":[1]}"#).unwrap_err().0, None);
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Incoming::Answer));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in ".{0,200}") {
            let _ = read(&line);
        }

        #[test]
        fn an_answer_has_the_id_of_its_request(id in prop_oneof![any::<i64>().prop_map(Value::from), ".{0,20}".prop_map(Value::from)]) {
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": "m" }).to_string();
            let Ok(Incoming::Request { id: Some(read), .. }) = read(&line) else { panic!("{line}") };
            let answer: Value = serde_json::from_str(&answer(&read, Ok(json!({})))).unwrap();
            prop_assert_eq!(&answer["id"], &id);
        }
    }
}
