//! Limit on the number of values in a server's message: a value of two bytes takes a hundred times that in
//! memory.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Size limit of an answer in bytes.
#[cfg(feature = "http")]
pub(crate) const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Maximum number of values in a message; a list of 500 tools has about 20,000.
pub(crate) const MAX_VALUES: usize = 250_000;
/// Length limit of a response's id, in bytes as JSON.
const MAX_ID_BYTES: usize = 256;

/// Returns the message if it has few enough values. A response with too many is replaced by an error with its
/// id, so that its request ends; any other message with too many is dropped.
pub(crate) fn bound(message: &[u8]) -> Option<Cow<'_, [u8]>> {
    if message.len() <= MAX_VALUES || count(message) <= MAX_VALUES {
        return Some(Cow::Borrowed(message));
    }
    let Response { id, method: None } = serde_json::from_slice(message).ok()? else { return None };
    let id = id.get();
    (id.len() <= MAX_ID_BYTES).then(|| {
        let why = format!("its answer has more than {MAX_VALUES} values; ask for less at once");
        let error = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{why}"}}}}"#);
        Cow::Owned(error.into_bytes())
    })
}

/// Limits a text message like [`bound`].
#[cfg(feature = "http")]
pub(crate) fn bound_text(message: String) -> Option<String> {
    match bound(message.as_bytes())? {
        Cow::Borrowed(_) => Some(message),
        Cow::Owned(error) => String::from_utf8(error).ok(),
    }
}

/// Returns an upper estimate of the number of values in a JSON text.
fn count(text: &[u8]) -> usize {
    let (mut values, mut bytes) = (1_usize, text.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'[' | b'{' => values += 1,
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    values
}

/// Fields of a refused response that its replacement, an error with the id of the request, is made of.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message_of_many_values(head: &str, tail: &str) -> Vec<u8> {
        format!("{head}{}0{tail}", "0,".repeat(MAX_VALUES)).into_bytes()
    }

    #[test]
    fn a_response_of_too_many_values_becomes_an_error_with_its_id() {
        for id in ["7", "\"seven\""] {
            let answer =
                message_of_many_values(r#"{"jsonrpc":"2.0","result":{"x":["#, &format!(r#"]}},"id":{id}}}"#));
            let error: Value = serde_json::from_slice(&bound(&answer).unwrap()).unwrap();
            let expected: Value = serde_json::from_str(id).unwrap();
            assert_eq!((&error["id"], &error["error"]["code"]), (&expected, &json!(-32603)));
        }
    }

    #[test]
    fn another_message_of_too_many_values_is_none() {
        let note =
            message_of_many_values(r#"{"jsonrpc":"2.0","method":"notifications/message","params":["#, "]}");
        let request = message_of_many_values(r#"{"id":1,"method":"roots/list","params":["#, "]}");
        let id = message_of_many_values(r#"{"jsonrpc":"2.0","result":{},"id":["#, "]}");
        for message in [note, request, id, message_of_many_values("", "")] {
            assert_eq!(bound(&message), None);
        }
    }

    #[test]
    fn a_long_text_is_one_value_whatever_is_in_it() {
        let text = serde_json::to_vec(&json!({"id": 1, "result": r#"[,"\,{"#.repeat(MAX_VALUES)})).unwrap();
        assert_eq!(bound(&text), Some(Cow::Borrowed(&*text)));
    }
}
