use std::collections::BTreeMap;
use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ability::{
    AskRegistration, BackendRegistration, CommandRegistration, ContextRegistration, RendererRegistration,
    SectionRegistration, ToolRegistration,
};

/// Parameters of `hello`, the first request of zk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Hello {
    /// Version of the protocol that zk speaks.
    pub protocol: String,
    /// Name of the extension in the settings.
    pub name: String,
    /// Program that started the extension, `zk` unless an application embeds it.
    pub host: String,
    /// Version of that program.
    pub version: String,
    /// Root of the project.
    pub project: PathBuf,
    /// Working directory of the conversation at the start.
    pub cwd: PathBuf,
    /// Session of the conversation, if it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Names of the events that an extension can answer.
    pub asks: Vec<String>,
    /// Methods that zk answers.
    pub methods: Vec<String>,
    /// Limits of this extension.
    pub limits: HostLimits,
    /// Table `settings` of the extension.
    pub settings: Value,
}

/// Limits that zk holds an extension to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HostLimits {
    /// Longest line in bytes, in either direction.
    pub line_bytes: usize,
    /// Requests of the extension that are served at a time.
    pub requests: usize,
    /// Milliseconds for an answer to a question about an event, a section, a context line or a completion.
    pub timeout: u64,
    /// Milliseconds for the result of a tool or command.
    pub call_timeout: u64,
}

/// Result of `hello`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HelloAnswer {
    /// Version of the protocol that the extension speaks; the part before the point has to be that of zk.
    pub protocol: String,
    /// Name that the extension calls itself.
    #[serde(default)]
    pub name: String,
    /// Version of the extension.
    #[serde(default)]
    pub version: String,
    /// Everything that it registers from the start.
    #[serde(default)]
    pub register: Registrations,
}

/// Things that an extension registers, at its start or with `register`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Registrations {
    /// Tools of the model.
    pub tools: Vec<ToolRegistration>,
    /// Commands of the person.
    pub commands: Vec<CommandRegistration>,
    /// Events about which the extension is asked, and waited for.
    pub asks: Vec<AskRegistration>,
    /// Names of events that the extension is told, without waiting for it.
    pub tells: Vec<String>,
    /// Sections of the system prompt.
    pub sections: Vec<SectionRegistration>,
    /// Lines for the model about what holds now.
    pub contexts: Vec<ContextRegistration>,
    /// Rules by which fences and blocks are drawn.
    pub renderers: Vec<RendererRegistration>,
    /// Agents that answer prompts.
    pub backends: Vec<BackendRegistration>,
}

/// Result of `register`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Registered {
    /// Registrations that were refused; all others hold.
    pub left_out: Vec<LeftOut>,
}

/// Registration that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LeftOut {
    /// Kind of the registration: `tool`, `command`.
    pub kind: String,
    /// Name of the registration.
    pub name: String,
    /// Reason for the refusal.
    pub reason: String,
}

/// Parameters of `cancel`, in both directions: nobody waits for the answer to this request any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Cancel {
    /// Id of the request.
    pub id: Value,
}

/// Parameters of `events/lost`: events that were not told because the extension did not read in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EventsLost {
    /// Number of these events.
    pub count: u64,
}

/// Parameters of `notify`: a line for the person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Notice {
    /// Text of the line.
    pub text: String,
}

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ErrorObject {
    /// Code of the error: those of JSON-RPC, -32000 for a request that failed.
    #[serde(default)]
    pub code: i64,
    /// Cause, in words.
    pub message: String,
}

/// Parsed line of an extension.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: u64, result: Result<Value, ErrorObject> },
}

impl Incoming {
    /// Parses a line; the error says in words why it is no message.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        let mut fields: BTreeMap<String, Value> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err("it has no `\"jsonrpc\":\"2.0\"`".to_owned());
        }
        let id = fields.remove("id").filter(|id| !id.is_null());
        if let Some(method) = fields.remove("method") {
            let Value::String(method) = method else { return Err("its method is no text".to_owned()) };
            let params = fields.remove("params").unwrap_or_default();
            return Ok(match id {
                Some(id @ (Value::String(_) | Value::Number(_))) => Self::Request { id, method, params },
                Some(_) => return Err("its id is neither a text nor a number".to_owned()),
                None => Self::Notification { method, params },
            });
        }
        let id = id.and_then(|id| id.as_u64()).ok_or("it answers no request: its id is none that zk gave")?;
        match (fields.remove("result"), fields.remove("error")) {
            (Some(_), Some(_)) => Err("it has a result and an error".to_owned()),
            (Some(result), None) => Ok(Self::Response { id, result: Ok(result) }),
            (None, Some(error)) => {
                let error = serde_json::from_value(error).map_err(|error| format!("its error: {error}"))?;
                Ok(Self::Response { id, result: Err(error) })
            }
            (None, None) => Err("it has neither a result nor an error".to_owned()),
        }
    }
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

fn line(message: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Line of a request, with its end.
pub(crate) fn request(id: u64, method: &str, params: impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    line(&Outgoing { jsonrpc: "2.0", id: Some(id), method, params })
}

/// Line of a notification, with its end.
pub(crate) fn notification(method: &str, params: impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    line(&Outgoing { jsonrpc: "2.0", id: None, method, params })
}

/// Line of an answer, with its end.
pub(crate) fn response(
    id: &Value,
    result: &Result<Value, ErrorObject>,
) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorObject>,
    }
    line(&Answer { jsonrpc: "2.0", id, result: result.as_ref().ok(), error: result.as_ref().err() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let parse = |line: &str| Incoming::parse(line.as_bytes()).unwrap();
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":"a","method":"ask","params":{}}"#),
            Incoming::Request { id: json!("a"), method: "ask".into(), params: json!({}) }
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","method":"notify"}"#),
            Incoming::Notification { method: "notify".into(), params: Value::Null }
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":3,"result":null}"#),
            Incoming::Response { id: 3, result: Ok(Value::Null) }
        );
    }

    #[test]
    fn a_line_that_is_no_message_says_why() {
        for line in [
            "null",
            "[]",
            "{}",
            "ok",
            r#"{"id":1,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":"x","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":[],"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":2}"#,
        ] {
            assert!(Incoming::parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Incoming::parse(&line);
        }

        #[test]
        fn an_answer_is_read_back(id in any::<u64>(), text in ".*") {
            let line = response(&json!(id), &Ok(json!(&text))).unwrap();
            let read = Incoming::parse(&line).unwrap();
            prop_assert_eq!(read, Incoming::Response { id, result: Ok(json!(text)) });
        }
    }
}
