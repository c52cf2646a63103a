//! A browser that is not the browser, and pages that want zk to take their answer for the real one.

use std::time::Duration;

use secrecy::ExposeSecret;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;
use zk_auth::Http;
use zk_auth::{AuthError, Login, OAuthClient};
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream};
use zk_exec::{Environment, ProcessExec};

use crate::browser::Browser;
use crate::server::Server;
use crate::{ACCESS, CODE, REFRESH, assert_no_secret, client, granted};

const LIMIT: Duration = Duration::from_secs(20);

/// Lets `attack` happen while the sign-in waits; the real answer must still count afterwards.
async fn survives(attack: impl AsyncFnOnce(&Browser)) {
    let server = Server::start([granted(ACCESS, REFRESH, 60)]).await;
    let client = OAuthClient { issuer: Some("https://issuer.example".into()), ..client(&server.url) };
    let login = Login::begin(client, Http::new()).await.unwrap();
    let browser = Browser::at(&login);
    let (code, ()) = tokio::join!(login.callback(LIMIT), async {
        attack(&browser).await;
        let page = browser.finish(CODE).await;
        assert!(page.starts_with("HTTP/1.1 200"), "the real answer counts: {page}");
    });
    let tokens = login.exchange(code.unwrap()).await.unwrap();
    assert_eq!(tokens.access.expose_secret(), ACCESS);
    assert_eq!(server.received().len(), 1, "only the real code was exchanged");
}

/// Runs [`survives`] with targets that all get status 400.
async fn survives_targets(targets: impl Fn(&str) -> Vec<String>) {
    survives(async |browser| {
        for target in targets(browser.state()) {
            let page = browser.get(&target).await;
            assert!(page.starts_with("HTTP/1.1 400"), "{target}: {page}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_bad_state_does_not_cancel_the_real_sign_in() {
    survives_targets(|state| {
        vec![
            "/callback?code=evil&state=wrong".into(),
            format!("/callback?code=evil&state={state}x"),
            "/callback?code=evil&state=".into(),
            "/callback?code=evil".into(),
        ]
    })
    .await;
}

#[tokio::test]
async fn a_missing_code_is_no_answer() {
    survives_targets(|state| {
        vec![format!("/callback?state={state}"), format!("/callback?code=&state={state}"), "/callback".into()]
    })
    .await;
}

#[tokio::test]
async fn an_error_without_the_state_declines_nothing() {
    survives_targets(|_| vec!["/callback?error=access_denied".into()]).await;
}

#[tokio::test]
async fn an_answer_that_names_another_issuer_is_a_mix_up() {
    survives_targets(|state| vec![format!("/callback?code=evil&state={state}&iss=https://evil.example")])
        .await;
}

#[tokio::test]
async fn a_parameter_that_comes_twice_is_refused() {
    survives_targets(|state| {
        vec![
            format!("/callback?code=evil&code=good&state={state}"),
            format!("/callback?code=evil&state={state}&state={state}"),
        ]
    })
    .await;
}

#[tokio::test]
async fn another_path_is_another_redirect() {
    survives_targets(|state| {
        ["/", "/callback/", "/callback/../callback", "//callback", "/CALLBACK", "http://127.0.0.1/callback"]
            .map(|path| format!("{path}?code=evil&state={state}"))
            .to_vec()
    })
    .await;
}

#[tokio::test]
async fn another_host_or_method_is_refused() {
    survives(async |browser| {
        let target = format!("/callback?code=evil&state={}", browser.state());
        let port = browser.redirect.port().unwrap();
        for head in [
            format!("GET {target} HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"),
            format!("GET {target} HTTP/1.1\r\n\r\n"),
            format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n"),
            format!("POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"),
            format!("GET {target} SPDY/9\r\nHost: 127.0.0.1:{port}\r\n\r\n"),
        ] {
            let page = browser.raw(&head).await;
            assert!(page.starts_with("HTTP/1.1 400"), "{head}: {page}");
        }
    })
    .await;
}

#[tokio::test]
async fn slow_and_silent_connections_keep_nobody_waiting() {
    survives(async |browser| {
        let mut open = Vec::new();
        for _ in 0..20 {
            let mut stream = browser.connect().await;
            stream.write_all(b"GET /callback?code=ev").await.unwrap();
            open.push(stream);
        }
        // They stay open until the real answer is through.
        tokio::spawn(async move {
            tokio::time::sleep(LIMIT).await;
            drop(open);
        });
    })
    .await;
}

#[tokio::test]
async fn a_huge_request_is_cut_off() {
    survives(async |browser| {
        let page = browser.raw(format!("GET /callback?code={} HTTP/1.1\r\n", "a".repeat(1 << 20))).await;
        assert_eq!(page, "", "no answer, the connection ends");
    })
    .await;
}

#[tokio::test]
async fn bytes_that_are_no_request_are_dropped() {
    survives(async |browser| {
        browser.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").await;
        browser.raw(b"\r\n\r\n").await;
        drop(browser.connect().await);
    })
    .await;
}

#[tokio::test]
async fn a_replayed_answer_is_not_heard() {
    let server = Server::start([granted(ACCESS, REFRESH, 60)]).await;
    let login = Login::begin(client(&server.url), Http::new()).await.unwrap();
    let browser = Browser::at(&login);
    let (code, _) = tokio::join!(login.callback(LIMIT), browser.finish(CODE));
    login.exchange(code.unwrap()).await.unwrap();
    let port = browser.redirect.port().unwrap();
    let again = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
    assert!(again.is_err(), "nobody listens any more");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_no_with_the_right_state_ends_the_sign_in() {
    let login = Login::begin(client("http://127.0.0.1:1"), Http::new()).await.unwrap();
    let browser = Browser::at(&login);
    let target =
        format!("/callback?error=access_denied&error_description=no%1b%5b2Jway&state={}", browser.state());
    let (answer, page) = tokio::join!(login.callback(LIMIT), browser.get(&target));
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let error = answer.unwrap_err();
    assert!(matches!(error, AuthError::Declined { .. }), "{error}");
    let shown = error.to_string();
    assert!(shown.contains("access_denied") && !shown.contains('\x1b'), "{shown:?}");
    assert_no_secret(&shown);
}

#[tokio::test]
async fn shell_metacharacters_in_the_address_reach_no_shell() {
    let dir = tempfile::tempdir().unwrap();
    let traps = r#"a'b"$(touch trap1)`touch trap2`;touch trap3|touch trap4 & \ !! {x,y} (z) <q >trap5 *"#;
    let client = OAuthClient {
        authorize_url: format!("https://example.com/$(touch%20trap6)'/a?x={traps}#{traps}"),
        authorize_params: vec![("evil".into(), traps.into())],
        ..client("https://example.com")
    };
    let login = Login::begin(client, Http::new()).await.unwrap();
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]));
    // The worst openers put the address into a command line, inside one kind of quotes or the other.
    for quote in ['"', '\''] {
        let command = format!("printf %s {quote}{}{quote}", login.url());
        let mut shown = Vec::new();
        let mut sink = |_: OutputStream, bytes: &[u8]| shown.extend_from_slice(bytes);
        let request = ExecRequest::shell(&command, dir.path());
        let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
        assert_eq!(outcome.exit, Exit::Code(0));
        assert_eq!(String::from_utf8_lossy(&shown), login.url(), "it arrives as it is");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was run");
}
