//! The person's browser: it comes back from the authorisation server, or something else does in its place.

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_auth::Login;

use crate::pairs;

/// Fake browser: parameters of the authorize URL, and its redirect address.
pub(crate) struct Browser {
    pub(crate) asked: std::collections::BTreeMap<String, String>,
    pub(crate) redirect: Url,
}

impl Browser {
    pub(crate) fn at(login: &Login) -> Self {
        let url = Url::parse(login.url()).expect("a URL");
        let asked = pairs(url.query().unwrap_or_default());
        let redirect = Url::parse(&asked["redirect_uri"]).expect("a URL");
        Self { asked, redirect }
    }

    pub(crate) fn state(&self) -> &str {
        &self.asked["state"]
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        let port = self.redirect.port().expect("a port");
        TcpStream::connect(("127.0.0.1", port)).await.expect("somebody listens")
    }

    /// Sends bytes and reads the whole answer; empty if there is none.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        // A server that has seen enough stops reading.
        let _ = stream.write_all(bytes.as_ref()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Comes back to `target`.
    pub(crate) async fn get(&self, target: &str) -> String {
        let host = format!("127.0.0.1:{}", self.redirect.port().expect("a port"));
        self.raw(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
    }

    /// Comes back as it should.
    pub(crate) async fn finish(&self, code: &str) -> String {
        self.get(&format!("{}?code={code}&state={}", self.redirect.path(), self.state())).await
    }
}
