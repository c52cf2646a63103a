//! Responses as lists of acts, and the body that performs them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Frame;

use super::socket::Socket;
use crate::rules::Dialect;

/// Step in sending a response's body.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Send(Bytes),
    Wait(Duration),
    /// Sends these bytes at this interval, for ever.
    Repeat(Bytes, Duration),
    /// Sends bytes that are not HTTP, and closes the connection.
    Raw(&'static [u8]),
    Reset,
    Cut,
    Hang,
}

/// Answer of the server to a request: a response, none at all, or a reset connection.
pub(super) enum Answer {
    Reply(Reply),
    Never,
    Reset,
}

/// Response to a request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) acts: VecDeque<Act>,
}

pub(super) type Body = UnsyncBoxBody<Bytes, Broken>;

/// Error that breaks a response off on purpose.
#[derive(Debug, thiserror::Error)]
#[error("the fake server broke the answer off, as it was told to")]
pub(super) struct Broken;

impl Reply {
    pub(super) fn json(status: u16, body: String) -> Self {
        Self::whole(status, "application/json", body)
    }

    pub(super) fn whole(status: u16, content_type: &str, body: String) -> Self {
        Self {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            acts: VecDeque::from([Act::Send(Bytes::from(body))]),
        }
    }

    pub(super) fn stream(dialect: Dialect, acts: VecDeque<Act>) -> Self {
        let content_type = match dialect {
            Dialect::Ollama => "application/x-ndjson",
            Dialect::Anthropic | Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Gemini => {
                "text/event-stream; charset=utf-8"
            }
        };
        Self {
            status: 200,
            headers: vec![
                ("content-type", content_type.to_owned()),
                ("cache-control", "no-cache".to_owned()),
            ],
            acts,
        }
    }

    pub(super) fn with_header(mut self, header: Option<(&'static str, String)>) -> Self {
        self.headers.extend(header);
        self
    }

    /// Converts the reply to an HTTP response. `left` counts responses that the client abandons.
    pub(super) fn into_response(
        self,
        socket: Socket,
        left: Arc<AtomicUsize>,
    ) -> Result<Response<Body>, hyper::http::Error> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        let watch = Watch { left, over: false };
        let state = (self.acts, socket, watch);
        let frames = stream::unfold(state, |(mut acts, socket, mut watch)| async {
            let frame = perform(&mut acts, &socket).await;
            watch.over = acts.is_empty();
            frame.map(|frame| (frame, (acts, socket, watch)))
        });
        response.body(BodyExt::boxed_unsync(StreamBody::new(frames)))
    }
}

/// Performs acts up to the next bytes.
async fn perform(acts: &mut VecDeque<Act>, socket: &Socket) -> Option<Result<Frame<Bytes>, Broken>> {
    loop {
        match acts.pop_front()? {
            Act::Send(bytes) if bytes.is_empty() => {}
            Act::Send(bytes) => return Some(Ok(Frame::data(bytes))),
            Act::Wait(pause) => {
                // Keeps the response unfinished during the pause, even if this is its last act.
                acts.push_front(Act::Send(Bytes::new()));
                if pause.is_zero() {
                    // The timer's shortest sleep would be longer; a yield already separates the writes.
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(pause).await;
                }
            }
            Act::Repeat(bytes, interval) => {
                acts.push_front(Act::Repeat(bytes.clone(), interval));
                tokio::time::sleep(interval).await;
                return Some(Ok(Frame::data(bytes)));
            }
            Act::Raw(bytes) => {
                let_client_read().await;
                socket.write_raw(bytes);
                let_client_read().await;
                return Some(Err(Broken));
            }
            Act::Reset => {
                let_client_read().await;
                socket.reset_on_close();
                return Some(Err(Broken));
            }
            Act::Cut => {
                let_client_read().await;
                return Some(Err(Broken));
            }
            Act::Hang => {
                acts.push_front(Act::Hang);
                std::future::pending().await
            }
        }
    }
}

/// Waits, so that the client reads the earlier bytes first.
async fn let_client_read() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Guard that counts a response as abandoned if it is dropped before its end.
struct Watch {
    left: Arc<AtomicUsize>,
    over: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.over {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
    }
}
