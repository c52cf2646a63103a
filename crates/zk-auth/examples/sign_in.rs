//! A sign-in from end to end, with a server and a browser on this machine: `cargo run -p zk-harness-auth --example sign_in`.

use std::sync::Arc;

use zk_auth::{
    Credential, CredentialStore, Http, Login, MemoryStore, OAuthClient, OAuthSession, TokenSource,
};
use zk_core::kernel::Bus;
use zk_testkit::{FakeServer, RawReply};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tokens =
        r#"{"access_token": "t-1", "refresh_token": "r-1", "token_type": "Bearer", "expires_in": 3600}"#;
    let server = FakeServer::raw_replies([RawReply::new(tokens).content_type("application/json")])?;
    let url = server.url();
    let client = OAuthClient::new("example", "zk", format!("{url}/authorize"), format!("{url}/token"));
    let store = Arc::new(MemoryStore::default());

    let login = Login::begin(client.clone(), Http::new()).await?;
    println!("Open {}", login.url());
    // In a real program the browser redirects: `login.callback(limit)` waits for it. Here the answer is
    // pasted.
    let state =
        login.url().split("state=").nth(1).and_then(|rest| rest.split('&').next()).unwrap_or_default();
    let code = login.pasted(&format!("code-from-the-page#{state}"))?;
    store.put(&client.name, &Credential::OAuth(login.exchange(code).await?)).await?;

    let session = OAuthSession::new(client, store, Http::new());
    println!("Requests show {:?}", session.token(&Bus::new().cx()).await?);
    Ok(())
}
