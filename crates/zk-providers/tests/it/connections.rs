//! Additions of a connection to requests, who sees them, and what is asked beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use zk_core::events::{ProviderPayload, ProviderResponse};
use zk_core::kernel::{AnyEvent, Bus, Cx, Event};
use zk_core::service::Provider;
use zk_providers::{
    Anthropic, AnthropicOptions, Auth, CacheTtl, Compat, CompatProfile, Connection, Gemini, Ollama,
    OllamaOptions, Responses, ResponsesOptions, SetupError,
};

use crate::collect::collect;
use crate::requests::{CHAT, MESSAGES, claude, compat, sent, server, tricky_request};
use crate::server::{Reply, Server};

#[tokio::test]
async fn betas_tokens_and_extras_are_sent() {
    let make = |url: &str| -> Box<dyn Provider> {
        let extra = json!({"metadata": {"user_id": "u"}, "max_tokens": 7});
        Box::new(
            Anthropic::new(
                Connection {
                    base_url: format!("{url}/v1/"),
                    auth: Auth::Bearer("sk-ant-oat-x".into()),
                    extra_body: extra.as_object().cloned().unwrap_or_default(),
                    extra_headers: vec![("X-App".into(), "zk".into())],
                    ..Anthropic::connection()
                },
                AnthropicOptions {
                    version: "2026-10-21".into(),
                    betas: vec!["one".into(), "two".into(), "one".into()],
                    cache_ttl: CacheTtl::OneHour,
                    ..AnthropicOptions::default()
                },
            )
            .expect("valid options"),
        )
    };
    let received = sent(make, MESSAGES, |provider| tricky_request(provider, "claude-opus-5")).await;
    assert_eq!(received.header("authorization"), Some("Bearer sk-ant-oat-x"));
    assert_eq!(received.header("x-api-key"), None);
    assert_eq!(received.header("anthropic-beta"), Some("one,two,oauth-2025-04-20"));
    assert_eq!(received.header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(received.header("x-app"), Some("zk"));
    let body = received.json();
    assert_eq!((&body["metadata"]["user_id"], &body["max_tokens"]), (&json!("u"), &json!(4096)));
    assert_eq!(body["system"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
}

#[tokio::test]
async fn a_key_can_go_into_a_header_of_its_own() {
    let make = |url: &str| -> Box<dyn Provider> {
        let auth = Auth::Header { name: "api-key".into(), prefix: "Token ".into(), key: " k \n".into() };
        Box::new(
            Compat::new(
                Connection { auth, ..Connection::at(format!("{url}/v1/chat/completions/")) },
                CompatProfile::default(),
            )
            .expect("valid"),
        )
    };
    let received = sent(make, CHAT, |provider| tricky_request(provider, "m")).await;
    assert_eq!(received.header("api-key"), Some("Token k"));
    assert!(received.head.starts_with("POST /v1/chat/completions HTTP/1.1"));
}

#[test]
fn settings_that_cannot_work_are_refused_at_once() {
    let make = |connection| Compat::new(connection, CompatProfile::default()).map(|_| ());
    for url in ["", "localhost:8080", "ftp://host", "http://"] {
        let error = make(Connection::at(url)).expect_err("no base URL");
        assert!(matches!(&error, SetupError::BaseUrl { url: shown, .. } if shown == url), "{error}");
    }
    let error = make(Connection::at("http://127.0.0.1").key("secret\nline")).expect_err("no key");
    assert!(error == SetupError::Key && !error.to_string().contains("secret"));
    for field in ["model", "messages", "tools"] {
        let extra_body = json!({"top_k": 5, field: []}).as_object().cloned().expect("fields");
        let error = make(Connection { extra_body, ..Connection::at("http://127.0.0.1") });
        assert_eq!(error, Err(SetupError::Field { name: field.to_owned() }));
    }
}

#[tokio::test]
async fn listeners_see_the_body_and_can_change_it() {
    let server = server().await;
    let provider = compat(CompatProfile::default())(&server.url);
    let bus = Bus::new();
    let scope = bus.scope("test");
    scope.on_sync(|event: &ProviderPayload, _: &Cx| {
        let mut body = event.payload.clone();
        body["temperature"] = json!(0.5);
        Some(body)
    });
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    scope.on_sync(move |event: &ProviderResponse, _: &Cx| log.lock().expect("the log").push(event.clone()));
    collect(provider.stream(tricky_request(&*provider, "m"), &bus.cx())).await.expect("the server answers");
    assert_eq!(server.received()[0].json()["temperature"], json!(0.5));
    let seen = seen.lock().expect("the log");
    assert_eq!((seen.len(), seen[0].status, seen[0].request_id.as_deref()), (1, 200, Some("req_test")));
}

/// A provider at this address.
type Make = Box<dyn Fn(&str) -> Box<dyn Provider>>;

#[tokio::test]
async fn observers_and_handlers_that_change_nothing_leave_every_byte_as_it_is() {
    let makes: [(&str, Make); 5] = [
        ("claude-opus-5", Box::new(claude)),
        ("m", Box::new(compat(CompatProfile::default()))),
        (
            "gpt-5.2",
            Box::new(|url| {
                let connection = Responses::connection().base_url(url).key("k");
                Box::new(Responses::new(connection, ResponsesOptions::default()).expect("valid"))
            }),
        ),
        (
            "gemini-2.5-pro",
            Box::new(|url| {
                Box::new(Gemini::new(Gemini::connection().base_url(url).key("k")).expect("valid"))
            }),
        ),
        (
            "qwen3:4b",
            Box::new(|url| {
                let connection = Ollama::connection().base_url(url);
                Box::new(Ollama::new(connection, OllamaOptions::default()).expect("valid"))
            }),
        ),
    ];
    for (model, make) in makes {
        let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
        let provider = make(&server.url);
        let (quiet, observed, handled) = (Bus::new(), Bus::new(), Bus::new());
        let observing = observed.scope("observer");
        let seen = Arc::new(AtomicUsize::new(0));
        let count = seen.clone();
        observing.observe(move |event: &dyn AnyEvent, _: &Cx| {
            if event.name() == ProviderPayload::NAME {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let handling = handled.scope("handler");
        handling.on_sync(|_: &ProviderPayload, _: &Cx| None::<serde_json::Value>);
        for bus in [&quiet, &observed, &handled] {
            let _ = collect(provider.stream(tricky_request(&*provider, model), &bus.cx())).await;
        }
        assert_eq!(seen.load(Ordering::Relaxed), 1, "{model}");
        let bodies: Vec<_> = server.received().into_iter().map(|received| received.body).collect();
        assert_eq!(bodies.len(), 3);
        assert!(bodies[0] == bodies[1] && bodies[0] == bodies[2], "{model}");
    }
}

#[tokio::test]
async fn models_are_listed_with_what_the_server_says_of_them() {
    let anthropic = "{\"data\":[{\"id\":\"claude-opus-5\",\"max_input_tokens\":500000,\"max_tokens\":1000},{\"id\":\"new\"}]}";
    let server = Server::start([Reply::json("200 OK", anthropic)]).await;
    let models = claude(&server.url).list_models(&Bus::new().cx()).await.expect("a list").expect("a list");
    assert_eq!((models.len(), models[0].window, models[0].max_output), (2, Some(500_000), Some(1000)));
    assert!(server.received()[0].head.starts_with("GET /v1/models?limit=1000 "));

    let chat = "{\"data\":[{\"id\":\"tiny\",\"meta\":{\"n_ctx\":4096,\"n_ctx_train\":9}},{\"id\":\"x/y\",\"context_length\":9000}]}";
    let server = Server::start([Reply::json("200 OK", chat)]).await;
    let provider = compat(CompatProfile::default())(&server.url);
    let models = provider.list_models(&Bus::new().cx()).await.expect("a list").expect("a list");
    assert_eq!(models.iter().map(|model| model.window).collect::<Vec<_>>(), [Some(4096), Some(9000)]);
}

#[tokio::test]
async fn tokens_are_counted_without_the_fields_that_only_a_response_needs() {
    let server = Server::start([Reply::json("200 OK", "{\"input_tokens\":42}")]).await;
    let provider = claude(&server.url);
    let count = provider.count_tokens(tricky_request(&*provider, "claude-opus-5"), &Bus::new().cx()).await;
    assert_eq!(count.expect("a count"), Some(42));
    let received = &server.received()[0];
    assert!(received.head.starts_with("POST /v1/messages/count_tokens "));
    assert!(received.json().get("stream").is_none() && received.json().get("max_tokens").is_none());
}

#[tokio::test]
async fn a_server_that_was_sent_no_key_is_not_said_to_find_it_wrong() {
    let refusal = || {
        Reply::json("401 Unauthorized", r#"{"error":{"message":"Invalid API key","code":"invalid_api_key"}}"#)
    };
    for (key, advice, start) in [
        (None, "No API key reached the provider", "openai_compat: not authorised (HTTP 401, no_key_sent)"),
        (Some("k"), "Check the API key", "openai_compat: not authorised (HTTP 401, invalid_api_key)"),
    ] {
        let server = Server::start([refusal()]).await;
        let connection = Connection::at(&server.url);
        let connection = match key {
            Some(key) => connection.key(key),
            None => connection,
        };
        let provider = Compat::new(connection, CompatProfile::default()).expect("valid");
        let error = provider.list_models(&Bus::new().cx()).await.expect_err("a refusal");
        let told = error.to_string();
        assert!(told.contains(advice) && told.starts_with(start), "{told}");
    }
}
