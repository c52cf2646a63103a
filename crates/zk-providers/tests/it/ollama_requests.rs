//! Requests to Ollama, and what becomes of its rarer answers.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, ErrorKind, Image, Message, ProviderError, StopReason, Thinking, ThinkingLevel, ThinkingRequest,
    ThinkingSupport, ToolCall, ToolContent, ToolProtocol, ToolSpec,
};
use zk_core::service::{Provider, Request, ToolChoice};
use zk_providers::{Connection, Ollama, OllamaOptions};

use crate::collect::{Answer, collect, question, request};
use crate::server::{Reply, Server};

fn ndjson(body: impl AsRef<[u8]>) -> Reply {
    Reply::new("200 OK", "content-type: application/x-ndjson\r\n", body)
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn ok() -> Reply {
    ndjson(lines(&[json!({"message": {"content": "ok"}, "done": true, "done_reason": "stop"})]))
}

fn provider(server: &Server) -> Ollama {
    Ollama::new(Ollama::connection().base_url(&server.url), OllamaOptions::default()).expect("valid options")
}

async fn answer(reply: Reply, change: impl Fn(&mut Request)) -> Result<Answer, ProviderError> {
    let server = Server::start([reply]).await;
    let ollama = provider(&server);
    let mut asked = question(&ollama, "qwen3:4b");
    change(&mut asked);
    collect(ollama.stream(asked, &Bus::new().cx())).await.map_err(|(error, _)| error)
}

async fn sent(model: &str, change: impl Fn(&mut Request)) -> Value {
    let server = Server::start([ok()]).await;
    let ollama = provider(&server);
    let mut asked = question(&ollama, model);
    change(&mut asked);
    collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
    server.received().remove(0).json()
}

fn tools() -> Arc<[Arc<ToolSpec>]> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    [ToolSpec::new("read_file", "Reads a file.", schema), ToolSpec::new("now", "The time.", json!(true))]
        .into()
}

#[tokio::test]
async fn a_tricky_history_in_ollamas_shape() {
    let server = Server::start([ok()]).await;
    let ollama = provider(&server);
    let image = || Block::Image(Image::new("image/png", "aGk="));
    let origin = Some(ollama.model("qwen3:4b").reference());
    let history = [
        Message::user(vec![Block::text("look at this"), image()]).shared(),
        Message::assistant(vec![
            Block::Thinking(Thinking { text: "which file?".into(), origin, ..Thinking::default() }),
            Block::text("Reading both."),
            Block::ToolCall(ToolCall::new("call_1", "read_file", json!({"path": "a"}))),
            Block::ToolCall(ToolCall::new("call_2", "now", json!({}))),
        ])
        .shared(),
        Message::user(vec![
            Block::result("call_2", "12:00", false),
            Block::result("call_1", ToolContent::Blocks(vec![Block::text("a picture"), image()]), false),
            Block::text("hurry up"),
        ])
        .shared(),
    ];
    let asked = Request {
        system: "Be brief.".into(),
        tools: tools(),
        thinking: ThinkingRequest { level: ThinkingLevel::Low, budget: None },
        ..request(&ollama, "qwen3:4b", &history)
    };
    collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
    let received = server.received().remove(0);
    assert!(received.head.starts_with("POST /api/chat HTTP/1.1"));
    assert_eq!(received.header("authorization"), None);
    assert_eq!(received.header("accept"), Some("application/x-ndjson"));
    insta::assert_json_snapshot!(received.json());
}

#[tokio::test]
async fn the_window_is_always_named_and_options_are_merged() {
    let server = Server::start([ok()]).await;
    let extra = json!({"options": {"temperature": 0.1}, "truncate": false});
    let connection = Connection {
        base_url: format!("{}/v1/", server.url),
        extra_body: extra.as_object().cloned().expect("an object"),
        ..Ollama::connection()
    };
    let options = OllamaOptions { num_ctx: 8192, keep_alive: Some("30m".into()) };
    let ollama = Ollama::new(connection, options).expect("valid options");
    let asked = Request { max_tokens: 77, ..question(&ollama, "m") };
    assert_eq!(asked.model.window, Some(8192));
    collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
    let body = server.received().remove(0).json();
    assert_eq!(body["options"], json!({"num_ctx": 8192, "num_predict": 77, "temperature": 0.1}));
    assert_eq!((&body["keep_alive"], &body["truncate"]), (&json!("30m"), &json!(false)));
}

