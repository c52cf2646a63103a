//! Prompts that are too long for servers that do not say so.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Message, ProviderError, ToolCall, ToolSpec, Usage};
use zk_core::service::{Provider, Request};
use zk_providers::{Connection, Gemini, Ollama, OllamaOptions};

use crate::collect::{collect, question, request};
use crate::fixtures;
use crate::server::{Reply, Server};

/// Error with which Gemini refuses a request.
async fn refused(reply: Reply, asked: impl Fn(&dyn Provider) -> Request) -> ProviderError {
    let server = Server::start([reply]).await;
    let gemini = Gemini::new(Gemini::connection().base_url(&server.url).key("k-test"));
    let gemini = gemini.expect("valid options");
    let (error, _) =
        collect(gemini.stream(asked(&gemini), &Bus::new().cx())).await.expect_err("the server refuses");
    error
}

fn text(bytes: usize) -> Vec<std::sync::Arc<Message>> {
    vec![Message::user_text("a".repeat(bytes)).shared()]
}

/// History of one call with arguments of this size.
fn call(bytes: usize) -> Vec<std::sync::Arc<Message>> {
    let args = json!({"text": "a".repeat(bytes)});
    let call = Block::ToolCall(ToolCall::new("c1", "write", args));
    vec![
        Message::user_text("go").shared(),
        Message::assistant(vec![call]).shared(),
        Message::user(vec![Block::result("c1", "done", false)]).shared(),
    ]
}

#[tokio::test]
async fn a_prompt_over_the_recorded_quota_of_a_minute_is_too_long() {
    let file = "ruby_llm/spec/fixtures/vcr_cassettes/\
                chat_real_error_scenarios_gemini_gemini-2_5-flash_handles_context_length_exceeded_errors.yml";
    let Some(recorded) = fixtures::below(file, "limit: 1000000") else { return };
    let [recorded] = recorded.as_slice() else { panic!("one request was recorded") };
    let reply = || Reply::json("429 Too Many Requests", &recorded.body);
    let model = "gemini-2.5-flash";

    // The recorded answer was to 1,250,000 tokens in five million letters.
    let error = refused(reply(), |gemini| request(gemini, model, &text(5_000_000))).await;
    assert_eq!((error.kind, error.retry_after), (ErrorKind::ContextExceeded, None), "{error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("1000000")), "{error}");
    let error = refused(reply(), |gemini| request(gemini, model, &call(5_000_000))).await;
    assert_eq!(error.kind, ErrorKind::ContextExceeded, "arguments are sent too");
    let described = |gemini: &dyn Provider| Request {
        tools: [ToolSpec::new("write", "a".repeat(5_000_000), json!({"type": "object"}))].into(),
        ..question(gemini, model)
    };
    let error = refused(reply(), described).await;
    assert_eq!(error.kind, ErrorKind::ContextExceeded, "tools are sent too");

    let error = refused(reply(), |gemini| request(gemini, model, &text(3_000_000))).await;
    assert_eq!(error.kind, ErrorKind::Rate, "it may pass in the next minute");
}

fn ollama(server: &Server, extra: &Value) -> Ollama {
    let extra_body = extra.as_object().cloned().expect("an object");
    let connection = Connection { extra_body, ..Ollama::connection().base_url(&server.url) };
    Ollama::new(connection, OllamaOptions { num_ctx: 1000, ..OllamaOptions::default() })
        .expect("valid options")
}

fn done(more: &Value) -> Reply {
    let mut line = json!({"message": {"content": "ok"}, "done": true, "done_reason": "stop"});
    line.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    Reply::new("200 OK", "content-type: application/x-ndjson\r\n", format!("{line}\n"))
}

/// Whether Ollama gets the request, with a window of 1000 tokens unless `extra` sets more, or the refusal.
async fn asked(model: &str, words: usize, extra: Value) -> Result<(), ProviderError> {
    let server = Server::start([done(&json!({}))]).await;
    let ollama = ollama(&server, &extra);
    let history = [Message::user_text("word, ".repeat(words)).shared()];
    let answer = collect(ollama.stream(request(&ollama, model, &history), &Bus::new().cx())).await;
    assert_eq!(server.received().len(), usize::from(answer.is_ok()));
    answer.map(drop).map_err(|(error, _)| error)
}

#[tokio::test]
async fn a_prompt_that_ollama_would_surely_cut_is_not_sent() {
    let error = asked("qwen3:4b", 1001, json!({})).await.expect_err("it is too long");
    assert_eq!(error.kind, ErrorKind::ContextExceeded);
    assert!(error.message.contains("1001 tokens") && error.message.contains("1000 (num_ctx)"), "{error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("`num_ctx`")), "{error}");
    asked("qwen3:4b", 1000, json!({})).await.expect("it may fit");
    asked("qwen3:4b", 1001, json!({"options": {"num_ctx": 2000}})).await.expect_err("the option wins");
    asked("gpt-oss:120b-cloud", 1001, json!({})).await.expect("the service has its own window");
}

#[tokio::test]
async fn ollama_is_told_to_refuse_what_it_would_cut() {
    let reply = Reply::json("400 Bad Request", r#"{"error": "the input length exceeds the context length"}"#);
    let server = Server::start([reply]).await;
    let ollama = ollama(&server, &json!({}));
    let (error, _) = collect(ollama.stream(question(&ollama, "qwen3:4b"), &Bus::new().cx()))
        .await
        .expect_err("the server refuses");
    assert_eq!(error.kind, ErrorKind::ContextExceeded);
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("`num_ctx`")), "{error}");
    let body = server.received().remove(0).json();
    assert_eq!((&body["truncate"], &body["shift"]), (&json!(false), &json!(false)));
}

#[tokio::test]
async fn an_input_that_ollama_does_not_count_is_estimated() {
    let usage = async |counts: Value| {
        let server = Server::start([done(&counts)]).await;
        let ollama = ollama(&server, &json!({}));
        let history = [Message::user_text("a".repeat(400)).shared()];
        let answer = collect(ollama.stream(request(&ollama, "m", &history), &Bus::new().cx())).await;
        answer.map_err(|(error, _)| error).expect("the server answers").usage
    };
    let counted = Usage { input: 7, output: 3, ..Usage::default() };
    assert_eq!(usage(json!({"prompt_eval_count": 7, "eval_count": 3})).await, counted);
    assert_eq!(usage(json!({"eval_count": 3})).await, Usage { input: 100, ..counted });
}
