//! What single vendors want and do, one habit a test.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, ErrorKind, Image, Message, Model, ModelRef, ProviderError, StopReason, Thinking, ThinkingLevel,
    ThinkingRequest, ToolCall, ToolSpec, WireData,
};
use zk_core::service::{Provider, Request, StreamEvent, ToolChoice};
use zk_providers::{Compat, CompatProfile, Connection, ReasoningEcho, ReasoningFormat, Replay};

use crate::collect::{collect, question, request};
use crate::server::{Reply, Server};
use crate::vendors::{provider, sent};

fn profile(name: &str) -> CompatProfile {
    CompatProfile::named(name).expect("it is in the table")
}

fn tools() -> Arc<[Arc<ToolSpec>]> {
    [ToolSpec::new("now", "The time.", json!({"type": "object", "properties": {}}))].into()
}

fn thought(text: &str, origin: &ModelRef) -> Block {
    Block::Thinking(Thinking { text: text.into(), origin: Some(origin.clone()), ..Thinking::default() })
}

/// Two answers: one of the model itself, with a call, and one of another model.
fn history(origin: &ModelRef) -> Vec<Arc<Message>> {
    let call = Block::ToolCall(ToolCall::new("call_1", "now", json!({})));
    let other = ModelRef::new("other", "model");
    vec![
        Message::user_text("begin").shared(),
        Message::assistant(vec![thought("own", origin), Block::text("Looking."), call]).shared(),
        Message::user(vec![Block::result("call_1", "12:00", false), Block::text("and?")]).shared(),
        Message::assistant(vec![thought("foreign", &other), Block::text("Noon.")]).shared(),
        Message::user_text("go on").shared(),
    ]
}

fn asking(provider: &dyn Provider, model: &str, level: ThinkingLevel) -> Request {
    Request {
        tools: tools(),
        thinking: ThinkingRequest { level, budget: None },
        ..request(provider, model, &history(&provider.model(model).reference()))
    }
}

async fn body(profile: &CompatProfile, model: &str, level: ThinkingLevel) -> Value {
    sent(profile, |provider| asking(provider, model, level)).await.json()
}

fn assistants(body: &Value) -> Vec<&Value> {
    let all = body["messages"].as_array().expect("messages").iter();
    all.filter(|message| message["role"] == "assistant").collect()
}

fn read(name: &str, window: Option<u64>, chunks: &[Value]) -> Result<Vec<StreamEvent>, ProviderError> {
    let model = Model { window, ..Model::unknown("p", "m") };
    let mut replay = Replay::compat(&model, &profile(name));
    for chunk in chunks {
        replay.feed(format!("data: {chunk}\n\n").as_bytes());
    }
    replay.finish();
    let mut events = Vec::new();
    while let Some(event) = replay.next()? {
        events.push(event);
    }
    Ok(events)
}

fn stop(events: &[StreamEvent]) -> Option<&StopReason> {
    match events.last() {
        Some(StreamEvent::Done { stop, .. }) => Some(stop),
        _ => None,
    }
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    let mut chunk = json!({"choices": [{"index": 0, "finish_reason": finish}]});
    chunk["choices"][0]["delta"] = delta;
    chunk
}

#[tokio::test]
async fn every_answer_carries_reasoning_where_the_server_counts_them() {
    for (name, blank) in [("deepseek", ""), ("moonshot", " ")] {
        for level in [ThinkingLevel::High, ThinkingLevel::Off] {
            let body = body(&profile(name), "m", level).await;
            let reasoning: Vec<&Value> =
                assistants(&body).iter().map(|message| &message["reasoning_content"]).collect();
            assert_eq!(reasoning, ["own", blank], "{name}: the bytes are the same at {level:?}");
        }
    }
}

#[tokio::test]
async fn a_forced_call_ends_the_thinking_where_the_two_exclude_each_other() {
    for (name, choice, kind) in [
        ("deepseek", ToolChoice::Auto, "enabled"),
        ("deepseek", ToolChoice::None, "enabled"),
        ("deepseek", ToolChoice::Required, "disabled"),
        ("zai", ToolChoice::Required, "enabled"),
    ] {
        let profile = profile(name);
        let body = sent(&profile, |provider| Request {
            tool_choice: choice.clone(),
            ..asking(provider, "m", ThinkingLevel::High)
        });
        let body = body.await.json();
        assert_eq!(body["thinking"]["type"], kind, "{name} {choice:?}");
        assert_eq!(body["reasoning_effort"].is_string(), kind == "enabled", "{name} {choice:?}");
    }
}

