//! Signing in to servers, and what authorisation servers must not get away with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_auth::{AuthError, AuthorizationCode, CredentialStore, Http, Login, MemoryStore};
use zk_core::model::ToolErrorKind;
use zk_mcp::{McpPlugin, ServerConfig, ServerState, SignInError, SignInOptions, SignInPage};

use crate::support::{Host, LONG};
use crate::web::{Asked, Said, Web};

const PRM: &str = "/.well-known/oauth-protected-resource/mcp";
const META: &str = "/.well-known/oauth-authorization-server";

/// The page of an authorisation server that sends the browser back at once.
struct Redirected;

#[async_trait]
impl SignInPage for Redirected {
    async fn code(&self, login: &Login) -> Result<AuthorizationCode, AuthError> {
        let url = reqwest::Url::parse(login.url()).unwrap();
        let page = Http::new().client(&url).unwrap().get(url).send().await;
        let page = page.map_err(|_| AuthError::Pasted { reason: "no page" })?;
        login.pasted(page.headers().get("location").map_or("", |place| place.to_str().unwrap()))
    }
}

/// A server that wants a token, and its authorisation server, in one. What a test changes of it makes it hostile.
#[derive(Clone)]
struct World {
    /// Metadata of the server.
    resource: Value,
    /// Metadata of the authorisation server.
    meta: Value,
    /// More parameters of the answer to a sign-in.
    answer: String,
    /// Replacement answers by path.
    instead: Vec<(&'static str, Said)>,
    /// Scope required by a call, besides a token.
    call_scope: Option<&'static str>,
    /// Lifetime of a token, in seconds.
    expires_in: u64,
    /// Other authorisation server, which the server names after a switch.
    elsewhere: Arc<Mutex<Option<String>>>,
}

impl World {
    fn new() -> Self {
        Self {
            resource: json!({"resource": "{url}/mcp", "authorization_servers": ["{url}"],
                             "scopes_supported": ["a", "b"]}),
            meta: json!({"issuer": "{url}", "authorization_endpoint": "{url}/authorize",
                         "token_endpoint": "{url}/token", "registration_endpoint": "{url}/register",
                         "code_challenge_methods_supported": ["S256"],
                         "token_endpoint_auth_methods_supported": ["none"]}),
            answer: String::new(),
            instead: Vec::new(),
            call_scope: None,
            expires_in: 3600,
            elsewhere: Arc::default(),
        }
    }

    async fn start(self) -> Web {
        let (issued, scope) = (AtomicUsize::new(0), Mutex::new(String::new()));
        Web::start(move |asked, url| {
            let path = asked.path.split('?').next().unwrap().to_owned();
            if let Some((_, said)) = self.instead.iter().find(|(at, _)| *at == path) {
                return said.clone();
            }
            let filled = |value: &Value| {
                Said::json(&serde_json::from_str(&value.to_string().replace("{url}", url)).unwrap())
            };
            match path.as_str() {
                "/mcp" => self.mcp(asked, url, issued.load(Ordering::SeqCst), &scope.lock().unwrap()),
                PRM => match &*self.elsewhere.lock().unwrap() {
                    Some(other) => {
                        filled(&json!({"resource": "{url}/mcp", "authorization_servers": [other]}))
                    }
                    None => filled(&self.resource),
                },
                META => filled(&self.meta),
                "/register" => Said::json(&json!({"client_id": "registered"})),
                "/authorize" => {
                    let fields = asked.fields();
                    *scope.lock().unwrap() = fields.get("scope").cloned().unwrap_or_default();
                    let (back, state) = (&fields["redirect_uri"], &fields["state"]);
                    let place =
                        format!("{back}?code=c0de&state={state}{}", self.answer.replace("{url}", url));
                    Said::status(302).with("location", place)
                }
                "/token" => {
                    let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
                    Said::json(&json!({"access_token": format!("good-{number}"), "token_type": "Bearer",
                                       "refresh_token": "again", "expires_in": self.expires_in}))
                }
                _ => Said::status(404),
            }
        })
        .await
    }

