use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use secrecy::ExposeSecret;
use zk_auth::Http;
use zk_auth::{
    AuthError, Credential, CredentialLock, CredentialStore, FileStore, MemoryStore, OAuthClient,
    OAuthRefresh, OAuthSession, OAuthTokens, SetAside, StoreError, TokenSource,
};
use zk_core::kernel::Bus;
use zk_core::service::{Clock, SystemClock};

use crate::server::{Received, Reply, Server};
use crate::{ACCESS, REFRESH, assert_no_secret, client, form, granted, tokens};

/// Server that rotates refresh tokens and remembers the valid one: `refresh-N` returns the pair `N + 1`.
pub(super) async fn rotating(delay: Duration) -> Server {
    let turn = AtomicU64::new(0);
    let reply = move |_: usize, received: &Received| {
        let sent = form(received);
        let turn = &turn;
        let good = sent["refresh_token"] == format!("refresh-{}", turn.load(Ordering::SeqCst));
        if sent["grant_type"] != "refresh_token" || !good {
            return Reply::json("400 Bad Request", r#"{"error":"invalid_grant"}"#);
        }
        let next = turn.fetch_add(1, Ordering::SeqCst) + 1;
        // The answer is whole when the connection ends.
        granted(&format!("access-{next}"), &format!("refresh-{next}"), 3600).sleep(delay)
    };
    Server::answering(reply).await
}

/// Initial tokens, which expire in `seconds`.
pub(super) fn first(issuer: &str, seconds: u64) -> OAuthTokens {
    OAuthTokens { access: "access-0".into(), refresh: Some("refresh-0".into()), ..tokens(issuer, seconds) }
}

async fn stored(tokens: OAuthTokens) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::default());
    store.put("test", &Credential::OAuth(tokens)).await.unwrap();
    store
}

fn session(client: OAuthClient, store: &Arc<MemoryStore>) -> OAuthSession {
    let limit = Duration::from_millis(500);
    OAuthSession::with(client, store.clone(), Http::new(), Arc::new(SystemClock), limit)
}

async fn access(session: &OAuthSession) -> Result<String, AuthError> {
    let token = session.token(&Bus::new().cx()).await;
    token.map(|token| token.expose_secret().to_owned())
}

async fn held(store: &dyn CredentialStore) -> OAuthTokens {
    match store.get("test").await.unwrap() {
        Some(Credential::OAuth(tokens)) => tokens,
        other => panic!("no tokens but {other:?}"),
    }
}

