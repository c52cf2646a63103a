use std::time::{Duration, UNIX_EPOCH};

use secrecy::ExposeSecret;
use zk_auth::Http;
use zk_auth::{AuthError, Callback, ClientAuth, IssuerRule, Login, OAuthClient, Redirect, TokenBody};

use crate::browser::Browser;
use crate::server::{Reply, Server};
use crate::{ACCESS, CODE, REFRESH, assert_no_secret, client, form, granted};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_sign_in_by_the_browser_gives_tokens() {
    let server = Server::start([granted(ACCESS, REFRESH, 3600)]).await;
    let client = OAuthClient {
        scopes: vec!["one".into(), "two".into()],
        resource: Some("https://api.example".into()),
        authorize_params: vec![("extra".into(), "a b".into())],
        ..client(&server.url)
    };
    let login = Login::begin(client, Http::new()).await.unwrap();
    let browser = Browser::at(&login);
    assert_eq!(browser.asked["response_type"], "code");
    assert_eq!(browser.asked["client_id"], "zk-tests");
    assert_eq!(browser.asked["scope"], "one two");
    assert_eq!(browser.asked["resource"], "https://api.example");
    assert_eq!(browser.asked["extra"], "a b");
    assert_eq!(browser.asked["code_challenge_method"], "S256");
    assert_eq!(browser.asked["code_challenge"].len(), 43);
    assert!(browser.state().len() >= 22, "at least 128 bits");
    assert_eq!(browser.redirect.host_str(), Some("127.0.0.1"));

    let (code, page) = tokio::join!(login.callback(LIMIT), browser.finish(CODE));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("cache-control: no-store"));
    let code = code.unwrap();
    assert_no_secret(&format!("{login:?} {code:?}"));
    let tokens = login.exchange(code).await.unwrap();
    assert_eq!(tokens.access.expose_secret(), ACCESS);
    assert_eq!(tokens.refresh.as_ref().map(ExposeSecret::expose_secret), Some(REFRESH));
    assert_eq!(tokens.issuer, server.url);
    assert!(tokens.expires_at.is_some());
    assert_no_secret(&format!("{tokens:?}"));

    let received = &server.received()[0];
    assert!(received.head.starts_with("POST /token HTTP/1.1\r\n"));
    assert!(received.header("user-agent").is_some_and(|agent| agent.starts_with("zk/")));
    let sent = form(received);
    assert_eq!(sent["grant_type"], "authorization_code");
    assert_eq!(sent["code"], CODE);
    assert_eq!(sent["client_id"], "zk-tests");
    assert_eq!(sent["redirect_uri"], browser.asked["redirect_uri"]);
    assert_eq!(sent["resource"], "https://api.example");
    assert_eq!(sent["code_verifier"].len(), 43);
    assert!(!sent.contains_key("state"), "not a field of the standard");
}

#[tokio::test]
async fn each_sign_in_has_its_own_secrets() {
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let login = Login::begin(client("http://127.0.0.1:1"), Http::new()).await.unwrap();
        let browser = Browser::at(&login);
        assert!(seen.insert(browser.state().to_owned()));
        assert!(seen.insert(browser.asked["code_challenge"].clone()));
    }
}

#[tokio::test]
async fn a_code_can_be_pasted_with_its_state_or_as_an_address() {
    let server = Server::start([granted(ACCESS, REFRESH, 60)]).await;
    let page = Redirect::Page { url: "https://example.com/code".into() };
    let client = OAuthClient { redirect: page, token_body: TokenBody::Json, ..client(&server.url) };
    let login = Login::begin(client, Http::new()).await.unwrap();
    assert!(!login.listens());
    let browser = Browser::at(&login);
    let state = browser.state();
    for text in [
        format!("  {CODE}#{state}\n"),
        format!("https://example.com/code?code={CODE}&state={state}"),
        format!("code={CODE}&state={state}"),
    ] {
        login.pasted(&text).unwrap();
    }
    for text in [
        String::new(),
        CODE.to_owned(),
        format!("{CODE}#{state}x"),
        format!("#{state}"),
        format!("{CODE}#"),
        format!("https://example.com/code?code={CODE}"),
        format!("https://example.com/code?code={CODE}&code=other&state={state}"),
    ] {
        let error = login.pasted(&text).unwrap_err();
        assert!(matches!(error, AuthError::Pasted { .. }), "{text}: {error}");
        assert_no_secret(&format!("{error} {error:?}"));
    }
    let no = login.pasted(&format!("error=access_denied&state={state}")).unwrap_err();
    assert!(matches!(no, AuthError::Declined { .. }));

    let code = login.pasted(&format!("{CODE}#{state}")).unwrap();
    let state = state.to_owned();
    login.exchange(code).await.unwrap();
    let sent = server.received()[0].json();
    assert_eq!((&sent["code"], &sent["state"]), (&CODE.into(), &state.into()), "as JSON, with its state");
}

#[tokio::test]
async fn the_account_and_the_end_are_read_from_the_token() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = r#"{"exp":4000000000,"https://api.example/auth":{"account_id":"acc_1"}}"#;
    let access = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
    let body = serde_json::json!({ "access_token": access, "token_type": "bearer" }).to_string();
    let server = Server::start([Reply::json("200 OK", body)]).await;
    let account_claim = ["https://api.example/auth", "account_id"].map(str::to_owned).to_vec();
    let client = OAuthClient { account_claim, ..client(&server.url) };
    let login = Login::begin(client, Http::new()).await.unwrap();
    let code = login.pasted(&format!("{CODE}#{}", Browser::at(&login).state())).unwrap();
    let tokens = login.exchange(code).await.unwrap();
    assert_eq!(tokens.account.as_deref(), Some("acc_1"));
    assert_eq!(tokens.expires_at, Some(UNIX_EPOCH + Duration::from_secs(4_000_000_000)));
    assert!(tokens.refresh.is_none());
}

