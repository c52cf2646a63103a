//! Providers that ask for their token, and what they send.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use zk_auth::{Credential, CredentialStore, MemoryStore, OAuthClient, OAuthSession, OAuthTokens};
use zk_core::kernel::{AnyEvent, Bus, Cx};
use zk_core::model::{ErrorKind, Message, ProviderError, WireReady};
use zk_core::service::{Provider, Request};
use zk_providers::{
    Anthropic, AnthropicOptions, Auth, Connection, Http, Responses, ResponsesOptions, SetupError,
};

use crate::collect::collect;
use crate::server::{Reply, Server};

const ANSWER: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"output_tokens":1}}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// Texts that no error, event or `Debug` may show.
const ACCESS: &str = "canary-access-0f3a";
const REFRESH: &str = "canary-refresh-91bc";

/// A client of the authorisation server at `url`, called `test`.
fn client(url: &str) -> OAuthClient {
    OAuthClient::new("test", "zk-tests", format!("{url}/authorize"), format!("{url}/token"))
}

/// The answer of a token endpoint.
fn granted(access: &str, refresh: &str, expires_in: u64) -> Reply {
    let body = serde_json::json!({
        "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": expires_in,
    });
    Reply::json("200 OK", body.to_string())
}

fn assert_no_secret(shown: &str) {
    for secret in [ACCESS, REFRESH] {
        assert!(!shown.contains(secret), "{secret} is shown: {shown}");
    }
}

async fn source(client: OAuthClient, seconds: u64) -> Auth {
    let store = Arc::new(MemoryStore::default());
    let tokens = OAuthTokens {
        access: ACCESS.into(),
        refresh: Some(REFRESH.into()),
        expires_at: Some(SystemTime::now() + Duration::from_secs(seconds)),
        account: None,
        issuer: client.token_url.replace("/token", ""),
    };
    store.put("test", &Credential::OAuth(tokens)).await.unwrap();
    Auth::Source(Arc::new(OAuthSession::new(client, store, Http::new())))
}

fn claude(url: &str, auth: Auth) -> Anthropic {
    let connection = Connection { base_url: url.to_owned(), auth, ..Anthropic::connection() };
    Anthropic::new(connection, AnthropicOptions::default()).unwrap()
}

/// Sends a request; returns the error, if any, and all displayed events.
async fn ask(provider: &dyn Provider) -> (Option<ProviderError>, String) {
    let bus = Bus::new();
    let seen = Arc::new(Mutex::new(String::new()));
    let log = seen.clone();
    bus.scope("test").observe(move |event: &dyn AnyEvent, _: &Cx| {
        log.lock().unwrap().push_str(&format!("{} {}\n", event.name(), event.to_json().unwrap()));
    });
    let model = provider.model("claude-opus-5");
    let history = WireReady::normalise(&[Message::user_text("hi").shared()], &provider.rules(&model));
    let error = collect(provider.stream(Request::new(model, history), &bus.cx())).await.err();
    let seen = seen.lock().unwrap().clone();
    (error.map(|(error, _)| error), seen)
}

#[tokio::test]
async fn each_request_shows_the_token() {
    let server = Server::start([Reply::sse(ANSWER)]).await;
    let auth = source(client("http://127.0.0.1:1"), 3600).await;
    assert_eq!(format!("{auth:?}"), "Source(…)");
    let (error, _) = ask(&claude(&server.url, auth)).await;
    assert!(error.is_none(), "{error:?}");
    let received = &server.received()[0];
    assert_eq!(received.header("authorization"), Some(&*format!("Bearer {ACCESS}")));
    assert_eq!(received.header("x-api-key"), None);
    assert_eq!(received.header("anthropic-beta"), Some("oauth-2025-04-20"));
}

#[tokio::test]
async fn a_rejected_token_is_replaced_and_the_request_sent_again() {
    let issuer = Server::start([granted("canary-access-0f3a-2", "r2", 3600)]).await;
    let no =
        Reply::json("401 Unauthorized", r#"{"error":{"type":"authentication_error","message":"ended"}}"#);
    let server = Server::start([no, Reply::sse(ANSWER)]).await;
    let (error, events) = ask(&claude(&server.url, source(client(&issuer.url), 3600).await)).await;
    assert!(error.is_none(), "{error:?}");
    let received = server.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].header("authorization"), Some("Bearer canary-access-0f3a-2"));
    assert_eq!(received[0].body, received[1].body);
    assert!(events.contains("oauth:refresh {"), "{events}");
    assert_no_secret(&events);
}

#[tokio::test]
async fn a_token_is_replaced_once_only() {
    let issuer = Server::start([granted(ACCESS, REFRESH, 3600), granted("a2", "r2", 3600)]).await;
    let body = format!(r#"{{"error":{{"type":"authentication_error","message":"bad {ACCESS}"}}}}"#);
    let server = Server::start([Reply::json("401 Unauthorized", body)]).await;
    let (error, _) = ask(&claude(&server.url, source(client(&issuer.url), 3600).await)).await;
    let error = error.unwrap();
    assert_eq!((error.kind, error.status), (ErrorKind::Auth, Some(401)));
    assert_no_secret(&format!("{error} {error:?}"));
    assert_eq!((server.received().len(), issuer.received().len()), (2, 1));
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let no = Reply::json("400 Bad Request", r#"{"error":"invalid_grant"}"#);
    let issuer = Server::start([no]).await;
    let server = Server::start([Reply::sse(ANSWER)]).await;
    let (error, _) = ask(&claude(&server.url, source(client(&issuer.url), 0).await)).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::Auth);
    assert_eq!(error.code.as_deref(), Some(ProviderError::NOT_SIGNED_IN));
    assert!(!error.to_string().contains("zk auth"), "the program adds its command: {error}");
    assert_no_secret(&format!("{error} {error:?}"));
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn lists_of_models_are_asked_for_with_the_token_too() {
    let issuer = Server::start([granted("a2", "r2", 3600)]).await;
    let no = Reply::json("401 Unauthorized", "{}");
    let server = Server::start([no, Reply::json("200 OK", r#"{"data":[{"id":"m"}]}"#)]).await;
    let claude = claude(&server.url, source(client(&issuer.url), 3600).await);
    let models = claude.list_models(&Bus::new().cx()).await.unwrap().unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!(server.received()[1].header("authorization"), Some("Bearer a2"));
}

#[tokio::test]
async fn tokens_are_shown_to_no_host_they_are_not_for() {
    let auth =
        source(OAuthClient { name: "test".into(), ..zk_providers::subscription_sign_in() }, 3600).await;
    let codex = |base_url: &str| {
        let connection = Responses::subscription_connection().base_url(base_url);
        let (auth, account) = (auth.clone(), Some("acc".to_owned()));
        Responses::new(Connection { auth, account, ..connection }, ResponsesOptions::subscription())
    };
    assert!(codex("https://chatgpt.com/backend-api/codex").is_ok());
    let error = codex("https://evil.example/codex").map(|_| ()).unwrap_err();
    assert!(matches!(&error, SetupError::Host { host } if host == "evil.example"), "{error}");
}
