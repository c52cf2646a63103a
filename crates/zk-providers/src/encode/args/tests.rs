use serde_json::json;

use super::tool_call;

fn parsed(raw: &str) -> Option<serde_json::Value> {
    let call = tool_call("c".into(), "t".into(), raw, false);
    call.malformed.is_none().then_some(call.args)
}

#[test]
fn no_text_is_no_arguments_unless_the_response_was_cut() {
    assert_eq!(parsed(""), Some(json!({})));
    assert_eq!(parsed(" \n"), Some(json!({})));
    assert_eq!(tool_call("c".into(), "t".into(), "", true).malformed.as_deref(), Some(""));
}

#[test]
fn complete_objects_parse_even_when_the_response_was_cut() {
    assert_eq!(tool_call("c".into(), "t".into(), r#"{"a":1}"#, true).malformed, None);
}

#[test]
fn illegal_escapes_and_raw_control_characters_are_repaired() {
    assert_eq!(parsed(r#"{"re":"\d+\.\s"}"#), Some(json!({"re": r"\d+\.\s"})));
    assert_eq!(parsed(r#"{"path":"C:\Users\x"}"#), Some(json!({"path": r"C:\Users\x"})));
    assert_eq!(parsed("{\"text\":\"a\tb\nc\"}"), Some(json!({"text": "a\tb\nc"})));
    assert_eq!(parsed(r#"{"a":"\"\\","b":"\q"}"#), Some(json!({"a": "\"\\", "b": "\\q"})));
}

#[test]
fn truncated_arguments_are_malformed_and_not_completed() {
    let whole = r#"{"path":"src/lib.rs","edits":[{"old":"a","new":"b\n"}],"n":12}"#;
    for at in 1..whole.len() {
        let (cut, _) = whole.split_at(at);
        let call = tool_call("c".into(), "t".into(), cut, false);
        assert_eq!(call.malformed.as_deref(), Some(cut));
        assert_eq!(call.args, json!({}));
    }
}

#[test]
fn what_is_not_an_object_is_malformed() {
    for raw in ["[1]", "1", "true", r#""text""#, "{} {}", "{'a':1}", "{a:1}", r#"{"a":1,}"#] {
        assert_eq!(parsed(raw), None, "{raw}");
    }
}

#[test]
fn null_and_an_object_encoded_twice_are_understood() {
    assert_eq!(parsed("null"), Some(json!({})));
    assert_eq!(parsed(r#""{\"a\":1}""#), Some(json!({"a": 1})));
}