#[tokio::test]
async fn a_client_can_be_registered_for_the_port_it_listens_on() {
    let server = Server::start([granted(ACCESS, REFRESH, 60)]).await;
    let unregistered = client(&server.url);
    let callback = Callback::listen(&unregistered).await.unwrap();
    let registered = callback.redirect_uri();
    // Here the server would give out the id for that address.
    let client = OAuthClient { client_id: "issued-7".into(), ..unregistered };
    let login = Login::begin_with(client.clone(), Some(callback), Http::new()).unwrap();
    let browser = Browser::at(&login);
    assert_eq!((browser.redirect.as_str(), browser.asked["client_id"].as_str()), (&*registered, "issued-7"));
    let (code, _) = tokio::join!(login.callback(LIMIT), browser.finish(CODE));
    login.exchange(code.unwrap()).await.unwrap();
    assert_eq!(form(&server.received()[0])["redirect_uri"], registered);
    let error = Login::begin_with(client, None, Http::new()).err().unwrap();
    assert!(matches!(&error, AuthError::Client { field: "redirect", .. }), "{error}");
}

#[tokio::test]
async fn a_fixed_port_that_is_taken_is_said_so() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let redirect = Redirect::Loopback { host: "localhost".into(), port: Some(port), path: "/cb".into() };
    let client = OAuthClient { redirect, ..client("http://127.0.0.1:1") };
    let error = Login::begin(client, Http::new()).await.unwrap_err();
    assert!(matches!(&error, AuthError::Port { port: said, .. } if *said == port), "{error}");
}

#[tokio::test]
async fn a_client_that_would_leak_is_refused() {
    let good = || client("http://127.0.0.1:1");
    let off = |host: &str| Redirect::Loopback { host: host.into(), port: None, path: "/cb".into() };
    for (bad, field) in [
        (OAuthClient { authorize_url: "http://example.com/a".into(), ..good() }, "authorize_url"),
        (OAuthClient { authorize_url: "https://me:pw@example.com/a".into(), ..good() }, "authorize_url"),
        (OAuthClient { authorize_url: "javascript:alert(1)".into(), ..good() }, "authorize_url"),
        (OAuthClient { token_url: "http://example.com/t".into(), ..good() }, "token_url"),
        (OAuthClient { redirect: off("example.com"), ..good() }, "redirect"),
        (OAuthClient { redirect: off("0.0.0.0"), ..good() }, "redirect"),
    ] {
        let error = Login::begin(bad, Http::new()).await.unwrap_err();
        assert!(matches!(&error, AuthError::Client { field: said, .. } if *said == field), "{error}");
    }
}

#[tokio::test]
async fn nobody_coming_back_is_a_time_out() {
    let login = Login::begin(client("http://127.0.0.1:1"), Http::new()).await.unwrap();
    let error = login.callback(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, AuthError::TimedOut { .. }));
}

#[tokio::test]
async fn an_answer_that_names_another_issuer_to_the_letter_ends_the_sign_in_where_that_counts() {
    let cases = [
        (IssuerRule::Exact, "", true),
        (IssuerRule::Exact, "&iss=https://as.example/x", true),
        (IssuerRule::Exact, "&iss=https://as.example/x/", false),
        (IssuerRule::Required, "&iss=https://as.example/x", true),
        (IssuerRule::Required, "", false),
        (IssuerRule::Required, "&iss=https://AS.example/x", false),
    ];
    for (issuer_rule, named, is_taken) in cases {
        let issuer = Some("https://as.example/x".to_owned());
        let client = OAuthClient { issuer, issuer_rule, ..client("http://127.0.0.1:1") };
        let login = Login::begin(client, Http::new()).await.unwrap();
        let state = Browser::at(&login).state().to_owned();
        let answer = login.pasted(&format!("code={CODE}&state={state}{named}"));
        assert_eq!(answer.is_ok(), is_taken, "{issuer_rule:?} {named}");
        let refused = login.pasted(&format!("error=<b>read this</b>&state={state}{named}")).unwrap_err();
        assert!(matches!(refused, AuthError::Declined { .. }), "{refused}");
        assert_eq!(refused.to_string().contains("read this"), is_taken, "words of a stranger: {refused}");
    }
}

#[tokio::test]
async fn a_client_with_a_secret_shows_it_the_way_its_server_takes_it() {
    const SECRET: &str = "s3cret/of+it";
    for (auth, is_basic) in [
        (ClientAuth::Basic(SECRET.to_owned().into()), true),
        (ClientAuth::Post(SECRET.to_owned().into()), false),
    ] {
        let server = Server::start([granted(ACCESS, REFRESH, 60)]).await;
        let client = OAuthClient { auth, ..client(&server.url) };
        assert!(!format!("{client:?}").contains(SECRET));
        let login = Login::begin(client, Http::new()).await.unwrap();
        let code = login.pasted(&format!("{CODE}#{}", Browser::at(&login).state())).unwrap();
        login.exchange(code).await.unwrap();
        let received = &server.received()[0];
        // `zk-tests:s3cret%2Fof%2Bit`
        let header = "Basic emstdGVzdHM6czNjcmV0JTJGb2YlMkJpdA==";
        assert_eq!(received.header("authorization") == Some(header), is_basic, "{:?}", received.head);
        let sent = form(received);
        assert_eq!(sent.get("client_secret").map(String::as_str), (!is_basic).then_some(SECRET));
        assert_eq!(sent.contains_key("client_id"), !is_basic);
    }
}
