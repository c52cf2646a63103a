use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A server that answers each request with the next reply: as little as possible, so that what is measured is
/// the client.
pub(crate) struct Server {
    url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    replies: std::vec::IntoIter<Reply>,
    requests: Vec<Request>,
    answered: Vec<Instant>,
}

/// Request with its arrival time and its beginning: the system prompt and the tools.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) arrived: Instant,
    prefix: Option<String>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    system: &'a RawValue,
    #[serde(borrow)]
    tools: &'a RawValue,
}

impl Request {
    fn new(arrived: Instant, body: &[u8]) -> Self {
        let body: Option<Body<'_>> = serde_json::from_slice(body).ok();
        Self { arrived, prefix: body.map(|body| format!("{}{}", body.system, body.tools)) }
    }

    /// The bytes of the system prompt and of the tools.
    pub(crate) fn prefix(&self) -> Result<&str> {
        self.prefix.as_deref().context("a request without system prompt and tools")
    }
}

/// Rendered response.
pub(crate) struct Reply {
    body: Vec<u8>,
    held: Duration,
}

impl Reply {
    pub(crate) fn text(text: &str) -> Self {
        Self::deltas(1, text)
    }

    pub(crate) fn deltas(count: usize, text: &str) -> Self {
        let mut events = Events::begin();
        events.put(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
        let delta =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        for _ in 0..count {
            events.put(&delta);
        }
        events.put(&json!({"type": "content_block_stop", "index": 0}));
        events.end("end_turn")
    }

    pub(crate) fn call(turn: usize, tool: &str, args: &Value) -> Self {
        Self::calls(turn, &[(tool, args.clone())])
    }

    pub(crate) fn calls(turn: usize, calls: &[(&str, Value)]) -> Self {
        let mut events = Events::begin();
        for (index, (tool, args)) in calls.iter().enumerate() {
            let id = format!("toolu_{turn}_{index}");
            let block = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
            events.put(&json!({"type": "content_block_start", "index": index, "content_block": block}));
            let delta = json!({"type": "input_json_delta", "partial_json": args.to_string()});
            events.put(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
            events.put(&json!({"type": "content_block_stop", "index": index}));
        }
        events.end("tool_use")
    }

    /// Delays the reply by `wait`.
    pub(crate) fn held(mut self, wait: Duration) -> Self {
        self.held = wait;
        self
    }
}

struct Events(Vec<u8>);

impl Events {
    fn begin() -> Self {
        let mut events = Self(Vec::new());
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
            "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1},
        });
        events.put(&json!({"type": "message_start", "message": message}));
        events
    }

    fn put(&mut self, event: &Value) {
        let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
        self.0.extend_from_slice(format!("event: {name}\ndata: {event}\n\n").as_bytes());
    }

    fn end(mut self, stop: &str) -> Reply {
        let delta = json!({"stop_reason": stop, "stop_sequence": null});
        self.put(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}));
        self.put(&json!({"type": "message_stop"}));
        Reply { body: self.0, held: Duration::ZERO }
    }
}

impl Server {
    pub(crate) fn start(replies: Vec<Reply>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = State { replies: replies.into_iter(), requests: Vec::new(), answered: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Ok(Self { url, state })
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.state).requests.clone()
    }

    /// Returns the times from the end of each response to the next request.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        let state = lock(&self.state);
        state
            .answered
            .iter()
            .zip(state.requests.iter().skip(1))
            .map(|(end, next)| next.arrived - *end)
            .collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    // One buffer for all bodies: making room for each would be measured with the client.
    let mut body = Vec::new();
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        if body.len() < length {
            body.resize(length.next_power_of_two(), 0);
        }
        reader.read_exact(body.get_mut(..length)?).ok()?;
        let request = Request::new(Instant::now(), body.get(..length)?);
        let reply = {
            let mut state = lock(state);
            state.requests.push(request);
            state.replies.next()?
        };
        std::thread::sleep(reply.held);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            reply.body.len()
        );
        let rendered = [head.as_bytes(), &reply.body].concat();
        writer.write_all(&rendered).ok()?;
        lock(state).answered.push(Instant::now());
    }
}
