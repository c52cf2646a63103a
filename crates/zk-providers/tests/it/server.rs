//! A server that answers each connection with the next scripted reply and keeps what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Steps with one connection after its request has been read.
#[derive(Clone, Default)]
pub(crate) struct Reply {
    steps: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Send(Vec<u8>),
    Sleep(Duration),
    /// Yields so that earlier output is sent separately.
    Yield,
    /// Repeats the bytes at an interval until the client disconnects.
    Repeat(Vec<u8>, Duration),
    /// Keeps the connection open without another byte.
    Hang,
    /// Resets the connection.
    Reset,
}

impl Reply {
    pub(crate) fn new(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n");
        Self::default().send(head).send(body)
    }

    pub(crate) fn sse(body: impl AsRef<[u8]>) -> Self {
        Self::new("200 OK", "content-type: text/event-stream\r\nrequest-id: req_test\r\n", body)
    }

    pub(crate) fn json(status: &str, body: impl AsRef<[u8]>) -> Self {
        Self::new(status, "content-type: application/json\r\n", body)
    }

    pub(crate) fn send(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.steps.push(Step::Send(bytes.as_ref().to_vec()));
        self
    }

    pub(crate) fn sleep(mut self, time: Duration) -> Self {
        self.steps.push(Step::Sleep(time));
        self
    }

    pub(crate) fn yielding(mut self) -> Self {
        self.steps.push(Step::Yield);
        self
    }

    pub(crate) fn repeat(mut self, bytes: impl AsRef<[u8]>, each: Duration) -> Self {
        self.steps.push(Step::Repeat(bytes.as_ref().to_vec(), each));
        self
    }

    pub(crate) fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }

    pub(crate) fn reset(mut self) -> Self {
        self.steps.push(Step::Reset);
        self
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers with `replies` in turn; the last one stays.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().collect();
        Self::answering(move |turn, _| replies.get(turn).or(replies.last()).cloned().unwrap_or_default())
            .await
    }

    /// Answers each request, counted from 0 by connection, with the result of `reply`.
    pub(crate) async fn answering(reply: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        let reply = Arc::new(reply);
        let task = tokio::spawn(async move {
            for turn in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (log, reply) = (log.clone(), reply.clone());
                tokio::spawn(async move { answer(stream, |received| reply(turn, received), &log).await });
            }
        });
        Self { url, received, task }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("the log").clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    reply: impl Fn(&Received) -> Reply,
    log: &Mutex<Vec<Received>>,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let request = read_request(&mut stream).await?;
    let reply = reply(&request);
    log.lock().expect("the log").push(request);
    for step in reply.steps {
        match step {
            Step::Send(bytes) => stream.write_all(&bytes).await.ok()?,
            Step::Sleep(time) => tokio::time::sleep(time).await,
            Step::Yield => tokio::task::yield_now().await,
            Step::Repeat(bytes, each) => loop {
                tokio::time::sleep(each).await;
                stream.write_all(&bytes).await.ok()?;
            },
            Step::Hang => {
                // Until the client goes away.
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
            }
            Step::Reset => {
                stream.set_zero_linger().ok()?;
                return None;
            }
        }
    }
    stream.shutdown().await.ok()
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
                .unwrap_or(0);
            while bytes.len() < end + 4 + length {
                let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
                bytes.extend_from_slice(&chunk[..read]);
            }
            return Some(Received { head, body: bytes[end + 4..end + 4 + length].to_vec() });
        }
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    }
}
