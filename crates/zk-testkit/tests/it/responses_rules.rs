use serde_json::{Value, json};
use zk_testkit::rules::{Dialect, Rule, check};

use crate::rules::with;

/// A request that calls `f` twice and answers both: legal in every respect.
fn request() -> Value {
    let call = |id: &str, call: &str| json!({"type": "function_call", "id": id, "call_id": call, "name": "f", "arguments": "{}"});
    json!({
        "model": "m",
        "instructions": "Be brief.",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "seal"},
            call("fc_1", "a"),
            call("fc_2", "b"),
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            {"role": "user", "content": "and?"},
        ],
    })
}

fn broken(dialect: Dialect, pointer: &str, value: &Value) -> Rule {
    match check(dialect, &with(request(), pointer, value.clone())) {
        Err(violation) => violation.rule,
        Ok(()) => panic!("{pointer} = {value} is accepted"),
    }
}

#[test]
fn a_proper_request_is_accepted() {
    assert_eq!(check(Dialect::Responses, &request()), Ok(()));
    assert_eq!(check(Dialect::Codex, &request()), Ok(()));
    let short = json!({"model": "m", "input": "hello"});
    assert_eq!(check(Dialect::Responses, &short), Ok(()));
    let kept = with(request(), "/store", json!(true));
    let kept = with(kept, "/input/1/encrypted_content", json!(null));
    assert_eq!(check(Dialect::Responses, &kept), Ok(()), "a stored item is known by its id");
    let limited = with(request(), "/max_output_tokens", json!(16));
    assert_eq!(check(Dialect::Responses, &limited), Ok(()));
}

#[test]
fn responses_rejects_what_breaks_a_rule() {
    let image = |url: &str| json!({"type": "input_image", "image_url": url});
    let strict = json!({"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true});
    let wrapped = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let table = [
        ("/model", json!(null), Rule::NoModel),
        ("/max_output_tokens", json!(15), Rule::Parameter),
        ("/prompt_cache_key", json!("k".repeat(65)), Rule::Parameter),
        ("/temperature", json!(3), Rule::Parameter),
        ("/max_tokens", json!(100), Rule::Parameter),
        ("/messages", json!([]), Rule::Parameter),
        ("/stream_options", json!({"include_usage": true}), Rule::Parameter),
        ("/reasoning/effort", json!("utmost"), Rule::ThinkingParams),
        ("/reasoning/summary", json!("long"), Rule::ThinkingParams),
        ("/tools/0", wrapped, Rule::ToolName),
        ("/tools/0", strict, Rule::ToolSchema),
        ("/tools/0/name", json!("no spaces"), Rule::ToolName),
        ("/tools/-", request()["tools"][0].clone(), Rule::ToolName),
        ("/tools/0/parameters", json!({}), Rule::ToolSchema),
        ("/tools/0/type", json!("tool"), Rule::Shape),
        ("/tool_choice", json!({"type": "function", "name": "g"}), Rule::ToolChoice),
        ("/tool_choice", json!("any"), Rule::ToolChoice),
        ("/input", json!(null), Rule::NoMessages),
        ("/input", json!([]), Rule::NoMessages),
        ("/input", json!(" "), Rule::EmptyText),
        ("/input", json!(7), Rule::Shape),
        ("/input/0", json!(null), Rule::FirstNotUser),
        ("/input/7", json!(null), Rule::LastNotUser),
        ("/input/0/role", json!("tool"), Rule::Role),
        ("/input/0/content", json!([]), Rule::EmptyMessage),
        ("/input/0/content", json!(""), Rule::EmptyText),
        ("/input/0/content/0/text", json!(" "), Rule::EmptyText),
        ("/input/0/content/0/type", json!("output_text"), Rule::Shape),
        ("/input/0/content/0/type", json!("text"), Rule::Shape),
        ("/input/0/content/0", image("data:image/png;base64,"), Rule::Media),
        ("/input/1/encrypted_content", json!(null), Rule::Thinking),
        ("/input/1/summary", json!(null), Rule::Shape),
        ("/input/1/id", json!("reasoning_1"), Rule::IllegalId),
        ("/input/2/id", json!("call_1"), Rule::IllegalId),
        ("/input/2/id", json!(format!("fc_{}", "x".repeat(62))), Rule::IllegalId),
        ("/input/2/id", json!("fc_2"), Rule::DuplicateId),
        ("/input/2/call_id", json!("x".repeat(65)), Rule::IllegalId),
        ("/input/2/call_id", json!(""), Rule::IllegalId),
        ("/input/2/call_id", json!("b"), Rule::DuplicateId),
        ("/input/2/name", json!("no spaces"), Rule::ToolName),
        ("/input/2/arguments", json!("{\"a"), Rule::Arguments),
        ("/input/2/arguments", json!({}), Rule::Arguments),
        ("/input/2", json!(null), Rule::OrphanResult),
        ("/input/4", json!(null), Rule::UnansweredCall),
        ("/input/5/call_id", json!("a"), Rule::DuplicateResult),
        ("/input/5/call_id", json!(null), Rule::Shape),
        ("/input/5/output", json!(null), Rule::Shape),
        ("/input/5/output", json!(""), Rule::EmptyText),
        ("/input/5/output/0/type", json!("text"), Rule::Shape),
        ("/input/6/id", json!("m_1"), Rule::IllegalId),
        ("/input/6/content/0/type", json!("input_text"), Rule::Shape),
        ("/input/7/content", json!("a\u{0}b"), Rule::Nul),
        ("/input/7/type", json!("tool_result"), Rule::Shape),
    ];
    for (pointer, value, rule) in table {
        assert_eq!(broken(Dialect::Responses, pointer, &value), rule, "{pointer} = {value}");
    }
}

#[test]
fn reasoning_stands_directly_before_what_it_led_to() {
    let item = request()["input"][1].clone();
    for place in [4, 7] {
        let mut body = with(request(), "/input/1", json!(null));
        body["input"].as_array_mut().unwrap().insert(place - 1, item.clone());
        let violation = check(Dialect::Responses, &body).unwrap_err();
        assert_eq!(violation.rule, Rule::Thinking, "before item {place}");
        assert_eq!(
            violation.to_string(),
            "Item 'rs_1' of type 'reasoning' was provided without its required following item."
        );
    }
}

#[test]
fn the_back_end_of_subscriptions_takes_less() {
    let table = [
        ("/store", json!(true)),
        ("/store", json!(null)),
        ("/stream", json!(false)),
        ("/instructions", json!(null)),
        ("/max_output_tokens", json!(1000)),
        ("/temperature", json!(1)),
        ("/previous_response_id", json!("resp_1")),
        ("/prompt_cache_retention", json!("24h")),
    ];
    for (pointer, value) in table {
        assert_eq!(broken(Dialect::Codex, pointer, &value), Rule::Parameter, "{pointer} = {value}");
        let elsewhere = check(Dialect::Responses, &with(request(), pointer, value));
        assert_eq!(elsewhere, Ok(()), "{pointer} is the API's");
    }
}