    /// The server of the protocol: the newest token is good.
    fn mcp(&self, asked: &Asked, url: &str, newest: usize, scope: &str) -> Said {
        let challenge = format!("Bearer resource_metadata=\"{url}{PRM}\", scope=\"a\"");
        let token = asked.headers.get("authorization").map(String::as_str);
        if newest == 0 || token != Some(&format!("Bearer good-{newest}")) {
            return Said::status(401).with("www-authenticate", challenge);
        }
        if asked.method != "POST" {
            return Said::status(405);
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap();
        let Some(id) = message.get("id") else { return Said::status(202) };
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "s", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                if let Some(needed) =
                    self.call_scope.filter(|needed| !scope.split(' ').any(|one| one == *needed))
                {
                    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\"");
                    return Said::status(403).with("www-authenticate", challenge);
                }
                json!({"content": [{"type": "text", "text": "called"}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return Said::json(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        Said::json(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

async fn host(web: &Web, store: &Arc<MemoryStore>, more: Value) -> Host {
    let mut definition = json!({"url": format!("{}/mcp", web.url)});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = ServerConfig::read("far", &definition).unwrap();
    let host = Host::new(McpPlugin::new([config], "/").credentials(store.clone()));
    host.servers.warm_up(LONG).await;
    host
}

async fn sign_in(host: &Host) -> Result<(), SignInError> {
    let signed_in = host.servers.sign_in("far", &Redirected, &SignInOptions::default()).await;
    host.servers.warm_up(LONG).await;
    signed_in
}

#[tokio::test]
async fn a_server_that_wants_a_sign_in_says_so_and_works_after_it_in_every_program() {
    let web = World::new().start().await;
    let store = Arc::new(MemoryStore::default());
    let one = host(&web, &store, json!({})).await;
    let ServerState::Failed { error } = one.state() else { panic!("{:?}", one.state()) };
    assert!(error.contains("zk mcp login far"), "{error}");
    assert_eq!(one.events("mcp:auth:required")[0]["scopes"], json!(["a"]));
    assert!(web.asked("/authorize").is_empty(), "nothing opens by itself");
    sign_in(&one).await.unwrap();
    assert!(matches!(one.state(), ServerState::Ready { .. }), "{:?}", one.state());
    assert_eq!(one.text("mcp_far_t", json!({})).await, "called");
    let asked = web.asked("/authorize").remove(0).fields();
    let resource = format!("{}/mcp", web.url);
    assert_eq!((&asked["scope"], &asked["resource"]), (&"a".to_owned(), &resource));
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(web.asked("/token")[0].fields()["resource"], resource);
    let registered: Value = serde_json::from_str(&web.asked("/register")[0].body).unwrap();
    assert_eq!(registered["application_type"], "native");
    let other = host(&web, &store, json!({})).await;
    assert_eq!(other.text("mcp_far_t", json!({})).await, "called");
    assert!(other.servers.sign_out("far").await.unwrap());
    assert!(store.names().await.unwrap().is_empty());
    one.bus.close().await;
    other.bus.close().await;
}

#[tokio::test]
async fn a_token_that_is_rejected_is_refreshed_once() {
    let web = World::new().start().await;
    let store = Arc::new(MemoryStore::default());
    let one = host(&web, &store, json!({})).await;
    sign_in(&one).await.unwrap();
    // Another token is valid now, without notice.
    let url = reqwest::Url::parse(&format!("{}/token", web.url)).unwrap();
    Http::new().client(&url).unwrap().post(url).send().await.unwrap();
    assert_eq!(one.text("mcp_far_t", json!({})).await, "called");
    let refreshes =
        web.asked("/token").iter().filter(|one| one.body.contains("grant_type=refresh_token")).count();
    assert_eq!(refreshes, 1);
    one.bus.close().await;
}

#[tokio::test]
async fn a_call_that_needs_more_is_refused_until_somebody_signs_in_for_all_of_it() {
    let web = World { call_scope: Some("w"), ..World::new() }.start().await;
    let store = Arc::new(MemoryStore::default());
    let one = host(&web, &store, json!({})).await;
    sign_in(&one).await.unwrap();
    let error = one.call("mcp_far_t", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Denied);
    assert!(error.message.contains("zk mcp login far"), "{error}");
    // Another program knows it, too.
    let other = host(&web, &store, json!({})).await;
    assert!(other.servers.wants_sign_in("far").await);
    sign_in(&other).await.unwrap();
    assert_eq!(web.asked("/authorize").last().unwrap().fields()["scope"], "a w");
    assert_eq!(other.text("mcp_far_t", json!({})).await, "called");
    assert!(!other.servers.wants_sign_in("far").await);
    one.bus.close().await;
    other.bus.close().await;
}

#[tokio::test]
async fn a_server_that_is_never_content_is_given_up_after_three_sign_ins() {
    let web = World::new().start().await;
    let one = host(&web, &Arc::new(MemoryStore::default()), json!({})).await;
    for _ in 0..3 {
        sign_in(&one).await.unwrap();
    }
    let error = sign_in(&one).await.unwrap_err();
    assert!(matches!(error, SignInError::NotWanted(_)), "{error}");
    assert_eq!(web.asked("/authorize").len(), 3);
    one.bus.close().await;
}

#[tokio::test]
async fn a_server_with_a_header_of_its_own_is_never_signed_in_to() {
    let web = World::new().start().await;
    let header = json!({"headers": {"authorization": "Bearer mine"}});
    let one = host(&web, &Arc::new(MemoryStore::default()), header).await;
    let ServerState::Failed { error } = one.state() else { panic!("{:?}", one.state()) };
    assert!(error.contains("`Authorization`") && !error.contains("mcp login"), "{error}");
    assert!(sign_in(&one).await.is_err());
    assert!(web.asked(PRM).is_empty() && one.events("mcp:auth:required").is_empty());
    one.bus.close().await;
}

#[tokio::test]
async fn a_client_of_the_settings_is_not_registered_and_shows_its_secret() {
    let mut world = World::new();
    world.meta["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    let web = world.start().await;
    let oauth = json!({"oauth": {"client_id": "mine", "client_secret": "s3cret", "scopes": ["x"]}});
    let one = host(&web, &Arc::new(MemoryStore::default()), oauth).await;
    sign_in(&one).await.unwrap();
    assert!(web.asked("/register").is_empty());
    assert_eq!(web.asked("/authorize")[0].fields()["scope"], "a x");
    let fields = web.asked("/token")[0].fields();
    assert_eq!((fields["client_id"].as_str(), fields["client_secret"].as_str()), ("mine", "s3cret"));
    one.bus.close().await;
}

#[tokio::test]
async fn a_client_of_the_settings_goes_to_no_other_authorisation_server_than_its_own() {
    let (thief, world) = (World::new().start().await, World::new());
    let elsewhere = world.elsewhere.clone();
    let web = world.start().await;
    let store = Arc::new(MemoryStore::default());
    let client = |issuer: Option<&str>| json!({"oauth": {"client_id": "mine", "client_secret": "s3cret", "issuer": issuer}});
    let one = host(&web, &store, client(None)).await;
    sign_in(&one).await.unwrap();
    *elsewhere.lock().unwrap() = Some(thief.url.clone());
    let error = sign_in(&one).await.unwrap_err().to_string();
    assert!(error.contains("belongs to") && error.contains("oauth.issuer"), "{error}");
    let fresh = Arc::new(MemoryStore::default());
    let named = host(&web, &fresh, client(Some(&web.url))).await;
    assert!(sign_in(&named).await.is_err(), "the first sign-in, too");
    for path in ["/authorize", "/token", "/register"] {
        assert!(thief.asked(path).is_empty(), "{path}");
    }
    // One that moved for good is named.
    let moved = host(&web, &store, client(Some(&thief.url))).await;
    let _ = sign_in(&moved).await;
    assert_eq!(thief.asked("/token")[0].fields()["client_id"], "mine");
    for host in [one, named, moved] {
        host.bus.close().await;
    }
}

#[tokio::test]
async fn a_conversation_that_runs_takes_up_the_sign_in_of_another_program() {
    let web = World::new().start().await;
    let store = Arc::new(MemoryStore::default());
    let (one, running) = (host(&web, &store, json!({})).await, host(&web, &store, json!({})).await);
    assert!(matches!(running.state(), ServerState::Failed { .. }));
    sign_in(&one).await.unwrap();
    running.servers.warm_up(LONG).await;
    assert_eq!(running.text("mcp_far_t", json!({})).await, "called");
    // And its next one, while it is connected.
    sign_in(&one).await.unwrap();
    assert_eq!(running.text("mcp_far_t", json!({})).await, "called");
    assert_eq!(web.asked("/authorize").len(), 2, "both are those of the other program");
    one.bus.close().await;
    running.bus.close().await;
}

/// Fault by its name and as a change of the world, part of the message about it, and the path that must not
/// be reached.
type Case = (&'static str, fn(&mut World), &'static str, &'static str);

fn hostile() -> Vec<Case> {
    vec![
        (
            "another resource",
            |w| w.resource["resource"] = json!("https://bank.example/mcp"),
            "another server",
            META,
        ),
        ("no authorisation server", |w| w.resource["authorization_servers"] = json!([]), "names no", META),
        (
            "an authorisation server without TLS",
            |w| w.resource["authorization_servers"] = json!(["http://as.example"]),
            "https://",
            "/authorize",
        ),
        (
            "another issuer",
            |w| w.meta["issuer"] = json!("https://as.example"),
            "another issuer",
            "/authorize",
        ),
        (
            "an issuer with a slash more",
            |w| w.meta["issuer"] = json!("{url}/"),
            "another issuer",
            "/authorize",
        ),
        ("no PKCE", |w| w.meta["code_challenge_methods_supported"] = Value::Null, "PKCE", "/authorize"),
        (
            "plain PKCE",
            |w| w.meta["code_challenge_methods_supported"] = json!(["plain"]),
            "PKCE",
            "/authorize",
        ),
        (
            "a page that is a program",
            |w| w.meta["authorization_endpoint"] = json!("javascript:alert(1)"),
            "https://",
            "/register",
        ),
        (
            "tokens without TLS",
            |w| w.meta["token_endpoint"] = json!("http://as.example/t"),
            "https://",
            "/register",
        ),
        (
            "a redirected description",
            |w| w.instead.push((META, Said::status(302).with("location", "/register"))),
            "HTTP 302",
            "/register",
        ),
        (
            "an endless description",
            |w| w.instead.push((META, Said { body: "x".repeat(1 << 20), ..Said::status(200) })),
            "more than",
            "/register",
        ),
        (
            "a registration without an id",
            |w| w.instead.push(("/register", Said::json(&json!({"client_id": ""})))),
            "client_id",
            "/authorize",
        ),
        (
            "an answer of another issuer",
            |w| w.answer = "&iss=https://as.example".to_owned(),
            "asked",
            "/token",
        ),
        (
            "an answer without the promised issuer",
            |w| w.meta["authorization_response_iss_parameter_supported"] = json!(true),
            "asked",
            "/token",
        ),
        ("an answer of another sign-in", |w| w.answer = "&state=other".to_owned(), "twice", "/token"),
        (
            "a refusal that steers the terminal",
            |w| w.answer = "&error=no\u{1b}[2J".replace('\u{1b}', "%1b"),
            "declined",
            "/token",
        ),
        (
            "tokens of a kind that is not known",
            |w| w.instead.push(("/token", Said::json(&json!({"access_token": "x", "token_type": "mac"})))),
            "Bearer",
            "/nowhere",
        ),
        (
            "a redirected token endpoint",
            |w| w.instead.push(("/token", Said::status(307).with("location", "/stolen"))),
            "HTTP 307",
            "/stolen",
        ),
    ]
}

#[tokio::test]
async fn no_hostile_authorisation_server_gets_a_code_or_a_token_out_of_a_sign_in() {
    let cases = hostile();
    assert!(cases.len() >= 15);
    for (name, twist, part, unreached) in cases {
        let mut world = World::new();
        twist(&mut world);
        let web = world.start().await;
        let store = Arc::new(MemoryStore::default());
        let one = host(&web, &store, json!({})).await;
        let error = sign_in(&one).await.expect_err(name).to_string();
        assert!(error.contains(part), "{name}: {error}");
        assert!(!error.contains('\u{1b}'), "{name}: {error:?}");
        assert!(web.asked(unreached).is_empty(), "{name}: {unreached} was asked");
        assert!(store.names().await.unwrap().is_empty(), "{name}: something is stored");
        assert!(matches!(one.state(), ServerState::Failed { .. }), "{name}: {:?}", one.state());
        one.bus.close().await;
    }
}
