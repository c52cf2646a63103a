use serde_json::{Value, json};
use zk_core::model::{ErrorKind, StopReason, Usage};
use zk_testkit::rules::{Dialect, Rule, Strictness};
use zk_testkit::{FakeServer, Script, Turn};

use crate::client::{End, anthropic, anthropic_until_silent, chat, send};

fn hello(dialect: Dialect) -> Value {
    let messages = json!([{"role": "user", "content": "hello"}]);
    match dialect {
        Dialect::Anthropic => {
            json!({"model": "m", "max_tokens": 100, "stream": true, "messages": messages})
        }
        Dialect::Chat => json!({
            "model": "m",
            "stream": true,
            "stream_options": {"include_usage": true},
            "messages": messages,
        }),
        other => panic!("{other:?} has tests of its own"),
    }
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

pub(crate) fn rich() -> Script {
    let usage =
        Usage { input: 10, output: 7, cache_read: 3, cache_write: 2, reasoning: 4, ..Usage::default() };
    Script::new().turn(|t| {
        t.signed_thinking("hm", "proof")
            .chunks(["Let me ", "look."])
            .call("read_file", json!({"path": "a"}))
            .usage(usage)
    })
}

#[test]
fn an_anthropic_stream_has_the_event_order_of_the_real_one() {
    let server = FakeServer::start(rich()).unwrap();
    let answer = anthropic(&server, &hello(Dialect::Anthropic));
    assert_eq!((answer.status, &answer.end), (200, &End::Complete));
    assert!(answer.header("content-type").unwrap().starts_with("text/event-stream"));
    assert_eq!(answer.header("request-id"), Some("req_1"));
    let events = answer.events();
    assert_eq!(
        types(&events),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert_eq!(events[4]["delta"], json!({"type": "signature_delta", "signature": "proof"}));
    assert_eq!(events[10]["content_block"]["id"], "toolu_1");
    assert_eq!(events[11]["delta"]["partial_json"], "");
    assert_eq!(events[12]["delta"]["partial_json"], r#"{"path":"a"}"#);
    assert_eq!(events[14]["delta"]["stop_reason"], "tool_use");
    let usage = &events[14]["usage"];
    assert_eq!(
        (usage["input_tokens"].as_u64(), usage["cache_read_input_tokens"].as_u64()),
        (Some(10), Some(3))
    );
}

#[test]
fn a_chat_stream_has_the_chunks_of_the_real_one() {
    let server = FakeServer::start(rich()).unwrap();
    let answer = chat(&server, &hello(Dialect::Chat));
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let events = answer.events();
    let delta = |at: usize| &events[at]["choices"][0]["delta"];
    assert_eq!(delta(0)["role"], "assistant");
    assert_eq!(delta(1)["reasoning_content"], "hm");
    assert_eq!(delta(2)["content"], "Let me ");
    assert_eq!(delta(4)["tool_calls"][0]["id"], "call_1");
    assert_eq!(delta(5)["tool_calls"][0], json!({"index": 0, "function": {"arguments": r#"{"path":"a"}"#}}));
    assert_eq!(events[6]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(events[7]["choices"], json!([]));
    assert_eq!(events[7]["usage"]["prompt_tokens"], 15, "prompt counts include the cache in this format");
}

#[test]
fn a_request_that_does_not_stream_gets_one_body() {
    let script = Script::new().turn(|t| t.text("one").call("f", json!({"a": 1}))).turn(|t| t.text("two"));
    let server = FakeServer::start(script).unwrap();
    let mut body = hello(Dialect::Anthropic);
    body["stream"] = json!(false);
    let message = anthropic(&server, &body).json();
    assert_eq!(message["content"][1]["input"], json!({"a": 1}));
    assert_eq!(message["stop_reason"], "tool_use");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]});
    let message = chat(&server, &body).json();
    assert_eq!(message["choices"][0]["message"]["content"], "two");
}

#[test]
fn a_computed_turn_sees_the_same_in_both_formats() {
    let script = Script::answering(|asked| {
        let result = asked.result_of("f").map(|result| result.text).unwrap_or_default();
        Turn::new().text(format!(
            "{}/{}/{result}/{}",
            asked.system,
            asked.tools.join("+"),
            asked.last_user_text()
        ))
    });
    let server = FakeServer::start(script).unwrap();
    let text = |events: &[Value], at: &str| -> String {
        events.iter().filter_map(|event| event.pointer(at)?.as_str().map(str::to_owned)).collect()
    };
    let body = json!({
        "model": "m", "max_tokens": 100, "stream": true, "system": [{"type": "text", "text": "S"}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "42"}]},
        ],
    });
    assert_eq!(text(&anthropic(&server, &body).events(), "/delta/text"), "S/f/42/go");
    let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let body = json!({
        "model": "m", "stream": true,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "x", "content": "42"},
        ],
    });
    assert_eq!(text(&chat(&server, &body).events(), "/choices/0/delta/content"), "S/f/42/go");
}

