use serde_json::{Value, json};
use zk_testkit::rules::{Dialect, Rule, check};

use crate::rules::with;

/// A request that calls `f` twice and answers both: legal in every respect.
fn request() -> Value {
    let call = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": {}}});
    json!({
        "model": "m",
        "stream": true,
        "think": true,
        "options": {"num_ctx": 4096, "num_predict": 100},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "content": "1", "tool_name": "f", "tool_call_id": "a"},
            {"role": "tool", "content": "2", "tool_name": "f"},
            {"role": "user", "content": "and?", "images": ["AAAA"]},
        ],
    })
}

#[test]
fn a_proper_request_is_accepted() {
    assert_eq!(check(Dialect::Ollama, &request()), Ok(()));
    let body = with(request(), "/think", json!("high"));
    assert_eq!(check(Dialect::Ollama, &with(body, "/format", json!("json"))), Ok(()));
}

#[test]
fn ollama_rejects_what_breaks_a_rule() {
    let table = [
        ("/model", json!(null), Rule::NoModel),
        ("/max_tokens", json!(5), Rule::Parameter),
        ("/tool_choice", json!("required"), Rule::Parameter),
        ("/options", json!([]), Rule::Parameter),
        ("/options/num_ctx", json!(0), Rule::Parameter),
        ("/options/num_predict", json!("many"), Rule::Parameter),
        ("/think", json!("utmost"), Rule::ThinkingParams),
        ("/format", json!("xml"), Rule::Parameter),
        ("/tools", json!({}), Rule::Shape),
        ("/tools/0/function/name", json!("no spaces"), Rule::ToolName),
        ("/tools/-", request()["tools"][0].clone(), Rule::ToolName),
        ("/tools/0/function/parameters", json!({}), Rule::ToolSchema),
        ("/messages", json!([]), Rule::NoMessages),
        ("/messages", json!("go"), Rule::Shape),
        ("/messages", json!([{"role": "system", "content": "alone"}]), Rule::NoMessages),
        ("/messages/1", json!(null), Rule::FirstNotUser),
        ("/messages/1/role", json!("model"), Rule::Role),
        ("/messages/1/content", json!(" "), Rule::EmptyText),
        ("/messages/1/content", json!([{"type": "text", "text": "go"}]), Rule::Shape),
        ("/messages/2/images", json!(["AAAA"]), Rule::Media),
        ("/messages/2/tool_calls", json!({}), Rule::Shape),
        ("/messages/2/tool_calls/0/function/arguments", json!("{}"), Rule::Arguments),
        ("/messages/2/tool_calls/0/function/name", json!(""), Rule::ToolName),
        ("/messages/2/tool_calls/0/id", json!("not legal!"), Rule::IllegalId),
        ("/messages/2/tool_calls/0/id", json!("b"), Rule::DuplicateId),
        ("/messages/2/tool_calls/0", json!(null), Rule::OrphanResult),
        ("/messages/3", json!(null), Rule::UnansweredCall),
        ("/messages/3/tool_call_id", json!("c"), Rule::OrphanResult),
        ("/messages/4/tool_name", json!(null), Rule::Shape),
        ("/messages/4/tool_name", json!("g"), Rule::OrphanResult),
        ("/messages/4/content", json!(""), Rule::EmptyText),
        ("/messages/5/images", json!(["data:image/png;base64,AAAA"]), Rule::Media),
        ("/messages/5/images", json!([""]), Rule::Media),
        ("/messages/5/images", json!("AAAA"), Rule::Shape),
        ("/messages/-", json!({"role": "assistant", "content": "I was"}), Rule::LastNotUser),
        ("/messages/5/content", json!("a\u{0}b"), Rule::Nul),
    ];
    for (pointer, value, rule) in table {
        match check(Dialect::Ollama, &with(request(), pointer, value.clone())) {
            Err(violation) => assert_eq!(violation.rule, rule, "{pointer} = {value}"),
            Ok(()) => panic!("{pointer} = {value} is accepted"),
        }
    }
}
