//! A server that says back what it was shown: nothing of it is ever told.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_core::kernel::{AnyEvent, Bus, Cx};
use zk_core::service::Provider;
use zk_providers::{
    Anthropic, AnthropicOptions, Auth, Compat, CompatProfile, Connection, Gemini, Ollama, OllamaOptions,
    Responses, ResponsesOptions, SetupError,
};

use crate::collect::{collect, question};
use crate::server::{Reply, Server};

const KEY: &str = "sk-canary-0123456789abcdef";
const PASSWORD: &str = "pa%24s-canary-word";
const DECODED: &str = "pa$s-canary-word";
const HEADER: &str = "header-canary-77";

fn error_body(secret: &str) -> Value {
    let long = format!("{} {secret}", "x".repeat(490 - secret.len() / 2));
    json!({"type": "error", "request_id": secret, "code": secret, "error": {
        "type": secret, "code": secret, "status": secret, "param": secret,
        "message": format!("{secret} is wrong, {secret}. {long}"),
    }})
}

/// Every way in which a server can echo a text: in an error, in the headers, in a stream.
fn replies(secret: &str) -> Vec<Reply> {
    let headers = format!(
        "content-type: application/json\r\nrequest-id: {secret}\r\nx-request-id: {secret}\r\n\
         retry-after: {secret}\r\nx-ratelimit-limit: {secret}\r\n"
    );
    let stream = headers.replace("application/json", "text/event-stream");
    let error = error_body(secret);
    let started = json!({"type": "message_start", "message": {"id": secret, "model": secret}});
    let begun = json!({"type": "response.created", "response": {"id": secret, "model": secret}});
    let chunk = json!({"id": secret, "model": secret, "responseId": secret, "modelVersion": secret,
        "choices": [{"delta": {"content": "a"}}], "candidates": [{"finishReason": secret}],
        "done": true, "done_reason": secret, "message": {"content": "a"}});
    let mut all: Vec<Reply> = [
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "200 OK",
    ]
    .iter()
    .map(|status| Reply::new(status, &headers, error.to_string()))
    .collect();
    all.push(Reply::new("400 Bad Request", &headers, format!("plain {secret}")));
    all.push(Reply::new(
        "302 Found",
        &format!("{headers}location: http://u:{secret}@host/?key={secret}\r\n"),
        "",
    ));
    all.push(Reply::new("200 OK", "content-type: text/html\r\n", format!("<html><title>{secret}</title>")));
    for first in [&started, &begun, &chunk] {
        for last in [&error, &json!({"oops": secret}), &chunk] {
            let lines = format!("{first}\n{last}\n");
            let events = format!("data: {first}\n\ndata: {last}\n\nevent: error\ndata: {error}\n\n");
            all.push(Reply::new("200 OK", &stream, events));
            all.push(Reply::new(
                "200 OK",
                &stream.replace("text/event-stream", "application/x-ndjson"),
                lines,
            ));
        }
    }
    all
}

fn providers(connection: &Connection) -> Vec<Box<dyn Provider>> {
    let own = || connection.clone();
    vec![
        Box::new(Anthropic::new(own(), AnthropicOptions::default()).expect("valid")),
        Box::new(Compat::new(own(), CompatProfile::default()).expect("valid")),
        Box::new(Responses::new(own(), ResponsesOptions::default()).expect("valid")),
        Box::new(Gemini::new(own()).expect("valid")),
        Box::new(Ollama::new(own(), OllamaOptions::default()).expect("valid")),
    ]
}

#[tokio::test]
async fn a_secret_that_a_server_echoes_is_in_no_error_and_no_event() {
    let told = Arc::new(Mutex::new(Vec::<String>::new()));
    for secret in [KEY, PASSWORD, DECODED, HEADER] {
        for reply in replies(secret) {
            let server = Server::start([reply]).await;
            let connection = Connection {
                auth: Auth::Key(KEY.into()),
                extra_headers: vec![("x-team-token".into(), HEADER.into())],
                ..Connection::at(server.url.replace("http://", &format!("http://user:{PASSWORD}@")))
            };
            for provider in providers(&connection) {
                let bus = Bus::new();
                let log = told.clone();
                let scope = bus.scope("log");
                scope.observe(move |event: &dyn AnyEvent, _: &Cx| {
                    let json = event.to_json().expect("events are JSON");
                    log.lock().expect("the log").push(json.to_string());
                });
                let mut stream = provider.stream(question(&*provider, "m"), &bus.cx());
                let mut texts = Vec::new();
                while let Some(event) = futures_util::StreamExt::next(&mut stream).await {
                    texts.push(format!("{event:?}"));
                    if let Err(error) = &event {
                        texts.push(error.to_string());
                    }
                }
                if let Err(error) = provider.list_models(&bus.cx()).await {
                    texts.push(format!("{error:?} {error}"));
                }
                texts.append(&mut told.lock().expect("the log"));
                for text in texts {
                    assert!(!text.contains("canary"), "{}: {secret} is in {text}", provider.name());
                }
            }
        }
    }
}

#[test]
fn no_debug_output_and_no_setup_error_shows_a_secret() {
    let base = format!("http://user:{PASSWORD}@127.0.0.1:1/v1?key={KEY}");
    let connection = Connection {
        auth: Auth::Key(KEY.into()),
        extra_headers: vec![("authorization".into(), format!("Bearer {HEADER}"))],
        ..Connection::at(base)
    };
    let compat = Compat::new(connection.clone(), CompatProfile::default()).expect("valid");
    let claude = Anthropic::new(connection.clone(), AnthropicOptions::default()).expect("valid");
    let shown = format!("{connection:?} {compat:?} {claude:?}");
    assert!(!shown.contains("canary"), "{shown}");
    for url in [format!("ftp://u:{PASSWORD}@host"), format!("http://u:{PASSWORD}@")] {
        let error = Compat::new(Connection::at(&url), CompatProfile::default()).expect_err("no base URL");
        assert!(matches!(error, SetupError::BaseUrl { .. }));
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn the_key_is_shown_to_the_server_in_one_header_and_wins_over_an_extra_one() {
    let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
    let connection = Connection {
        auth: Auth::Key(KEY.into()),
        extra_headers: vec![("Authorization".into(), "Bearer other".into())],
        ..Connection::at(&server.url)
    };
    let provider = Compat::new(connection, CompatProfile::default()).expect("valid");
    let _ = collect(provider.stream(question(&provider, "m"), &Bus::new().cx())).await;
    let received = server.received().remove(0);
    let shown: Vec<&str> =
        received.head.lines().filter(|line| line.to_lowercase().starts_with("authorization:")).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].ends_with(KEY), "{shown:?}");
}