#[test]
fn a_request_that_breaks_a_rule_is_answered_400_and_uses_up_no_turn() {
    let server = FakeServer::start(Script::new().turn(|t| t.text("hello"))).unwrap();
    let mut body = hello(Dialect::Anthropic);
    body["messages"][0]["role"] = json!("assistant");
    let answer = anthropic(&server, &body);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    assert_eq!(server.violations()[0].rule, Rule::FirstNotUser);
    assert_eq!(anthropic(&server, &hello(Dialect::Anthropic)).status, 200);
    let requests = server.requests();
    assert_eq!((requests[0].status, requests[1].status), (Some(400), Some(200)));
    assert_eq!(requests[0].json(), body);
    assert_eq!(requests[0].header("x-api-key"), Some("secret"));
}

#[test]
fn a_lenient_server_takes_everything() {
    let server = FakeServer::builder(Script::new().turn(|t| t.text("fine"))).lenient().start().unwrap();
    let mut body = hello(Dialect::Anthropic);
    body["messages"][0]["role"] = json!("assistant");
    assert_eq!(anthropic(&server, &body).status, 200);
}

#[test]
fn a_missing_or_wrong_key_is_401() {
    let server = FakeServer::builder(rich()).require_key("other").start().unwrap();
    let answer = anthropic(&server, &hello(Dialect::Anthropic));
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (401, &json!("authentication_error")));
    let answer = chat(&server, &hello(Dialect::Chat));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    let answer = send(&server, "GET", "/v1/models", "", b"");
    assert_eq!(answer.status, 401);
    let server = FakeServer::builder(rich()).require_key("secret").start().unwrap();
    assert_eq!(anthropic(&server, &hello(Dialect::Anthropic)).status, 200);
}

