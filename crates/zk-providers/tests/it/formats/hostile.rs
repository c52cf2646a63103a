//! Conversations of which something is broken.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;
use zk_providers::formats::Format::{self, AnthropicMessages, OpenAiChat};
use zk_providers::formats::FormatError;

use super::origin;
use super::random::{everything, model, of_chats, of_messages};

/// Words that both formats have somewhere.
const WORDS: [&str; 27] = [
    "user",
    "assistant",
    "system",
    "tool",
    "function",
    "text",
    "image",
    "document",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "base64",
    "url",
    "file",
    "image_url",
    "refusal",
    "text/plain",
    "image/png",
    "data:image/png;base64,AAAA",
    "data:,a",
    "https://a.example",
    "{}",
    "{\"a\":1}",
    "",
    "reasoning.text",
];

/// Change to one place.
#[derive(Clone, Debug)]
enum Break {
    Word(Value),
    /// Value of another place.
    Other(Index),
    Gone,
}

fn breaks() -> impl Strategy<Value = Break> {
    let word = prop_oneof![
        6 => select(WORDS.to_vec()).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => Just(Value::Array(Vec::new())),
    ];
    prop_oneof![3 => word.prop_map(Break::Word), 2 => any::<Index>().prop_map(Break::Other), 1 => Just(Break::Gone)]
}

/// Every place in a value, as a JSON pointer.
fn places(value: &Value, place: &str, out: &mut Vec<String>) {
    out.push(place.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{place}/{name}"), out));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| places(value, &format!("{place}/{at}"), out));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn broken(mut value: Value, breaks: Vec<(Index, Break)>) -> Value {
    for (at, what) in breaks {
        let mut all = Vec::new();
        places(&value, "", &mut all);
        let new = match what {
            Break::Word(word) => word,
            Break::Other(other) => value.pointer(other.get::<String>(&all)).expect("a place in it").clone(),
            Break::Gone => Value::Null,
        };
        *value.pointer_mut(at.get::<String>(&all)).expect("a place in it") = new;
    }
    value
}

fn hostile() -> impl Strategy<Value = Value> {
    let written = prop_oneof![
        of_messages().prop_map(|conversation| conversation.write(AnthropicMessages, &model()).expect("JSON")),
        of_chats(true).prop_map(|conversation| conversation.write_chat(&everything(), &model())),
    ];
    (written, vec((any::<Index>(), breaks()), 1..5))
        .prop_map(|(written, breaks)| broken(written.into_body(), breaks))
}

/// Checks that a value is read and written unchanged, or refused with a position.
fn check(format: Format, value: &Value) {
    match format.read(value, &origin()) {
        Ok(read) => {
            let written = read.write(format, &model()).expect("what was read can be written").into_body();
            let again = format.read(&written, &origin()).expect("what was written can be read");
            let twice = again.write(format, &model()).expect("what was read can be written").into_body();
            assert_eq!(written, twice);
        }
        Err(FormatError::Unwritable { reason }) => panic!("nothing was written: {reason}"),
        Err(error) => {
            let path = error.path().unwrap_or_default();
            assert!(path.starts_with("messages") || path.starts_with("system"), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_broken_in_a_conversation_it_is_read_or_it_is_said_where_not(value in hostile()) {
        let found = Format::detect(&value);
        prop_assert!(matches!(found, None | Some(AnthropicMessages | OpenAiChat)));
        check(AnthropicMessages, &value);
        check(OpenAiChat, &value);
    }
}