#[tokio::test]
async fn thinking_is_a_switch_or_a_word() {
    for (model, level, expected) in [
        ("qwen3:4b", ThinkingLevel::Off, json!(false)),
        ("qwen3:4b", ThinkingLevel::High, json!(true)),
        ("gpt-oss:20b", ThinkingLevel::High, json!("high")),
        ("gpt-oss:20b", ThinkingLevel::Off, json!("low")),
        ("llama3.2", ThinkingLevel::High, Value::Null),
    ] {
        let body = sent(model, |asked| asked.thinking = ThinkingRequest { level, budget: None }).await;
        assert_eq!(body["think"], expected, "{model} {level:?}");
    }
}

#[tokio::test]
async fn one_tool_is_forced_by_the_shape_of_the_answer() {
    let force = |asked: &mut Request| {
        asked.tools = tools();
        asked.tool_choice = ToolChoice::Tool("read_file".into());
    };
    let body = sent("qwen3:4b", force).await;
    assert_eq!(body["format"]["required"], json!(["path"]));
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));

    let pieces = |last: &str, reason: &str| {
        ndjson(lines(&[
            json!({"message": {"content": "", "thinking": "well"}, "done": false}),
            json!({"message": {"content": "{\"path\":"}, "done": false}),
            json!({"message": {"content": last}, "done": false}),
            json!({"message": {"content": ""}, "done": true, "done_reason": reason, "eval_count": 4096}),
        ]))
    };
    let whole = answer(pieces(" \"a\"}", "stop"), force).await.expect("it is whole");
    assert_eq!((whole.text.as_str(), whole.thinking.as_str()), ("", "well"));
    assert_eq!(whole.stop, Some(StopReason::ToolUse));
    let [(_, name, args)] = whole.calls.as_slice() else { panic!("one call: {:?}", whole.calls) };
    assert_eq!((name.as_str(), args), ("read_file", &Some(json!({"path": "a"}))));

    let cut = answer(pieces(" \"a", "length"), force).await.expect("a cut answer");
    assert_eq!((cut.stop, &cut.calls[0].2), (Some(StopReason::MaxTokens), &None));
}

#[tokio::test]
async fn no_tool_is_offered_where_none_may_be_called() {
    let body = sent("qwen3:4b", |asked| {
        asked.tools = tools();
        asked.tool_choice = ToolChoice::None;
    });
    assert!(body.await["tools"].is_null());
    let body = sent("qwen3:4b", |asked| {
        asked.tools = tools();
        asked.tool_choice = ToolChoice::Required;
    });
    let body = body.await;
    assert_eq!((body["tools"].as_array().map(Vec::len), &body["format"]), (Some(2), &Value::Null));
}