#[test]
fn an_unknown_model_is_404() {
    let server = FakeServer::builder(rich()).models(["known"]).start().unwrap();
    let answer = anthropic(&server, &hello(Dialect::Anthropic));
    assert_eq!((answer.status, &answer.json()["error"]["message"]), (404, &json!("model: m")));
    let answer = chat(&server, &hello(Dialect::Chat));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[test]
fn models_and_token_counts_are_answered_in_the_dialect_of_the_client() {
    let server = FakeServer::builder(rich()).models(["m", "n"]).start().unwrap();
    let version = "anthropic-version: 2023-06-01\r\n";
    assert_eq!(send(&server, "GET", "/v1/models", version, b"").json()["data"][1]["type"], "model");
    assert_eq!(send(&server, "GET", "/v1/models", "", b"").json()["data"][1]["object"], "model");
    assert_eq!(send(&server, "GET", "/v1/models/m", "", b"").json()["id"], "m");
    assert_eq!(send(&server, "GET", "/v1/models/x", "", b"").status, 404);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let count = send(&server, "POST", "/v1/messages/count_tokens", version, body.as_bytes());
    assert!(count.json()["input_tokens"].as_u64().unwrap() > 0, "{}", count.text());
    assert_eq!(server.requests().iter().filter(|request| request.number.is_some()).count(), 0);
}

#[test]
fn mistral_calls_have_ids_of_nine_letters_and_digits() {
    let server = FakeServer::builder(rich()).strictness(Strictness::mistral()).start().unwrap();
    let events = chat(&server, &hello(Dialect::Chat)).events();
    assert_eq!(events[4]["choices"][0]["delta"]["tool_calls"][0]["id"], "call00001");
}

#[test]
fn scripted_errors_are_reported_as_the_provider_does() {
    let kinds = [
        (ErrorKind::Rate, 429, 429),
        (ErrorKind::Quota, 402, 429),
        (ErrorKind::Overloaded, 529, 503),
        (ErrorKind::ContextExceeded, 400, 400),
        (ErrorKind::Auth, 401, 401),
        (ErrorKind::Rejected, 400, 400),
    ];
    for (kind, in_anthropic, in_chat) in kinds {
        let script = Script::answering(move |_| Turn::new().error(kind, "sorry"));
        let server = FakeServer::start(script).unwrap();
        assert_eq!(anthropic(&server, &hello(Dialect::Anthropic)).status, in_anthropic, "{kind:?}");
        assert_eq!(chat(&server, &hello(Dialect::Chat)).status, in_chat, "{kind:?}");
    }
    let script = Script::new().turn(|t| t.text("half").error(ErrorKind::Overloaded, "sorry"));
    let answer = anthropic(&FakeServer::start(script).unwrap(), &hello(Dialect::Anthropic));
    let events = answer.events();
    assert_eq!(events.last().unwrap()["error"]["type"], "overloaded_error");
    let script = Script::new().turn(|t| t.error(ErrorKind::Transport, "gone"));
    let answer = anthropic(&FakeServer::start(script).unwrap(), &hello(Dialect::Anthropic));
    assert_eq!((answer.status, answer.end), (0, End::Reset));
}

#[test]
fn past_the_end_of_the_script_the_answer_says_so() {
    let server = FakeServer::start(Script::new()).unwrap();
    let answer = chat(&server, &hello(Dialect::Chat));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("script_ended")));
}

#[test]
fn stop_reasons_have_the_words_of_the_dialect() {
    let reasons = [
        (StopReason::MaxTokens, "max_tokens", "length"),
        (StopReason::Refusal(None), "refusal", "content_filter"),
        (StopReason::Other("odd".into()), "odd", "odd"),
    ];
    for (reason, in_anthropic, in_chat) in reasons {
        let script = Script::answering(move |_| Turn::new().text("x").stop(reason.clone()));
        let server = FakeServer::start(script).unwrap();
        assert!(
            anthropic(&server, &hello(Dialect::Anthropic)).text().contains(&format!("\"{in_anthropic}\""))
        );
        assert!(chat(&server, &hello(Dialect::Chat)).text().contains(&format!("\"{in_chat}\"")));
    }
}

#[test]
fn a_bulk_answer_is_complete_and_well_formed() {
    let server = FakeServer::builder(Script::new()).bulk(5_000, "twenty bytes of text").start().unwrap();
    let events = anthropic(&server, &hello(Dialect::Anthropic)).events();
    let deltas = events.iter().filter(|event| event["type"] == "content_block_delta").count();
    assert_eq!((deltas, types(&events).last()), (5_000, Some(&"message_stop")));
    let events = chat(&server, &hello(Dialect::Chat)).events();
    let deltas =
        events.iter().filter(|event| event["choices"][0]["delta"]["content"] == "twenty bytes of text");
    assert_eq!(deltas.count(), 5_000);
}

#[test]
fn a_paced_answer_that_the_client_leaves_is_noticed() {
    let server = FakeServer::start(Script::new().turn(|t| t.text("one moment").hang())).unwrap();
    assert_eq!(anthropic_until_silent(&server, &hello(Dialect::Anthropic)).end, End::Silence);
    let gone = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        server.abandoned() == 1
    });
    assert!(gone);
}
