//! Requests as they are sent: headers, bodies, and what stays the same from one request to the next.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, Image, Message, ModelRef, StopReason, Thinking, ThinkingLevel, ThinkingRequest, ToolCall,
    ToolContent, ToolSpec,
};
use zk_core::service::{Provider, Request, ToolChoice};
use zk_providers::{
    Anthropic, AnthropicOptions, CacheMarks, Compat, CompatProfile, Connection, EmptyContent, ReasoningEcho,
    ToolChoices,
};

use crate::collect::{collect, request};
use crate::server::{Received, Reply, Server};

pub(crate) const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
pub(crate) const MESSAGES: &str =
    "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n";

pub(crate) async fn server() -> Server {
    Server::start([Reply::sse(CHAT)]).await
}

/// Returns the request as a provider sends it.
pub(crate) async fn sent(
    make: impl Fn(&str) -> Box<dyn Provider>,
    body: &str,
    build: impl Fn(&dyn Provider) -> Request,
) -> Received {
    let server = Server::start([Reply::sse(body)]).await;
    let provider = make(&server.url);
    collect(provider.stream(build(&*provider), &Bus::new().cx())).await.expect("the server answers");
    server.received().remove(0)
}

pub(crate) fn claude(url: &str) -> Box<dyn Provider> {
    let connection = Anthropic::connection().base_url(url).key("k-test");
    Box::new(Anthropic::new(connection, AnthropicOptions::default()).expect("valid options"))
}

pub(crate) fn compat(profile: CompatProfile) -> impl Fn(&str) -> Box<dyn Provider> {
    move |url| Box::new(Compat::new(Connection::at(url), profile.clone()).expect("valid options"))
}

fn tools() -> Arc<[Arc<ToolSpec>]> {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"path": {"type": "string"}}, "required": ["path"]});
    [ToolSpec::new("read_file", "Reads a file.", schema), ToolSpec::new("now", "The time.", json!(true))]
        .into()
}

fn image() -> Block {
    Block::Image(Image::new("image/png", "aGk="))
}

fn call(id: &str, name: &str, args: Value) -> Block {
    Block::ToolCall(ToolCall::new(id, name, args))
}

/// Thinking, parallel calls, an image in a result, an error, steering, an interrupted call.
fn tricky(origin: &ModelRef) -> Vec<Arc<Message>> {
    let thinking = |text: &str, signature: Option<&str>| {
        Block::Thinking(Thinking {
            text: text.into(),
            signature: signature.map(Into::into),
            origin: Some(origin.clone()),
            ..Thinking::default()
        })
    };
    let mut cut = ToolCall::new("toolu_4", "read_file", json!({}));
    cut.malformed = Some("{\"path\": \"src".into());
    vec![
        Message::user(vec![Block::text("look at this"), image()]).shared(),
        Message::assistant(vec![
            thinking("which file?", Some("sig-1")),
            Block::text("Reading both."),
            call("toolu_1", "read_file", json!({"path": "a.txt"})),
            call("functions.now:0", "now", json!({})),
        ])
        .shared(),
        Message::user(vec![
            Block::result("functions.now:0", "12:00", false),
            Block::result("toolu_1", ToolContent::Blocks(vec![Block::text("a picture"), image()]), false),
            Block::text("hurry up"),
        ])
        .shared(),
        Message {
            stop: Some(StopReason::MaxTokens),
            ..Message::assistant(vec![thinking("unsigned", None), Block::ToolCall(cut)])
        }
        .shared(),
        Message::user(vec![Block::result("toolu_4", "arguments were cut", true)]).shared(),
        Message::assistant(vec![call("toolu_5", "now", json!({}))]).shared(),
    ]
}

pub(crate) fn tricky_request(provider: &dyn Provider, model: &str) -> Request {
    let history = tricky(&provider.model(model).reference());
    Request {
        system: "Be brief.".into(),
        tools: tools(),
        session: Some("s_1".into()),
        ..request(provider, model, &history)
    }
}

