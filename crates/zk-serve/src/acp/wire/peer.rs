use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::error::RpcError;
use crate::LineWriter;

/// Requests that wait for their answers, by their ids.
type Waiting = HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>;

/// Connection to the editor, with the requests that await its answers.
#[derive(Debug)]
pub(in crate::acp) struct Peer {
    out: LineWriter,
    last_id: AtomicU64,
    /// Requests that await an answer; `None` once the editor is gone.
    waiting: Mutex<Option<Waiting>>,
}

impl Peer {
    pub(in crate::acp) fn new(out: LineWriter) -> Self {
        Self { out, last_id: AtomicU64::new(0), waiting: Mutex::new(Some(HashMap::new())) }
    }

    pub(in crate::acp) fn respond(&self, id: &Value, result: Result<Value, RpcError>) {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(RpcError { code, message }) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
            }
        };
        self.send(&message);
    }

    pub(in crate::acp) fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a change of a session.
    pub(in crate::acp) fn update(&self, session: &str, update: &Value) {
        self.notify("session/update", &json!({ "sessionId": session, "update": update }));
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request.
    pub(in crate::acp) async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        let gone = || RpcError::internal("the editor is gone");
        self.waiting().as_mut().ok_or_else(gone)?.insert(id, sender);
        let _unwanted = Unwanted { peer: self, id };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Passes the answer of the editor to the request that awaits it. Other answers are ignored.
    pub(in crate::acp) fn accept_answer(&self, message: &Value) {
        let waiting = message.get("id").and_then(Value::as_u64);
        let waiting = waiting.and_then(|id| self.waiting().as_mut().and_then(|all| all.remove(&id)));
        let Some(waiting) = waiting else { return };
        let answer = match (message.get("result"), message.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (_, Some(error)) => {
                let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
                let code = error.get("code").and_then(Value::as_i64).unwrap_or(RpcError::INTERNAL);
                Err(RpcError::new(code, said))
            }
            (None, None) => Err(RpcError::internal("the editor's answer has neither a result nor an error")),
        };
        // The caller may be gone.
        let _ = waiting.send(answer);
    }

    /// Fails all requests that await an answer, and all later ones.
    pub(in crate::acp) fn close(&self) {
        self.waiting().take();
    }

    fn send(&self, message: &Value) {
        self.out.send(&message.to_string());
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancels a request at the editor when dropped before the answer came.
struct Unwanted<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Unwanted<'_> {
    fn drop(&mut self) {
        let waits = self.peer.waiting().as_mut().and_then(|all| all.remove(&self.id)).is_some();
        if waits {
            self.peer.notify("$/cancel_request", &json!({ "requestId": self.id }));
        }
    }
}
