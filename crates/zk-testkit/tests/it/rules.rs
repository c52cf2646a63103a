use serde_json::{Value, json};
use zk_testkit::rules::{Dialect, Rule, Strictness, check, check_with};

/// A request that calls `f` twice and answers both: legal in every respect.
fn anthropic() -> Value {
    json!({
        "model": "m",
        "max_tokens": 4096,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "proof"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}], "is_error": true},
                {"type": "text", "text": "and?"},
            ]},
        ],
    })
}

pub(crate) fn chat() -> Value {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    json!({
        "model": "m",
        "max_completion_tokens": 100,
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": [{"type": "text", "text": "and?"}]},
        ],
    })
}

/// The request with the value at `pointer` replaced; `null` removes it.
pub(crate) fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Object(fields) if value.is_null() => drop(fields.remove(key)),
        Value::Object(fields) => drop(fields.insert(key.to_owned(), value)),
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) if value.is_null() => drop(items.remove(key.parse().unwrap())),
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => panic!("{pointer} is in {other}"),
    }
    body
}

fn broken(dialect: Dialect, pointer: &str, value: &Value) -> Rule {
    let body = match dialect {
        Dialect::Anthropic => with(anthropic(), pointer, value.clone()),
        Dialect::Chat => with(chat(), pointer, value.clone()),
        other => panic!("{other:?} has tests of its own"),
    };
    match check(dialect, &body) {
        Err(violation) => violation.rule,
        Ok(()) => panic!("{pointer} = {value} is accepted"),
    }
}

#[test]
fn a_proper_request_is_accepted() {
    assert_eq!(check(Dialect::Anthropic, &anthropic()), Ok(()));
    assert_eq!(check(Dialect::Chat, &chat()), Ok(()));
}

#[test]
fn anthropic_rejects_what_breaks_a_rule() {
    let marked = |kind: Value| with(kind, "/cache_control", json!({"type": "ephemeral"}));
    let text = |text: &str| json!({"type": "text", "text": text});
    let png = |size: usize| {
        let source = json!({"type": "base64", "media_type": "image/png", "data": "A".repeat(size)});
        json!({"type": "image", "source": source})
    };
    assert_eq!(check(Dialect::Anthropic, &with(anthropic(), "/messages/2/content/2", png(5 << 20))), Ok(()));
    let table = [
        ("/model", json!(null), Rule::NoModel),
        ("/max_tokens", json!(null), Rule::NoMaxTokens),
        ("/max_tokens", json!(0), Rule::Parameter),
        ("/temperature", json!(1.5), Rule::Parameter),
        ("/messages", json!([]), Rule::NoMessages),
        ("/messages", json!("no list"), Rule::Shape),
        ("/messages/0", json!(null), Rule::FirstNotUser),
        ("/messages/2", json!(null), Rule::LastNotUser),
        ("/messages/0/role", json!("system"), Rule::Role),
        ("/messages/0/role", json!("tool"), Rule::Role),
        ("/messages/0/content", json!(""), Rule::EmptyText),
        ("/messages/0/content", json!([]), Rule::EmptyMessage),
        ("/messages/0/content", json!([text("")]), Rule::EmptyText),
        ("/messages/0/content", json!([text(" \n")]), Rule::EmptyText),
        (
            "/messages/0/content",
            json!([{"type": "tool_use", "id": "z", "name": "f", "input": {}}]),
            Rule::Role,
        ),
        ("/messages/1/content/1/text", json!("a\u{0}b"), Rule::Nul),
        ("/messages/1/content/0/signature", json!(""), Rule::Thinking),
        ("/messages/1/content/2/id", json!("not legal!"), Rule::IllegalId),
        ("/messages/1/content/2/id", json!("x".repeat(65)), Rule::IllegalId),
        ("/messages/1/content/2/id", json!("b"), Rule::DuplicateId),
        ("/messages/1/content/2/input", json!("{}"), Rule::Arguments),
        ("/messages/1/content/2/name", json!("no spaces"), Rule::ToolName),
        ("/messages/1/content/2", json!(null), Rule::OrphanResult),
        ("/messages/1/content/-", json!({"type": "image"}), Rule::Role),
        ("/messages/2/content/1", json!(null), Rule::UnansweredCall),
        ("/messages/2/content/0/tool_use_id", json!("c"), Rule::OrphanResult),
        ("/messages/2/content/1/tool_use_id", json!("a"), Rule::DuplicateResult),
        ("/messages/2/content/0", text("first"), Rule::ResultsNotFirst),
        ("/messages/2/content/1/content/0/text", json!(""), Rule::EmptyText),
        ("/messages/2/content/1/content/0", json!({"type": "image"}), Rule::MediaInError),
        (
            "/messages/2/content/2",
            json!({"type": "image", "source": {"type": "base64", "data": ""}}),
            Rule::Media,
        ),
        ("/messages/2/content/2", png((5 << 20) + 1), Rule::Media),
        (
            "/messages/2/content/2",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "AAAA"}}),
            Rule::Media,
        ),
        (
            "/messages/2/content/2",
            json!({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "AAAA"}}),
            Rule::Media,
        ),
        ("/messages/2/content/2", marked(text("")), Rule::EmptyText),
        (
            "/messages/1/content/0",
            marked(anthropic()["messages"][1]["content"][0].clone()),
            Rule::CacheMarker,
        ),
        ("/system", json!([text("")]), Rule::EmptyText),
        ("/system", json!(vec![marked(text("s")); 5]), Rule::TooManyCacheMarkers),
        ("/tools", json!(null), Rule::ToolsMissing),
        ("/tools/0/name", json!("no spaces"), Rule::ToolName),
        ("/tools/-", anthropic()["tools"][0].clone(), Rule::ToolName),
        ("/tools/0/input_schema/type", json!(null), Rule::ToolSchema),
        ("/tools/0/input_schema/oneOf", json!([]), Rule::ToolSchema),
        ("/tool_choice", json!({"type": "tool", "name": "g"}), Rule::ToolChoice),
        ("/thinking", json!({"type": "enabled", "budget_tokens": 100}), Rule::ThinkingParams),
        ("/thinking", json!({"type": "enabled", "budget_tokens": 4096}), Rule::ThinkingParams),
        ("/thinking", json!({"type": "on"}), Rule::ThinkingParams),
    ];
    for (pointer, value, rule) in table {
        assert_eq!(broken(Dialect::Anthropic, pointer, &value), rule, "{pointer} = {value}");
    }
}