#[tokio::test]
async fn a_history_that_was_sent_before_fits_behind_another_system_prompt() {
    let server = server().await;
    let provider = compat(CompatProfile::default())(&server.url);
    let history =
        [Message::user_text("hello").shared(), Message::assistant(vec![Block::text("hi")]).shared()];
    let history = [&history[..], &[Message::user_text("go on").shared()]].concat();
    for system in ["", "Be brief.", "", "Be long."] {
        let request = Request { system: system.into(), ..request(&*provider, "m", &history) };
        collect(provider.stream(request, &Bus::new().cx())).await.expect("the server answers");
        let sent = server.received().pop().expect("a request").json();
        let roles: Vec<_> = sent["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|message| message["role"].clone())
            .collect();
        let first: &[&str] = if system.is_empty() { &[] } else { &["system"] };
        assert_eq!(roles, [first, &["user", "assistant", "user"]].concat());
    }
}

#[tokio::test]
async fn a_tricky_history_in_anthropics_shape() {
    let received = sent(claude, MESSAGES, |provider| tricky_request(provider, "claude-opus-5")).await;
    assert_eq!(received.header("x-api-key"), Some("k-test"));
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(received.header("authorization"), None);
    assert!(received.head.starts_with("POST /v1/messages HTTP/1.1"));
    insta::assert_json_snapshot!(received.json());
}

#[tokio::test]
async fn a_tricky_history_in_the_shape_of_chat_completions() {
    for profile in ["openai_compat", "openai", "llama.cpp"] {
        let make = compat(CompatProfile::named(profile).expect("it is in the table"));
        let received = sent(make, CHAT, |provider| tricky_request(provider, "gpt-5.1")).await;
        assert_eq!(received.header("authorization"), None);
        assert!(received.head.starts_with("POST /chat/completions HTTP/1.1"));
        insta::assert_json_snapshot!(format!("chat_{profile}"), received.json());
    }
}

#[tokio::test]
async fn every_knob_of_a_profile_is_heard() {
    let profile = CompatProfile {
        store: Some(true),
        strict: Some(false),
        stream_options: false,
        tool_choice: ToolChoices::AutoOnly,
        echo: ReasoningEcho::Always { field: "reasoning_content".into(), blank: "".into() },
        cache_marks: CacheMarks::On,
        image_in_tool_result: true,
        empty_content: EmptyContent::Blank,
        tool_result_name: true,
        assistant_after_tools: true,
        ..CompatProfile::default()
    };
    let received = sent(compat(profile), CHAT, |provider| {
        let mut request = tricky_request(provider, "m");
        request.tool_choice = ToolChoice::Required;
        request
    });
    insta::assert_json_snapshot!(received.await.json());
}

#[tokio::test]
async fn the_bytes_of_one_request_are_a_prefix_of_the_next() {
    let server = Server::start([Reply::sse(MESSAGES)]).await;
    let other = server_for_chat().await;
    let providers: [(Box<dyn Provider>, &str); 2] =
        [(claude(&server.url), "claude-opus-5"), (compat(CompatProfile::default())(&other.url), "m")];
    for (provider, model) in &providers {
        let mut history = vec![Message::user_text("begin").shared()];
        for turn in 0..12 {
            let request = Request {
                system: "Be brief.".into(),
                tools: tools(),
                max_tokens: 1000 + turn,
                thinking: ThinkingRequest { level: ThinkingLevel::ALL[turn as usize % 7], budget: None },
                ..request(&**provider, model, &history)
            };
            collect(provider.stream(request, &Bus::new().cx())).await.expect("the server answers");
            let id = format!("toolu_{turn}");
            history.push(Message::assistant(vec![call(&id, "now", json!({"turn": turn}))]).shared());
            history
                .push(Message::user(vec![Block::result(id.as_str(), format!("at {turn}"), false)]).shared());
        }
    }
    const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";
    for server in [server, other] {
        let bodies: Vec<String> = server
            .received()
            .into_iter()
            .map(|received| String::from_utf8(received.body).expect("a body is text"))
            .collect();
        assert_eq!(bodies.len(), 12);
        for pair in bodies.windows(2) {
            // Without the mark of the last message, and up to the end of the messages.
            let messages = pair[0].find("\"messages\"").expect("messages");
            let (head, rest) = pair[0].split_at(messages);
            let end = rest.rfind("],\"").expect("a tail");
            let prefix = format!("{head}{}", rest[..end].replace(MARK, ""));
            assert!(pair[1].starts_with(&prefix), "{prefix}\n{}", pair[1]);
        }
    }
}

async fn server_for_chat() -> Server {
    server().await
}

#[tokio::test]
async fn three_prefixes_are_marked_and_none_when_the_cache_is_off() {
    for (cache, expected) in [(true, 3), (false, 0)] {
        let received =
            sent(claude, MESSAGES, |provider| Request { cache, ..tricky_request(provider, "claude-opus-5") })
                .await;
        let text = String::from_utf8(received.body.clone()).expect("a body is text");
        assert_eq!(text.matches("cache_control").count(), expected);
        if cache {
            let body = received.json();
            let mark = json!({"type": "ephemeral"});
            assert_eq!(body["system"][0]["cache_control"], mark);
            assert_eq!(body["tools"][1]["cache_control"], mark);
            let last = body["messages"].as_array().and_then(|all| all.last()).expect("messages");
            assert_eq!(
                last["content"].as_array().and_then(|all| all.last()).expect("blocks")["cache_control"],
                mark
            );
        }
    }
}

#[tokio::test]
async fn each_generation_is_asked_to_think_in_its_own_way() {
    use ThinkingLevel::{Adaptive, High, Low, Max, Off, XHigh};
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    for (model, level, choice, thinking, effort) in [
        (
            "claude-haiku-4-5",
            High,
            ToolChoice::Auto,
            json!({"type": "enabled", "budget_tokens": 3072}),
            Value::Null,
        ),
        ("claude-haiku-4-5", Low, ToolChoice::Required, Value::Null, Value::Null),
        ("claude-haiku-4-5", Off, ToolChoice::Auto, Value::Null, Value::Null),
        ("claude-haiku-4-5", Adaptive, ToolChoice::Auto, Value::Null, Value::Null),
        ("claude-opus-4-6", XHigh, ToolChoice::Auto, adaptive.clone(), json!("max")),
        ("claude-opus-5", Max, ToolChoice::Auto, adaptive.clone(), json!("max")),
        ("claude-opus-4-6", Off, ToolChoice::Auto, json!({"type": "disabled"}), Value::Null),
        ("claude-opus-5", XHigh, ToolChoice::Required, adaptive.clone(), json!("xhigh")),
        ("claude-opus-5", Adaptive, ToolChoice::Auto, adaptive.clone(), Value::Null),
        ("claude-fable-5-2", Off, ToolChoice::Auto, adaptive.clone(), json!("low")),
        ("claude-opus-5-5", Off, ToolChoice::Auto, adaptive.clone(), json!("low")),
        ("claude-3-5-haiku-20241022", High, ToolChoice::Auto, Value::Null, Value::Null),
        ("claude-of-tomorrow", Low, ToolChoice::Auto, adaptive, json!("low")),
        ("zk-tiny", High, ToolChoice::Auto, Value::Null, Value::Null),
    ] {
        let received = sent(claude, MESSAGES, |provider| Request {
            thinking: ThinkingRequest { level, budget: None },
            tool_choice: choice.clone(),
            tools: tools(),
            ..request(provider, model, &[Message::user_text("hi").shared()])
        });
        let body = received.await.json();
        assert_eq!(
            (&body["thinking"], &body["output_config"]["effort"]),
            (&thinking, &effort),
            "{model} {level:?}"
        );
    }
}

#[tokio::test]
async fn a_budget_is_not_used_in_the_middle_of_calls_made_without_thinking() {
    let received = sent(claude, MESSAGES, |provider| Request {
        thinking: ThinkingRequest { level: ThinkingLevel::Low, budget: None },
        max_tokens: 20_000,
        ..tricky_request(provider, "claude-sonnet-4-5")
    });
    assert_eq!(received.await.json()["thinking"], Value::Null);
}

#[tokio::test]
async fn effort_words_are_those_of_the_model() {
    use ThinkingLevel::{High, Minimal, Off, XHigh};
    for (profile, model, level, expected) in [
        ("openai", "gpt-5.1", Off, json!("none")),
        ("openai", "gpt-5.1", XHigh, json!("high")),
        ("openai", "gpt-5", Off, json!("minimal")),
        ("openai", "gpt-5.2", XHigh, json!("xhigh")),
        ("openai", "gpt-5-pro", Minimal, json!("high")),
        ("openai", "gpt-4o", High, Value::Null),
        ("openai_compat", "m", Off, Value::Null),
        ("openai_compat", "m", XHigh, json!("high")),
        ("openai_compat", "m", Minimal, json!("low")),
    ] {
        let make = compat(CompatProfile::named(profile).expect("it is in the table"));
        let received = sent(make, CHAT, |provider| Request {
            thinking: ThinkingRequest { level, budget: None },
            ..request(provider, model, &[Message::user_text("hi").shared()])
        });
        assert_eq!(received.await.json()["reasoning_effort"], expected, "{profile} {model} {level:?}");
    }
}

#[tokio::test]
async fn a_named_tool_is_the_only_one_where_names_are_not_heard() {
    let make = compat(CompatProfile::named("llama.cpp").expect("it is in the table"));
    let received = sent(make, CHAT, |provider| Request {
        tools: tools(),
        tool_choice: ToolChoice::Tool("now".into()),
        ..request(provider, "m", &[Message::user_text("hi").shared()])
    });
    let body = received.await.json();
    assert_eq!(body["tool_choice"], "required");
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["tools"][0]["function"]["name"], "now");
}

#[tokio::test]
async fn tools_of_the_past_are_named_when_none_is_offered() {
    let received = sent(claude, MESSAGES, |provider| Request {
        tools: [].into(),
        ..tricky_request(provider, "claude-opus-5")
    });
    let body = received.await.json();
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(2));
}