#[tokio::test]
async fn a_token_with_time_left_is_used_as_it_is() {
    let server = rotating(Duration::ZERO).await;
    let store = stored(first(&server.url, 600)).await;
    assert_eq!(access(&session(client(&server.url), &store)).await.unwrap(), "access-0");
    let endless = OAuthTokens { expires_at: None, ..first(&server.url, 0) };
    assert_eq!(access(&session(client(&server.url), &stored(endless).await)).await.unwrap(), "access-0");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn a_token_in_its_last_minutes_is_refreshed_and_stored() {
    let server = rotating(Duration::ZERO).await;
    for (seconds, turn) in [(200, 1), (0, 2)] {
        let old = OAuthTokens {
            refresh: Some(format!("refresh-{}", turn - 1).into()),
            account: Some("acc".into()),
            ..first(&server.url, seconds)
        };
        let store = stored(old).await;
        assert_eq!(access(&session(client(&server.url), &store)).await.unwrap(), format!("access-{turn}"));
        let now = held(&*store).await;
        assert_eq!(now.refresh.unwrap().expose_secret(), format!("refresh-{turn}"));
        assert_eq!(now.account.as_deref(), Some("acc"), "it stays when the server does not repeat it");
        assert!(now.expires_at.is_some_and(|end| end > SystemTime::now() + Duration::from_secs(3000)));
    }
}

#[tokio::test]
async fn a_token_of_five_minutes_is_refreshed_in_its_last_fifth_and_not_at_every_request() {
    struct Shifted(Arc<AtomicU64>);
    impl Clock for Shifted {
        fn now(&self) -> SystemTime {
            SystemTime::now() + Duration::from_secs(self.0.load(Ordering::SeqCst))
        }
    }
    let turn = AtomicU64::new(0);
    let server = Server::answering(move |_, _: &Received| {
        let next = turn.fetch_add(1, Ordering::SeqCst) + 1;
        granted(&format!("access-{next}"), &format!("refresh-{next}"), 300)
    });
    let server = server.await;
    let (store, shift) = (stored(first(&server.url, 0)).await, Arc::<AtomicU64>::default());
    let (limit, clock) = (Duration::from_secs(60), Arc::new(Shifted(shift.clone())));
    let session = OAuthSession::with(client(&server.url), store, Http::new(), clock, limit);
    for (seconds, expected) in [(0, "access-1"), (0, "access-1"), (120, "access-1"), (250, "access-2")] {
        shift.store(seconds, Ordering::SeqCst);
        assert_eq!(access(&session).await.unwrap(), expected, "after {seconds} s");
    }
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn time_is_what_the_clock_of_the_host_says() {
    struct Later;
    impl Clock for Later {
        fn now(&self) -> SystemTime {
            SystemTime::now() + Duration::from_secs(3000)
        }
    }
    let server = rotating(Duration::ZERO).await;
    let store = stored(first(&server.url, 3200)).await;
    let limit = Duration::from_secs(5);
    let session = OAuthSession::with(client(&server.url), store, Http::new(), Arc::new(Later), limit);
    assert_eq!(access(&session).await.unwrap(), "access-1");
}

#[tokio::test]
async fn a_server_that_does_not_rotate_keeps_its_refresh_token() {
    let body = format!(r#"{{"access_token":"{ACCESS}-2","expires_in":3600}}"#);
    let server = Server::start([Reply::json("200 OK", body)]).await;
    let store = stored(tokens(&server.url, 0)).await;
    access(&session(client(&server.url), &store)).await.unwrap();
    assert_eq!(held(&*store).await.refresh.unwrap().expose_secret(), REFRESH);
}

#[tokio::test]
async fn a_rejected_token_is_replaced_once_by_all_who_had_it() {
    let server = rotating(Duration::from_millis(20)).await;
    let store = stored(first(&server.url, 3600)).await;
    let session = session(client(&server.url), &store);
    let cx = Bus::new().cx();
    let old = session.token(&cx).await.unwrap();
    let replaced = futures_util::future::join_all((0..20).map(|_| session.replace(&old, &cx))).await;
    for token in replaced {
        assert_eq!(token.unwrap().unwrap().expose_secret(), "access-1");
    }
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_live_session_takes_what_another_stored() {
    let server = rotating(Duration::ZERO).await;
    let store = stored(first(&server.url, 0)).await;
    let (one, two) = (session(client(&server.url), &store), session(client(&server.url), &store));
    assert_eq!(access(&one).await.unwrap(), "access-1");
    assert_eq!(access(&two).await.unwrap(), "access-1", "a used refresh token is not used again");
    assert_eq!(server.received().len(), 1);
    let anew = OAuthTokens { access: "signed-in-anew".into(), ..first(&server.url, 3600) };
    store.put("test", &Credential::OAuth(anew)).await.unwrap();
    assert_eq!(access(&one).await.unwrap(), "signed-in-anew");
    store.remove("test").await.unwrap();
    assert!(matches!(access(&one).await.unwrap_err(), AuthError::NotSignedIn { .. }));
}

#[tokio::test]
async fn a_failed_refresh_keeps_the_credentials() {
    for reply in [
        Reply::json(
            "400 Bad Request",
            format!(r#"{{"error":"invalid_grant","error_description":"{REFRESH}"}}"#),
        ),
        Reply::json("500 Internal Server Error", format!(r#"{{"error":"{ACCESS}"}}"#)),
        Reply::new("200 OK", "content-type: text/html\r\n", REFRESH),
        Reply::default().hang(),
    ] {
        let server = Server::start([reply]).await;
        let store = stored(tokens(&server.url, 0)).await;
        let session = session(client(&server.url), &store);
        let error = access(&session).await.unwrap_err();
        assert_no_secret(&format!("{error} {error:?} {session:?} {store:?}"));
        let kept = held(&*store).await;
        assert_eq!(kept.access.expose_secret(), ACCESS);
        assert_eq!(kept.refresh.unwrap().expose_secret(), REFRESH);
    }
}

#[tokio::test]
async fn the_last_minutes_of_a_token_are_used_when_it_cannot_be_refreshed() {
    let server = Server::start([Reply::json("503 Service Unavailable", "{}")]).await;
    let store = stored(tokens(&server.url, 120)).await;
    let session = session(client(&server.url), &store);
    assert_eq!(access(&session).await.unwrap(), ACCESS);
    let error = session.replace(&ACCESS.into(), &Bus::new().cx()).await.unwrap_err();
    assert!(matches!(error, AuthError::Unavailable { .. }), "a rejected one is not: {error}");
}

/// A store whose lock is no lock, so that another can be faster.
struct Overtaken {
    inner: MemoryStore,
    /// Tokens that another process stores while this one asks the server.
    meanwhile: Mutex<Option<OAuthTokens>>,
}

#[async_trait]
impl CredentialStore for Overtaken {
    async fn get(&self, name: &str) -> Result<Option<Credential>, StoreError> {
        self.inner.get(name).await
    }
    async fn put(&self, name: &str, credential: &Credential) -> Result<Option<SetAside>, StoreError> {
        self.inner.put(name, credential).await
    }
    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        self.inner.remove(name).await
    }
    async fn names(&self) -> Result<Vec<String>, StoreError> {
        self.inner.names().await
    }
    async fn lock(&self, name: &str) -> Result<CredentialLock, StoreError> {
        self.inner.lock(name).await
    }
}

#[tokio::test]
async fn a_refresh_that_failed_looks_again_for_what_another_stored() {
    let store = Arc::new(Overtaken { inner: MemoryStore::default(), meanwhile: Mutex::default() });
    let other = store.clone();
    let server = Server::answering(move |_, _| {
        let anew = other.meanwhile.lock().unwrap().take().unwrap();
        let anew = Credential::OAuth(anew);
        let put = other.inner.put("test", &anew);
        futures_util::FutureExt::now_or_never(put).unwrap().unwrap();
        Reply::json("400 Bad Request", r#"{"error":"invalid_grant"}"#)
    })
    .await;
    let anew = OAuthTokens { access: "from-another".into(), ..tokens(&server.url, 3600) };
    *store.meanwhile.lock().unwrap() = Some(anew);
    store.put("test", &Credential::OAuth(tokens(&server.url, 0))).await.unwrap();
    let session = OAuthSession::new(client(&server.url), store, Http::new());
    assert_eq!(access(&session).await.unwrap(), "from-another");
}

#[tokio::test]
async fn a_refresh_that_has_begun_outlives_the_run_that_asked_for_it() {
    let server = rotating(Duration::from_millis(100)).await;
    let store = stored(first(&server.url, 0)).await;
    let session = session(client(&server.url), &store);
    let asking = tokio::spawn(async move { access(&session).await });
    while server.received().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    while held(&*store).await.access.expose_secret() != "access-1" {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn tokens_that_cannot_be_stored_still_work_here() {
    let server = rotating(Duration::ZERO).await;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(dir.path().join("credentials.json")));
    store.put("test", &Credential::OAuth(first(&server.url, 0))).await.unwrap();
    // A directory at the path of the temporary file makes every write fail.
    std::fs::create_dir(dir.path().join("credentials.json.tmp")).unwrap();
    let session = OAuthSession::new(client(&server.url), store.clone(), Http::new());
    let bus = Bus::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    bus.scope("test").on_sync(move |event: &OAuthRefresh, _: &zk_core::kernel::Cx| {
        log.lock().unwrap().push(event.clone());
    });
    for _ in 0..2 {
        assert_eq!(session.token(&bus.cx()).await.unwrap().expose_secret(), "access-1");
    }
    assert_eq!(server.received().len(), 1);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen[0].unsaved.as_ref().is_some_and(|why| why.contains("credentials.json")), "{seen:?}");
    assert_eq!(held(&*store).await.access.expose_secret(), "access-0", "what was stored is still there");
}

#[tokio::test]
async fn tokens_go_to_nobody_but_their_issuer() {
    let server = rotating(Duration::ZERO).await;
    let store = stored(first("https://issuer.example", 0)).await;
    let error = access(&session(client(&server.url), &store)).await.unwrap_err();
    assert!(matches!(&error, AuthError::OtherIssuer { .. }), "{error}");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn without_tokens_the_error_says_that_a_sign_in_helps_and_names_no_program() {
    let store = Arc::new(MemoryStore::default());
    let session = session(client("http://127.0.0.1:1"), &store);
    let error = access(&session).await.unwrap_err();
    assert!(error.wants_sign_in() && error.to_string().contains("not signed in to test"), "{error}");
    assert!(!error.to_string().contains("zk "), "{error}");
    store.put("test", &Credential::ApiKey(ACCESS.into())).await.unwrap();
    let error = access(&session).await.unwrap_err();
    assert!(matches!(error, AuthError::NotSignedIn { .. }), "a key is no token: {error}");
    let ended = OAuthTokens { refresh: None, ..tokens("http://127.0.0.1:1", 0) };
    store.put("test", &Credential::OAuth(ended)).await.unwrap();
    let error = access(&session).await.unwrap_err();
    assert!(matches!(error, AuthError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn a_refresh_is_announced_without_its_tokens() {
    let server = Server::start([granted(ACCESS, REFRESH, 3600)]).await;
    let store = stored(first(&server.url, 0)).await;
    let bus = Bus::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    bus.scope("test").observe(move |event: &dyn zk_core::kernel::AnyEvent, _: &zk_core::kernel::Cx| {
        log.lock().unwrap().push(format!("{} {}", event.name(), event.to_json().unwrap()));
    });
    session(client(&server.url), &store).token(&bus.cx()).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("oauth:refresh {") && seen[0].contains(r#""provider":"test""#), "{seen:?}");
    assert!(seen[0].contains(r#""expires_in_s":35"#), "{seen:?}");
    assert_no_secret(&seen[0]);
}
