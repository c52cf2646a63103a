//! Loopback callback of a sign-in: an HTTP server for one answer, on this machine only.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::token::sanitise;
use super::{AuthError, pkce};
use crate::Secret;
use crate::client::{IssuerRule, OAuthClient, Redirect};

/// Time limit of one connection from the browser, which takes milliseconds on one machine.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);
/// Longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of concurrent connections; further ones wait.
const MAX_CONNECTIONS: usize = 32;

/// Values that an answer must contain to belong to this sign-in.
pub(crate) struct Expected<'a> {
    pub(crate) state: &'a str,
    /// Issuer that the answer may name.
    pub(crate) issuer: Option<&'a str>,
    pub(crate) rule: IssuerRule,
}

/// Authorisation code of a sign-in, or the server's refusal.
pub(crate) enum Answer {
    Code(Secret),
    Declined(String),
}

/// Listener on 127.0.0.1 for the answer to one sign-in.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    host: String,
    port: u16,
    path: String,
}

impl Callback {
    /// Listens at the redirect address of `client`, at its port or at any free one.
    ///
    /// # Errors
    /// [`AuthError::Client`] when the redirect is not to this machine, [`AuthError::Port`] when the port is
    /// in use.
    pub async fn listen(client: &OAuthClient) -> Result<Self, AuthError> {
        let wrong = |reason: &str| client.invalid_field("redirect", reason.to_owned());
        let Redirect::Loopback { host, port, path } = &client.redirect else {
            return Err(wrong("goes to a page: its answer can only be pasted"));
        };
        if !matches!(host.as_str(), "127.0.0.1" | "localhost") {
            return Err(wrong("must be on 127.0.0.1 or localhost"));
        }
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(wrong("must have a path that begins with /"));
        }
        let port = port.unwrap_or(0);
        let failed = |source| AuthError::Port { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, host: host.clone(), port, path: path.clone() })
    }

    /// Redirect address for the browser, as it has to be registered at the authorisation server.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("http://{}:{}{}", self.host, self.port, self.path)
    }

    /// Serves requests until one of them is the answer. Slow connections do not delay others. Boxed, so that
    /// the future is compiled here and not in each caller's crate.
    pub(crate) fn wait<'a>(&'a self, expected: &'a Expected<'_>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut connections = FuturesUnordered::new();
            loop {
                tokio::select! {
                    Some(served) = connections.next(), if !connections.is_empty() => {
                        if let Some(answer) = served {
                            return answer;
                        }
                    }
                    accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                        Ok((stream, _)) => connections.push(self.serve_connection(stream, expected)),
                        // Probably out of file descriptors; tried again after a pause.
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    },
                }
            }
        })
    }

    async fn serve_connection(&self, mut stream: TcpStream, expected: &Expected<'_>) -> Option<Answer> {
        let judged = timeout(CONNECTION_LIMIT, async {
            let head = read_head(&mut stream).await?;
            Some(self.read_answer(&head, expected))
        });
        let judged = judged.await.ok()??;
        let (status, text) = match &judged {
            Ok(Answer::Code(_)) => ("200 OK", "You are signed in. Close this page and go back to zk."),
            Ok(Answer::Declined(_)) => ("200 OK", "The sign-in was declined. Close this page."),
            Err(_) => ("400 Bad Request", "This is not the answer zk waits for."),
        };
        let page = format!("<!doctype html><meta charset=utf-8><title>zk</title><p>{text}\n");
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
            page.len(),
        );
        // The answer counts even if the browser does not wait for the page.
        let _ = timeout(CONNECTION_LIMIT, async {
            stream.write_all(response.as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
        judged.ok()
    }

    /// Extracts the answer from a request, or the reason why it is no answer.
    fn read_answer(&self, head: &str, expected: &Expected<'_>) -> Result<Answer, &'static str> {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some("GET"), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("is no GET request");
        };
        if !version.starts_with("HTTP/1.") {
            return Err("is no HTTP request");
        }
        // Refuses requests with a foreign host name, as from a page that uses DNS rebinding.
        let hosts: Vec<&str> = lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
            .map(|(_, value)| value.trim())
            .collect();
        let ours = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", self.port));
        if !matches!(hosts.as_slice(), [host] if ours.iter().any(|our| our == host)) {
            return Err("is for another host");
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path != self.path {
            return Err("is for another path");
        }
        answer_of(query, expected)
    }
}

/// Reads the head of a request; `None` if it is too long or the connection ends.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        if bytes.len() > MAX_HEAD_BYTES {
            return None;
        }
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(chunk.get(..read)?);
    }
    String::from_utf8(bytes).ok()
}

/// Parses the parameters of an answer. Without this sign-in's state it is ignored, even a refusal.
pub(crate) fn answer_of(query: &str, expected: &Expected<'_>) -> Result<Answer, &'static str> {
    let url = Url::parse(&format!("http://answer/?{query}")).map_err(|_| "holds no parameters")?;
    let one = |name: &str| -> Result<Option<String>, &'static str> {
        let mut values = url.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value);
        let value = values.next().filter(|value| !value.is_empty()).map(std::borrow::Cow::into_owned);
        if values.next().is_some() { Err("says the same thing twice") } else { Ok(value) }
    };
    let state = one("state")?.ok_or("holds no state")?;
    if !pkce::equals_constant_time(&state, expected.state) {
        return Err("belongs to another sign-in");
    }
    if let Some(issuer) = expected.issuer {
        let named = one("iss")?;
        let is_it = match (&named, expected.rule) {
            (None, IssuerRule::Lenient | IssuerRule::Exact) => true,
            (None, IssuerRule::Required) => false,
            (Some(named), IssuerRule::Lenient) => issuer.trim_end_matches('/') == named.trim_end_matches('/'),
            (Some(named), IssuerRule::Exact | IssuerRule::Required) => issuer == named,
        };
        match expected.rule {
            _ if is_it => {}
            IssuerRule::Lenient => return Err("comes from another server"),
            // The answer contains this sign-in's state, so only the chosen server can have sent it. The
            // server's error text is not shown.
            IssuerRule::Exact | IssuerRule::Required => {
                let why = "the answer does not come from the server that was asked";
                return Ok(Answer::Declined(why.to_owned()));
            }
        }
    }
    if let Some(error) = one("error")? {
        let words = one("error_description")?.map_or(String::new(), |words| format!(": {words}"));
        return Ok(Answer::Declined(sanitise(&format!("{error}{words}"))));
    }
    let code = one("code")?.ok_or("holds no code")?;
    Ok(Answer::Code(code.into()))
}