#[test]
fn chat_rejects_what_breaks_a_rule() {
    let table = [
        ("/model", json!(null), Rule::NoModel),
        ("/max_tokens", json!(5), Rule::Parameter),
        ("/stream", json!(false), Rule::Parameter),
        ("/temperature", json!(3), Rule::Parameter),
        ("/messages", json!([]), Rule::NoMessages),
        ("/messages", json!([{"role": "system", "content": "alone"}]), Rule::NoMessages),
        ("/messages/1", json!(null), Rule::FirstNotUser),
        ("/messages/1/role", json!("model"), Rule::Role),
        ("/messages/1/content", json!(" "), Rule::EmptyText),
        ("/messages/1/content", json!([]), Rule::EmptyMessage),
        ("/messages/1/content", json!(null), Rule::Shape),
        ("/messages/5/content/0/text", json!(""), Rule::EmptyText),
        ("/messages/5/content/0", json!({"type": "image_url", "image_url": {"url": "data:x"}}), Rule::Media),
        (
            "/messages/5/content/0",
            json!({"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,AAAA"}}),
            Rule::Media,
        ),
        ("/messages/2/tool_calls", json!([]), Rule::EmptyMessage),
        ("/messages/2/tool_calls", json!(null), Rule::EmptyMessage),
        ("/messages/2/content", json!([{"type": "text", "text": "part"}]), Rule::Shape),
        ("/messages/2/tool_calls/0/id", json!("x".repeat(41)), Rule::IllegalId),
        ("/messages/2/tool_calls/0/id", json!(""), Rule::IllegalId),
        ("/messages/2/tool_calls/0/id", json!("b"), Rule::DuplicateId),
        ("/messages/2/tool_calls/0/function/arguments", json!("{\"a"), Rule::Arguments),
        ("/messages/2/tool_calls/0/function/arguments", json!({}), Rule::Arguments),
        ("/messages/2/tool_calls/0/function/name", json!(""), Rule::ToolName),
        ("/messages/2/tool_calls/0", json!(null), Rule::OrphanResult),
        ("/messages/3", json!(null), Rule::UnansweredCall),
        ("/messages/4/tool_call_id", json!("a"), Rule::DuplicateResult),
        ("/messages/4/content", json!(""), Rule::EmptyText),
        ("/messages/4/content", json!([{"type": "image_url"}]), Rule::Media),
        ("/messages/-", json!({"role": "assistant", "content": "I was"}), Rule::LastNotUser),
        ("/messages/-", json!({"role": "tool", "tool_call_id": "a", "content": "late"}), Rule::OrphanResult),
        ("/tools", json!(null), Rule::ToolsMissing),
        ("/tools", json!([]), Rule::Shape),
        ("/tools/0/function/name", json!("no spaces"), Rule::ToolName),
        ("/tools/0/function/parameters", json!({}), Rule::ToolSchema),
        ("/tool_choice", json!({"type": "function", "function": {"name": "g"}}), Rule::ToolChoice),
    ];
    for (pointer, value, rule) in table {
        assert_eq!(broken(Dialect::Chat, pointer, &value), rule, "{pointer} = {value}");
    }
}