#[tokio::test]
async fn calls_come_whole_with_or_without_an_id() {
    let call = |id: Value, args: Value| {
        json!({"message": {"content": "", "tool_calls": [{"id": id, "function": {"name": "f", "arguments": args}}]},
            "done": false})
    };
    let body = lines(&[
        call(json!("call_a"), json!({"x": 1})),
        call(json!("call_a"), json!("{\"x\": 2}")),
        call(Value::Null, Value::Null),
        call(Value::Null, json!([1])),
        json!({"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 5}),
    ]);
    let answer = answer(ndjson(body), |_| {}).await.expect("it is whole");
    assert_eq!(answer.stop, Some(StopReason::ToolUse));
    let args: Vec<_> = answer.calls.iter().map(|(.., args)| args.clone()).collect();
    assert_eq!(args, [Some(json!({"x": 1})), Some(json!({"x": 2})), Some(json!({})), None]);
    let ids: std::collections::BTreeSet<_> = answer.calls.iter().map(|(id, ..)| id).collect();
    assert_eq!((ids.len(), answer.calls[0].0.as_str(), answer.usage.input), (4, "call_a", 5));
}

#[tokio::test]
async fn reasons_to_end_are_told_apart() {
    let end = |reason: Value, count: u64| {
        ndjson(lines(&[
            json!({"message": {"content": "x"}, "done": true, "done_reason": reason, "eval_count": count}),
        ]))
    };
    for (reason, count, expected) in [
        (json!("stop"), 1, StopReason::EndTurn),
        (Value::Null, 1, StopReason::EndTurn),
        (json!("length"), 4096, StopReason::MaxTokens),
        (json!("length"), 9, StopReason::ContextExceeded),
        (json!("unload"), 0, StopReason::Other("unload".into())),
    ] {
        let answer = answer(end(reason.clone(), count), |_| {}).await.expect("it is whole");
        assert_eq!(answer.stop, Some(expected), "{reason} {count}");
    }
}

#[tokio::test]
async fn errors_get_their_class_and_advice() {
    let json = |status: &str, text: &str| Reply::json(status, json!({ "error": text }).to_string());
    let begun = json!({"message": {"content": "half"}, "done": false});
    let broken = lines(&[begun.clone(), json!({"error": "unexpected EOF"})]);
    let missing = "model 'qwen3:4b' not found";
    for (reply, kind, hint) in [
        (json("404 Not Found", missing), ErrorKind::Rejected, "ollama pull qwen3:4b"),
        (json("400 Bad Request", "m does not support tools"), ErrorKind::Rejected, "cannot call tools"),
        (
            json("400 Bad Request", "\"m\" does not support thinking"),
            ErrorKind::Rejected,
            "turn thinking off",
        ),
        (
            json("500 Internal Server Error", "model requires more system memory (9 GiB) than is available"),
            ErrorKind::Rejected,
            "smaller",
        ),
        (
            json("400 Bad Request", "prompt too long; exceeded max context length by 4 tokens (ref: x)"),
            ErrorKind::ContextExceeded,
            "larger window",
        ),
        (json("503 Service Unavailable", "server busy, please try again"), ErrorKind::Overloaded, ""),
        (json("401 Unauthorized", "Unauthorized"), ErrorKind::Auth, "key"),
        (json("200 OK", "something failed"), ErrorKind::Overloaded, ""),
        (ndjson(broken), ErrorKind::Overloaded, ""),
        (ndjson(lines(&[begun])), ErrorKind::Malformed, ""),
        (ndjson(""), ErrorKind::Malformed, ""),
        (ndjson("{\"message\": oops\n"), ErrorKind::Malformed, ""),
        (
            Reply::new("200 OK", "content-type: text/html\r\n", "<html></html>"),
            ErrorKind::Malformed,
            "base URL",
        ),
    ] {
        let error = answer(reply, |_| {}).await.expect_err("an error");
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn what_the_server_says_of_its_models_is_remembered() {
    let show = |capabilities: &[&str], window: u64| {
        let info = json!({"general.architecture": "x", "x.context_length": window});
        Reply::json("200 OK", json!({"capabilities": capabilities, "model_info": info}).to_string())
    };
    let tags = json!({"models": [{"name": "small:1b", "model": "small:1b"}, {"name": "thinker"}, {"name": "embed"},
        {"name": "old"}]});
    let server = Server::start([
        Reply::json("200 OK", tags.to_string()),
        show(&["completion", "tools"], 4096),
        show(&["completion", "thinking", "vision"], 262_144),
        show(&["embedding"], 2048),
        Reply::json("404 Not Found", "{\"error\":\"no such call\"}"),
    ])
    .await;
    let ollama = provider(&server);
    let models = ollama.list_models(&Bus::new().cx()).await.expect("a list").expect("a list");
    let found: Vec<_> = models
        .iter()
        .map(|model| {
            (model.id.as_str(), model.window, model.capabilities.vision, model.capabilities.thinking)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("small:1b", Some(4096), false, ThinkingSupport::None),
            ("thinker", Some(32_768), true, ThinkingSupport::Budget),
            ("old", Some(32_768), true, ThinkingSupport::None),
        ]
    );
    assert_eq!(ollama.model("thinker").capabilities.thinking, ThinkingSupport::Budget);
    assert_eq!(ollama.model("any:cloud").window, None);
    let protocol = |id| ollama.model(id).capabilities.tool_protocol;
    let protocols = ["small:1b", "thinker", "old"].map(protocol);
    assert_eq!(protocols, [ToolProtocol::Api, ToolProtocol::Inline, ToolProtocol::Api]);
    assert_eq!(server.received()[1].json(), json!({"model": "small:1b"}));
}

#[tokio::test]
async fn the_bytes_of_one_request_to_ollama_are_a_prefix_of_the_next() {
    let server = Server::start([ok()]).await;
    let ollama = provider(&server);
    let mut history = vec![Message::user_text("begin").shared()];
    for turn in 0..6 {
        let asked = Request {
            system: "Be brief.".into(),
            tools: tools(),
            max_tokens: 1000 + turn,
            ..request(&ollama, "qwen3:4b", &history)
        };
        collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let id = format!("c_{turn}");
        let call = ToolCall::new(id.as_str(), "now", json!({"turn": turn}));
        history.push(Message::assistant(vec![Block::ToolCall(call)]).shared());
        history.push(Message::user(vec![Block::result(id.as_str(), "done", false)]).shared());
    }
    let bodies: Vec<String> =
        server.received().into_iter().map(|sent| String::from_utf8(sent.body).expect("text")).collect();
    for pair in bodies.windows(2) {
        let end = pair[0].rfind("],\"options\"").expect("a tail");
        assert!(pair[1].starts_with(&pair[0][..end]), "{}\n{}", pair[0], pair[1]);
    }
}
