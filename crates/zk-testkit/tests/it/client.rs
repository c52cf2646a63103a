//! The plainest HTTP client there is, so that nothing of an answer is hidden.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use zk_testkit::FakeServer;

/// Part of a response that arrived.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// Body without the chunk framing, up to the first framing error.
    pub(crate) body: Vec<u8>,
    /// Number of chunks that the body was sent in.
    pub(crate) chunks: usize,
    /// End of the response.
    pub(crate) end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The last chunk came.
    Complete,
    /// The connection closed before the last chunk.
    Cut,
    /// The connection was reset.
    Reset,
    /// Nothing more came in time.
    Silence,
    /// Bytes came that are not a chunk.
    BadFraming,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    /// Data of all events that are JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }
}

pub(crate) fn anthropic(server: &FakeServer, body: &Value) -> Answer {
    send(server, "POST", "/v1/messages", ANTHROPIC, body.to_string().as_bytes())
}

pub(crate) fn chat(server: &FakeServer, body: &Value) -> Answer {
    post(server, "/v1/chat/completions", body)
}

pub(crate) fn post(server: &FakeServer, path: &str, body: &Value) -> Answer {
    send(server, "POST", path, "authorization: Bearer secret\r\n", body.to_string().as_bytes())
}

/// Sends a request and reads until the connection ends, with a long time limit for silence.
pub(crate) fn send(server: &FakeServer, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    send_for(PATIENT, server, method, path, headers, body)
}

/// Sends a request as [`chat`] does, to a server that leaves the connection open.
pub(crate) fn chat_until_silent(server: &FakeServer, body: &Value) -> Answer {
    let headers = "authorization: Bearer secret\r\n";
    send_for(MOMENT, server, "POST", "/v1/chat/completions", headers, body.to_string().as_bytes())
}

/// Sends a request as [`anthropic`] does, to a server that leaves the connection open.
pub(crate) fn anthropic_until_silent(server: &FakeServer, body: &Value) -> Answer {
    send_for(MOMENT, server, "POST", "/v1/messages", ANTHROPIC, body.to_string().as_bytes())
}

/// Longest time between two reads.
const PATIENT: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_secs(1);

const ANTHROPIC: &str = "anthropic-version: 2023-06-01\r\nx-api-key: secret\r\n";

fn send_for(
    patience: Duration,
    server: &FakeServer,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n",
        server.address(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut raw = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break End::Cut,
            Ok(count) => raw.extend_from_slice(buffer.get(..count).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break End::Reset,
            Err(_) => break End::Silence,
        }
    };
    let split = raw.windows(4).position(|window| window == b"\r\n\r\n").map_or(raw.len(), |at| at + 4);
    let (head, framed) = raw.split_at(split);
    let head = String::from_utf8_lossy(head).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let (chunks, framing) = unframe(framed);
    let (body, chunks) = (chunks.concat(), chunks.len());
    Answer { status, head, body, chunks, end: framing.unwrap_or(end) }
}

/// Splits a chunked body; returns its chunks, and its end if it has one.
fn unframe(mut framed: &[u8]) -> (Vec<&[u8]>, Option<End>) {
    let mut body = Vec::new();
    loop {
        let Some(line) = framed.windows(2).position(|window| window == b"\r\n") else { return (body, None) };
        let (size, rest) = framed.split_at(line);
        let Some(size) = std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size, 16).ok())
        else {
            return (body, Some(End::BadFraming));
        };
        if size == 0 {
            return (body, Some(End::Complete));
        }
        let Some(chunk) = rest.get(2..2 + size) else {
            body.push(rest.get(2..).unwrap_or_default());
            return (body, None);
        };
        body.push(chunk);
        framed = rest.get(2 + size + 2..).unwrap_or_default();
    }
}