#[test]
fn thinking_with_a_budget_does_not_go_with_a_forced_tool() {
    let body = with(anthropic(), "/thinking", json!({"type": "enabled", "budget_tokens": 1024}));
    assert_eq!(check(Dialect::Anthropic, &body), Ok(()));
    let body = with(body, "/tool_choice", json!({"type": "any"}));
    assert_eq!(check(Dialect::Anthropic, &body).unwrap_err().rule, Rule::ToolChoice);
    let body = with(body, "/thinking", json!({"type": "adaptive"}));
    assert_eq!(check(Dialect::Anthropic, &body), Ok(()));
}

#[test]
fn with_a_budget_an_unfinished_tool_loop_begins_with_thinking() {
    let body = with(anthropic(), "/thinking", json!({"type": "enabled", "budget_tokens": 1024}));
    let body = with(body, "/messages/1/content/0", json!(null));
    assert_eq!(check(Dialect::Anthropic, &body).unwrap_err().rule, Rule::Thinking);
    let next = json!([{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}]);
    let mut messages = body["messages"].as_array().unwrap().clone();
    messages.extend(next.as_array().unwrap().clone());
    let body = with(body, "/messages", messages.into());
    assert_eq!(check(Dialect::Anthropic, &body), Ok(()), "the loop is over");
}

#[test]
fn anthropic_merges_messages_of_one_role_and_strict_gateways_do_not() {
    let body = with(anthropic(), "/messages/-", json!({"role": "user", "content": "and?"}));
    assert_eq!(check(Dialect::Anthropic, &body), Ok(()));
    let violation = check_with(&Strictness::anthropic().alternating(), &body).unwrap_err();
    assert_eq!(violation.rule, Rule::SameRole);
    let body = with(chat(), "/messages/-", json!({"role": "user", "content": "and?"}));
    assert_eq!(check(Dialect::Chat, &body), Ok(()));
    assert_eq!(check_with(&Strictness::chat().alternating(), &body).unwrap_err().rule, Rule::SameRole);
}

#[test]
fn mistral_wants_ids_of_nine_letters_and_digits() {
    let violation = check_with(&Strictness::mistral(), &chat()).unwrap_err();
    assert_eq!(violation.rule, Rule::IllegalId);
    assert_eq!(violation.to_string(), "Tool call id was a but must be a-z, A-Z, 0-9, with a length of 9.");
}

#[test]
fn a_violation_reads_as_the_provider_writes_it() {
    let body = with(anthropic(), "/messages/2/content/1", json!(null));
    assert_eq!(
        check(Dialect::Anthropic, &body).unwrap_err().to_string(),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b. Each `tool_use` \
         block must have a corresponding `tool_result` block in the next message."
    );
    let body = with(chat(), "/messages/4", json!(null));
    assert_eq!(
        check(Dialect::Chat, &body).unwrap_err().to_string(),
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: b"
    );
}

#[test]
fn the_caller_decides_about_prefill_and_missing_tools() {
    let open = Strictness { prefill: true, tools_for_history: false, ..Strictness::anthropic() };
    let body = with(anthropic(), "/tools", json!(null));
    let body = with(body, "/messages/-", json!({"role": "assistant", "content": "I was"}));
    assert_eq!(check_with(&open, &body), Ok(()));
}
