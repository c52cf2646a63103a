//! Lines to the host, and requests to it that wait for an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use zk_core::service::Redactor;

use super::wire::fresh_uuid;
use crate::LineWriter;

/// Reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    /// The host answered with an error.
    #[error("the SDK host replied with an error: {0}")]
    Refused(String),
    /// The host closed its side, so that no answer can come.
    #[error("the SDK host closed its input before it answered")]
    Closed,
    /// The request was cancelled.
    #[error("the request was taken back")]
    TakenBack,
}

struct Waiting {
    subtype: String,
    answer: oneshot::Sender<Result<Value, Unanswered>>,
}

/// Connection to the host, with the requests that await its answers.
pub(super) struct Channel {
    writer: LineWriter,
    redactor: Arc<Redactor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<String, Waiting>,
    is_closed: bool,
}

impl Channel {
    pub(super) fn new(writer: LineWriter, redactor: Arc<Redactor>) -> Self {
        Self { writer, redactor, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line with secrets redacted.
    pub(super) fn send(&self, mut line: Value) {
        self.redactor.redact_value(&mut line);
        // The end of the input shows that the host is gone.
        let _ = self.writer.send(&line.to_string());
    }

    /// Answers a request of the host.
    pub(super) fn answer(&self, id: &str, answer: Result<Value, String>) {
        self.send(json!({"type": "control_response", "response": match answer {
            Ok(response) => json!({"subtype": "success", "request_id": id, "response": response}),
            Err(error) => json!({"subtype": "error", "request_id": id, "error": error}),
        }}));
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request.
    pub(super) async fn ask(&self, request: Value) -> Result<Value, Unanswered> {
        let subtype = request.get("subtype").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (answer, answered) = oneshot::channel();
        let id = fresh_uuid();
        {
            let mut state = self.state();
            if state.is_closed {
                return Err(Unanswered::Closed);
            }
            state.waiting.insert(id.clone(), Waiting { subtype, answer });
        }
        let _taking_back = TakingBack { channel: self, id: &id };
        self.send(json!({"type": "control_request", "request_id": id, "request": request}));
        answered.await.unwrap_or(Err(Unanswered::TakenBack))
    }

    /// Passes the host's answer to the request that awaits it. Other answers are ignored.
    pub(super) fn accept_answer(&self, response: &Value) {
        let id = response.get("request_id").and_then(Value::as_str).unwrap_or_default();
        let Some(waiting) = self.state().waiting.remove(id) else { return };
        let answer = match response.get("subtype").and_then(Value::as_str) {
            Some("success") => Ok(response.get("response").cloned().unwrap_or_else(|| json!({}))),
            _ => {
                let why = response.get("error").and_then(Value::as_str).unwrap_or("no reason given");
                Err(Unanswered::Refused(why.to_owned()))
            }
        };
        // The caller may be gone.
        let _ = waiting.answer.send(answer);
    }

    /// Cancels all requests of a kind.
    pub(super) fn cancel_requests(&self, subtype: &str) {
        let mut state = self.state();
        let of_kind: Vec<String> = state
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.subtype == subtype)
            .map(|(id, _)| id.clone())
            .collect();
        let taken: Vec<_> =
            of_kind.into_iter().filter_map(|id| Some((state.waiting.remove(&id)?, id))).collect();
        drop(state);
        for (waiting, id) in taken {
            self.send(json!({"type": "control_cancel_request", "request_id": id}));
            let _ = waiting.answer.send(Err(Unanswered::TakenBack));
        }
    }

    /// Fails all requests that await an answer, and all later ones.
    pub(super) fn close_answers(&self) {
        let waiting = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(Unanswered::Closed));
        }
    }

    /// Writes all queued lines, then closes the output.
    pub(super) async fn finish(&self) {
        self.writer.close().await;
    }
}

/// Cancels a request when its caller stops waiting.
struct TakingBack<'a> {
    channel: &'a Channel,
    id: &'a str,
}

impl Drop for TakingBack<'_> {
    fn drop(&mut self) {
        if self.channel.state().waiting.remove(self.id).is_some() {
            self.channel.send(json!({"type": "control_cancel_request", "request_id": self.id}));
        }
    }
}