#[tokio::test]
async fn kimi_thinks_and_calls_by_its_generation() {
    for (model, level, thinking, effort, choice) in [
        ("kimi-k2.6", ThinkingLevel::High, "disabled", Value::Null, json!("required")),
        ("kimi-k2.7-code", ThinkingLevel::High, "enabled", json!("high"), Value::Null),
        ("kimi-k3.1-pro", ThinkingLevel::High, "enabled", json!("high"), json!("required")),
        ("kimi-k3.1-pro", ThinkingLevel::Off, "enabled", json!("low"), json!("required")),
    ] {
        let profile = profile("moonshot");
        let body = sent(&profile, |provider| Request {
            tool_choice: ToolChoice::Required,
            ..asking(provider, model, level)
        });
        let body = body.await.json();
        assert_eq!(body["thinking"]["type"], thinking, "{model}");
        assert_eq!((&body["reasoning_effort"], &body["tool_choice"]), (&effort, &choice), "{model}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_stop_thinking_is_asked_for_little() {
    for reasoning in [ReasoningFormat::ThinkingType, ReasoningFormat::TemplateArgs] {
        let profile = CompatProfile { reasoning, ..profile("openai") };
        let body = body(&profile, "gpt-5", ThinkingLevel::Off).await;
        assert_eq!(body["reasoning_effort"], "minimal");
        let is_on = body["thinking"]["type"] == "enabled" || body["chat_template_args"]["thinking"] == true;
        assert!(is_on, "{body}");
    }
}

#[tokio::test]
async fn reasoning_goes_back_in_the_way_the_model_knows() {
    for (name, model, expected) in [
        ("cerebras", "gpt-oss-120b", json!({"content": "Looking.", "reasoning": "own"})),
        ("cerebras", "zai-glm-4.7", json!({"content": "<think>own</think>Looking."})),
        ("cerebras", "qwen-3.8-27b", json!({"content": "Looking."})),
        ("groq", "openai/gpt-oss-20b", json!({"content": "Looking.", "reasoning": "own"})),
        ("openrouter", "z-ai/glm-5.3", json!({"content": "Looking.", "reasoning": "own"})),
        ("openrouter", "DeepSeek/deepseek-v4", json!({"content": "Looking.", "reasoning_content": "own"})),
        (
            "mistral",
            "magistral-medium-latest",
            json!({"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "own"}]},
                {"type": "text", "text": "Looking."},
            ]}),
        ),
    ] {
        let body = body(&profile(name), model, ThinkingLevel::Off).await;
        let mut found = assistants(&body)[0].clone();
        found.as_object_mut().expect("a message").retain(|key, _| key != "role" && key != "tool_calls");
        assert_eq!(found, expected, "{name} {model}");
        assert!(!body.to_string().contains("foreign"), "{name}: thoughts are for who had them");
    }
}

#[tokio::test]
async fn a_user_decides_what_is_echoed_to_a_model() {
    let mut profile = profile("openrouter");
    profile.echo_exactly("deepseek/deepseek-v4", ReasoningEcho::No);
    let silent = body(&profile, "deepseek/deepseek-v4", ThinkingLevel::Off).await;
    assert!(!silent.to_string().contains("own"), "{silent}");
    profile.echo_matching("^mine/", ReasoningEcho::Tags).expect("a regular expression");
    let told = body(&profile, "Mine/deepseek", ThinkingLevel::Off).await;
    assert_eq!(assistants(&told)[0]["content"], "<think>own</think>Looking.");
}

#[tokio::test]
async fn structured_reasoning_goes_back_unchanged_to_its_own_model_only() {
    let details =
        json!([{"type": "reasoning.encrypted", "index": 0, "id": "rs_1", "data": "x", "format": "f"}]);
    let events = read(
        "openrouter",
        None,
        &[
            chunk(json!({"content": "", "reasoning": null, "reasoning_details": details}), None),
            chunk(json!({"content": "So."}), Some("stop")),
        ],
    )
    .expect("a response");
    let blocks: Vec<Block> = events
        .into_iter()
        .filter_map(|event| match event {
            StreamEvent::Block { content, .. } => Some(content),
            _ => None,
        })
        .collect();
    let origin = ModelRef::new("p", "m");
    let wire = Some(WireData { origin: origin.clone(), data: json!({"reasoning_details": details}) });
    let thinking = Thinking { origin: Some(origin.clone()), wire, ..Thinking::default() };
    assert_eq!(blocks, [Block::Thinking(thinking.clone()), Block::text("So.")]);

    let server = Server::start([Reply::sse("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n")]).await;
    let connection = Connection::at(&server.url).named("p");
    let provider = Compat::new(connection, profile("openrouter")).expect("a valid connection");
    for model in ["m", "another"] {
        let history = [
            Message::user_text("begin").shared(),
            Message::assistant(blocks.clone()).shared(),
            Message::user_text("go on").shared(),
        ];
        let stream = provider.stream(request(&provider, model, &history), &Bus::new().cx());
        collect(stream).await.expect("the server answers");
    }
    let sent = server.received();
    assert_eq!(sent[0].json()["messages"][1]["reasoning_details"], details);
    assert_eq!(sent[1].json()["messages"][1], json!({"role": "assistant", "content": "So."}));
}

#[test]
fn text_that_is_only_in_the_details_is_read() {
    let delta = json!({"reasoning_details": [{"type": "reasoning.summary", "index": 0, "summary": "hm"}]});
    let events = read("openrouter", None, &[chunk(delta, Some("stop"))]).expect("a response");
    assert!(events.contains(&StreamEvent::Thinking { block: 0, delta: "hm".into() }), "{events:?}");
}

#[tokio::test]
async fn prefixes_are_marked_only_on_the_routes_that_know_the_marks() {
    for (name, model, marks) in [
        ("openrouter", "anthropic/claude-sonnet-5.5", 3),
        ("openrouter", "~anthropic/claude-sonnet-latest", 3),
        ("openrouter", "google/gemini-3.8-flash", 3),
        ("openrouter", "openai/gpt-6-sol", 0),
        ("openrouter", "x/anthropic/m", 0),
        ("openai_compat", "anthropic/claude-sonnet-5.5", 0),
        ("cerebras", "gpt-oss-120b", 0),
    ] {
        let profile = profile(name);
        let received = sent(&profile, |provider| Request {
            system: "Be brief.".into(),
            ..asking(provider, model, ThinkingLevel::Off)
        });
        let text = String::from_utf8(received.await.body).expect("a body is text");
        assert_eq!(text.matches("cache_control").count(), marks, "{name} {model}");
    }
}

#[tokio::test]
async fn fields_a_server_rejects_are_left_out_whoever_sends_them() {
    let server = Server::start([Reply::sse("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n")]).await;
    let extra = json!({"frequency_penalty": 1, "parallel_tool_calls": true, "top_p": 0.5});
    let connection =
        Connection { extra_body: extra.as_object().cloned().expect("fields"), ..Connection::at(&server.url) };
    let provider = Compat::new(connection, profile("cerebras")).expect("a valid connection");
    collect(provider.stream(question(&provider, "m"), &Bus::new().cx())).await.expect("the server answers");
    let body = server.received()[0].json();
    assert_eq!((&body["frequency_penalty"], &body["parallel_tool_calls"]), (&Value::Null, &Value::Null));
    assert_eq!(body["top_p"], 0.5);
}

#[tokio::test]
async fn fields_about_tools_are_sent_with_tools() {
    let mut profile = profile("zai");
    profile.parallel_tool_calls = Some(false);
    let with = body(&profile, "m", ThinkingLevel::Off).await;
    assert_eq!((&with["tool_stream"], &with["parallel_tool_calls"]), (&json!(true), &json!(false)));
    let without = sent(&profile, |provider| question(provider, "m")).await.json();
    assert_eq!((&without["tool_stream"], &without["parallel_tool_calls"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_connections_own_headers_win_over_those_of_the_vendor() {
    let server = Server::start([Reply::sse("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n")]).await;
    let extra_headers = vec![("x-title".to_owned(), "mine".to_owned())];
    let connection = Connection { extra_headers, ..Connection::at(&server.url) };
    let provider = Compat::new(connection, profile("openrouter")).expect("a valid connection");
    collect(provider.stream(question(&provider, "m"), &Bus::new().cx())).await.expect("the server answers");
    let received = server.received().remove(0);
    assert_eq!(received.header("x-title"), Some("mine"));
    assert_eq!(received.head.to_lowercase().matches("x-title").count(), 1);
    assert_eq!(received.header("x-session-id"), None, "there is no session");
}

#[tokio::test]
async fn deepseek_gets_strings_and_a_word_about_images() {
    let image = Block::Image(Image::new("image/png", "aGk="));
    let profile = profile("deepseek");
    let received = sent(&profile, |provider| {
        let message = Message::user(vec![Block::text("look"), image.clone()]).shared();
        request(provider, "deepseek-v4-flash", &[message])
    });
    let body = received.await.json();
    let content = body["messages"][0]["content"].as_str().expect("a string");
    assert!(content.starts_with("look\n\n[image omitted"), "{content}");
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_letters_and_digits() {
    let body = body(&profile("mistral"), "m", ThinkingLevel::Off).await;
    let id = body["messages"][1]["tool_calls"][0]["id"].as_str().expect("an id");
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["messages"][2]["tool_call_id"], id);
}

#[test]
fn an_error_beside_its_code_keeps_the_code() {
    let error =
        read("xai", None, &[json!({"code": "invalid-argument", "error": "no such thing"})]).unwrap_err();
    assert_eq!((error.code.as_deref(), &*error.message), (Some("invalid-argument"), "no such thing"));
}

#[tokio::test]
async fn a_call_groq_could_not_read_is_worth_a_retry() {
    let error = json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "<function=now>\nprompt is too long"}});
    let in_stream = read("groq", None, &[chunk(json!({"content": "x"}), None), error.clone()]).unwrap_err();
    let server = Server::start([Reply::json("400 Bad Request", error.to_string())]).await;
    let provider = provider(&server.url, profile("groq"));
    let stream = provider.stream(question(&*provider, "m"), &Bus::new().cx());
    let (at_once, _) = collect(stream).await.expect_err("an error status is an error");
    for error in [in_stream, at_once] {
        assert_eq!((error.code.as_deref(), error.should_retry), (Some("tool_use_failed"), Some(true)));
        assert_ne!(error.kind, ErrorKind::ContextExceeded, "that is what the model wrote");
        assert!(error.message.contains("The model wrote: <function=now> prompt is too long"), "{error}");
    }
}

#[test]
fn a_full_window_is_seen_however_it_is_said() {
    let said = |usage: u64| {
        let usage = json!({"prompt_tokens": usage, "completion_tokens": 2});
        let mut last = chunk(json!({"content": "hm"}), Some("stop"));
        last["usage"] = usage;
        last
    };
    let silent = read("zai", Some(100), &[said(101)]).expect("a response");
    assert_eq!(stop(&silent), Some(&StopReason::ContextExceeded));
    for fits in [read("zai", Some(100), &[said(97)]), read("deepseek", Some(100), &[said(101)])] {
        assert_eq!(stop(&fits.expect("a response")), Some(&StopReason::EndTurn));
    }
    let mut native = chunk(json!({"content": "hm"}), Some("length"));
    native["choices"][0]["native_finish_reason"] = "model_context_window_exceeded".into();
    let native = read("openrouter", None, &[native]).expect("a response");
    assert_eq!(stop(&native), Some(&StopReason::ContextExceeded));
    for (input, output, expected) in
        [(99, 0, StopReason::ContextExceeded), (98, 0, StopReason::MaxTokens), (99, 1, StopReason::MaxTokens)]
    {
        let mut last = chunk(json!({"content": ""}), Some("length"));
        last["usage"] = json!({"prompt_tokens": input, "completion_tokens": output});
        let ended = read("openai_compat", Some(100), &[last]).expect("a response");
        assert_eq!(stop(&ended), Some(&expected), "{input} in, {output} out");
    }
    let error = json!({"error": {"code": "1261", "message": "Prompt 超长"}});
    assert_eq!(read("zai", None, &[error]).unwrap_err().kind, ErrorKind::ContextExceeded);
}

#[test]
fn an_answer_that_ends_in_an_error_says_which() {
    let mut last = chunk(json!({"content": ""}), Some("error"));
    last["choices"][0]["native_finish_reason"] = "MALFORMED_FUNCTION_CALL".into();
    let error = read("openrouter", None, &[chunk(json!({"content": "x"}), None), last]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Overloaded);
    assert!(error.message.contains("`error` (`MALFORMED_FUNCTION_CALL`)"), "{error}");
    let refused =
        read("zai", None, &[chunk(json!({"content": "x"}), Some("sensitive"))]).expect("a response");
    assert_eq!(stop(&refused), Some(&StopReason::Refusal(None)));
}

#[test]
fn a_second_end_changes_nothing_but_the_counts() {
    let mut last = chunk(json!({"content": "", "role": "assistant"}), Some("tool_calls"));
    last["usage"] = json!({"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.1, "is_byok": false});
    let call =
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "now", "arguments": "{}"}}]});
    let events = read("openrouter", None, &[chunk(call, None), chunk(json!({}), Some("tool_calls")), last]);
    match events.expect("a response").last() {
        Some(StreamEvent::Done { stop: StopReason::ToolUse, usage }) => {
            assert_eq!((usage.input, usage.output, usage.billed), (7, 3, Some(100_000_000)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_gateway_bills_holds_what_the_vendor_takes_from_ones_own_key() {
    for (usage, billed) in [
        (json!({"cost": 0.001_25, "cost_details": {"upstream_inference_cost": 0.001}}), Some(1_250_000)),
        (
            json!({"cost": 0.0005, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.01}}),
            Some(10_500_000),
        ),
        (json!({"cost": 0}), Some(0)),
        (json!({"cost": null}), None),
        (json!({"cost": {"total": 1}}), None),
        (json!({}), None),
    ] {
        let mut last = chunk(json!({"content": "hm"}), Some("stop"));
        last["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 1});
        last["usage"]
            .as_object_mut()
            .expect("an object")
            .extend(usage.as_object().cloned().expect("an object"));
        let events = read("openrouter", None, &[last]).expect("a response");
        let Some(StreamEvent::Done { usage: counted, .. }) = events.last() else { panic!("{events:?}") };
        assert_eq!(counted.billed, billed, "{usage}");
    }
}

#[tokio::test]
async fn the_names_vendors_give_to_requests_are_kept() {
    for (vendor, header) in
        [("openai", "x-request-id"), ("openrouter", "X-Generation-Id"), ("mistral", "mistral-correlation-id")]
    {
        let head = format!("content-type: application/json\r\n{header}: id-1\r\n");
        let server = Server::start([Reply::new("400 Bad Request", &head, "{\"error\":\"no\"}")]).await;
        let provider = provider(&server.url, profile(vendor));
        let stream = provider.stream(question(&*provider, "m"), &Bus::new().cx());
        let (error, _) = collect(stream).await.expect_err("an error status is an error");
        assert_eq!(error.request_id.as_deref(), Some("id-1"), "{vendor}");
    }
}

#[tokio::test]
async fn a_server_that_may_ignore_a_name_is_offered_no_other_tool() {
    let tool = |name: &str| ToolSpec::new(name, "A tool.", json!({"type": "object", "properties": {}}));
    let named = json!({"type": "function", "function": {"name": "now"}});
    for (vendor, offered, choice) in [
        ("openai_compat", 1, named.clone()),
        ("llama.cpp", 1, json!("required")),
        ("zai", 1, Value::Null),
        ("openai", 2, named),
    ] {
        let profile = profile(vendor);
        let received = sent(&profile, |provider| Request {
            tools: [tool("now"), tool("other")].into(),
            tool_choice: ToolChoice::Tool("now".to_owned()),
            ..question(provider, "m")
        });
        let body = received.await.json();
        let names: Vec<&Value> = body["tools"].as_array().expect("tools").iter().collect();
        assert_eq!((names.len(), &body["tool_choice"]), (offered, &choice), "{vendor}");
        assert_eq!(names[0]["function"]["name"], "now", "{vendor}");
    }
}
