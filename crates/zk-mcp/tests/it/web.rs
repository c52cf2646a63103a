//! A web server that answers as a test says, one request on each connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path with its query.
    pub(crate) path: String,
    /// Headers, with their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Asked {
    /// The fields of a form, or of the query.
    pub(crate) fn fields(&self) -> BTreeMap<String, String> {
        let query = self.path.split_once('?').map(|(_, query)| query);
        let text = query.unwrap_or(&self.body);
        reqwest::Url::parse(&format!("http://x/?{text}")).unwrap().query_pairs().into_owned().collect()
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    /// Time before the answer is sent.
    pub(crate) delay: Duration,
}

impl Said {
    /// An answer without a body; with 0 the connection is closed without any.
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), delay: Duration::ZERO }
    }

    /// No answer, as long as the client waits for one.
    pub(crate) fn never() -> Self {
        Self::status(1)
    }

    pub(crate) fn json(body: &serde_json::Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { headers, body: body.to_string(), ..Self::status(200) }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// The server. It ends with the runtime.
pub(crate) struct Web {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Web {
    /// Starts a server that answers with `answer`, which gets the server's address.
    pub(crate) async fn start(answer: impl Fn(&Asked, &str) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, base, answer) = (asked.clone(), url.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, base, answer) = (seen.clone(), base.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut stream = stream;
                    let Some(request) = read(&mut stream).await else { return };
                    seen.lock().unwrap().push(request.clone());
                    let said = answer(&request, &base);
                    tokio::time::sleep(said.delay).await;
                    if said.status == 0 {
                        return;
                    }
                    if said.status == 1 {
                        let _ = stream.read(&mut [0; 64]).await;
                        return;
                    }
                    let mut head = format!(
                        "HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n",
                        said.status,
                        said.body.len()
                    );
                    for (name, value) in &said.headers {
                        head.push_str(&format!("{name}: {value}\r\n"));
                    }
                    let _ = stream.write_all(format!("{head}\r\n{}", said.body).as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|one| one.path.split('?').next() == Some(path)).cloned().collect()
    }
}

/// Next request; `None` at the end.
pub(crate) async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < head + 4 + length {
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
    }
    let body = String::from_utf8(bytes[head + 4..].to_vec()).ok()?;
    Some(Asked { method, path, headers, body })
}
