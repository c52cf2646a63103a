//! Keys, the store, signing in and staying signed in.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod browser;
mod file_store;
mod hostile;
mod keys;
mod login;
mod processes;
mod refresh;
#[expect(dead_code, reason = "the tests of providers need more of it")]
#[path = "../../../zk-providers/tests/it/server.rs"]
mod server;
mod token_endpoint;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use reqwest::Url;
use zk_auth::{OAuthClient, OAuthTokens};

use crate::server::{Received, Reply};

/// Texts that no error, event or `Debug` may show.
const ACCESS: &str = "canary-access-0f3a";
const REFRESH: &str = "canary-refresh-91bc";
const CODE: &str = "canary-code-77de";

/// A client of the authorisation server at `url`, called `test`.
fn client(url: &str) -> OAuthClient {
    OAuthClient::new("test", "zk-tests", format!("{url}/authorize"), format!("{url}/token"))
}

/// Tokens of the server at `issuer` that end in `seconds`.
fn tokens(issuer: &str, seconds: u64) -> OAuthTokens {
    OAuthTokens {
        access: ACCESS.into(),
        refresh: Some(REFRESH.into()),
        expires_at: Some(SystemTime::now() + Duration::from_secs(seconds)),
        account: None,
        issuer: issuer.to_owned(),
    }
}

/// The answer of a token endpoint.
fn granted(access: &str, refresh: &str, expires_in: u64) -> Reply {
    let body = serde_json::json!({
        "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": expires_in,
    });
    Reply::json("200 OK", body.to_string())
}

/// The fields of a form or of a query.
fn pairs(text: &str) -> BTreeMap<String, String> {
    Url::parse(&format!("http://x/?{text}")).expect("a query").query_pairs().into_owned().collect()
}

fn form(received: &Received) -> BTreeMap<String, String> {
    pairs(std::str::from_utf8(&received.body).expect("a form"))
}

/// Fails if `shown` contains a secret of these tests.
fn assert_no_secret(shown: &str) {
    for secret in [ACCESS, REFRESH, CODE] {
        assert!(!shown.contains(secret), "{secret} is shown: {shown}");
    }
}
