//! Requirements of single vendors, one habit a test.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, Image, Message, ModelRef, Thinking, ThinkingLevel, ThinkingRequest, ToolCall, ToolSpec, WireData,
};
use zk_core::service::{Provider, Request, StreamEvent, ToolChoice};
use zk_providers::{Compat, CompatProfile, Connection, ReasoningEcho, ReasoningFormat};

use crate::collect::{collect, question, request};
use crate::server::{Reply, Server};
use crate::vendor_answers::{chunk, read};
use crate::vendors::sent;

pub(crate) fn profile(name: &str) -> CompatProfile {
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
