//! A token endpoint that fails, lies or stalls.

use std::time::Duration;

use zk_auth::Http;
use zk_auth::{AuthError, Login, OAuthTokens};
use zk_core::model::ErrorKind;

use crate::browser::Browser;
use crate::server::{Reply, Server};
use crate::{ACCESS, CODE, REFRESH, assert_no_secret, client, granted};

async fn exchange(reply: Reply) -> Result<OAuthTokens, AuthError> {
    let server = Server::start([reply]).await;
    let login = Login::begin(client(&server.url), Http::new()).await?;
    let login = login.token_limit(Duration::from_millis(300));
    let code = login.pasted(&format!("{CODE}#{}", Browser::at(&login).state()))?;
    login.exchange(code).await
}

/// The error of a reply. None shows a secret.
async fn error(reply: Reply) -> AuthError {
    let error = exchange(reply).await.unwrap_err();
    assert_no_secret(&format!("{error} {error:?}"));
    error
}

#[tokio::test]
async fn a_refusal_says_why_without_what_it_quotes() {
    let body = format!(r#"{{"error":"invalid_grant","error_description":"bad \u001b[2J code {CODE}"}}"#);
    let error = error(Reply::json("400 Bad Request", body)).await;
    assert!(matches!(error, AuthError::Refused { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Auth);
    let shown = error.to_string();
    assert!(shown.contains("HTTP 400, invalid_grant") && shown.contains("[redacted]"), "{shown}");
    assert!(!shown.contains('\x1b'));
}

#[tokio::test]
async fn a_long_refusal_is_cut_without_leaving_half_a_secret() {
    for pad in 150..200 {
        let body = format!(r#"{{"error":"invalid_grant","error_description":"{}{CODE}"}}"#, "x".repeat(pad));
        let shown = error(Reply::json("400 Bad Request", body)).await.to_string();
        assert!(!shown.contains(&CODE[..8]), "{shown}");
    }
}

#[tokio::test]
async fn failing_and_busy_servers_may_be_asked_again() {
    for reply in [
        Reply::new("500 Internal Server Error", "content-type: text/html\r\n", "<h1>oops</h1>"),
        Reply::json("503 Service Unavailable", "{}"),
        Reply::json("429 Too Many Requests", "{}"),
        Reply::json("400 Bad Request", r#"{"error":"temporarily_unavailable"}"#),
        Reply::default().hang(),
        Reply::default().reset(),
        Reply::default(),
        Reply::default().send("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{\"access").hang(),
    ] {
        let error = error(reply).await;
        assert!(matches!(error, AuthError::Unavailable { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Transport);
    }
}

#[tokio::test]
async fn an_answer_that_is_no_token_is_named_but_not_quoted() {
    let json = |body: &str| Reply::json("200 OK", body);
    for (reply, part) in [
        (Reply::new("200 OK", "content-type: text/html\r\n", format!("<p>{ACCESS}")), "text/html"),
        (Reply::new("200 OK", "", ""), "without a type"),
        (json(&format!("[\"{ACCESS}\"]")), "no JSON object"),
        (json("{}"), "access_token"),
        (json(&format!(r#"{{"refresh_token":"{REFRESH}"}}"#)), "access_token"),
        (json(r#"{"access_token":""}"#), "access_token"),
        (json(r#"{"access_token":7}"#), "access_token"),
        (json(&format!(r#"{{"access_token":"{ACCESS}","token_type":"mac"}}"#)), "token_type"),
        (
            json(&format!(r#"{{"access_token":"{ACCESS}","pad":"{}"}}"#, "x".repeat(1 << 20))),
            "no JSON object",
        ),
    ] {
        let error = error(reply).await;
        assert!(matches!(error, AuthError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn a_redirect_takes_no_code_along() {
    let elsewhere = Server::start([granted(ACCESS, REFRESH, 60)]).await;
    let location = format!("location: {}/token\r\n", elsewhere.url);
    for status in ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let error = error(Reply::new(status, &location, "")).await;
        assert!(matches!(error, AuthError::Unavailable { .. }), "{error}");
    }
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn odd_lifetimes_are_taken_as_they_are() {
    for (expires_in, known) in
        [("\"3600\"", true), ("3600.5", true), ("0", true), ("null", false), ("-5", false), ("1e300", false)]
    {
        let body = format!(r#"{{"access_token":"{ACCESS}","expires_in":{expires_in}}}"#);
        let tokens = exchange(Reply::json("200 OK", body)).await.unwrap();
        assert_eq!(tokens.expires_at.is_some(), known, "{expires_in}");
    }
}
