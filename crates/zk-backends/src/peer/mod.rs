//! JSON-RPC with a subprocess: one message per line on its standard input and output, requests in both
//! directions.

mod pump;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zk_core::service::Process;

use pump::Pump;

/// Maximum size of a message in bytes, to bound the memory.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Maximum number of lines in the queue to the program.
const MAX_WAITING_LINES: usize = 256;

/// Maximum size of the kept tail of the program's standard error, in bytes.
const MAX_SAID_BYTES: usize = 8 << 10;

/// Error code for a request that needs a sign-in first.
pub(crate) const AUTH_REQUIRED: i64 = -32000;

/// JSON-RPC error code for an unknown method.
pub(crate) const NO_METHOD: i64 = -32601;

/// JSON-RPC error code for invalid parameters.
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// JSON-RPC error code for a request that failed in zk.
pub(crate) const INTERNAL: i64 = -32603;

/// Receiver of a program's requests and notifications. Its methods must not block.
pub(crate) trait Incoming: Send + Sync {
    /// Receives a notification; an error ends the connection with its text.
    fn notification(&self, method: &str, params: Value) -> Result<(), String>;

    /// Receives a request, which `reply` answers.
    fn request(&self, method: &str, params: Value, reply: Reply);

    /// Called when the connection ends, with the reason.
    fn ended(&self, why: &str);
}

/// Reason why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The program has ended.
    #[error("{0}")]
    Gone(String),
    /// The program answered with an error.
    #[error("{message} (error {code})")]
    Refused { code: i64, message: String },
    /// The answer exceeded the time limit.
    #[error("it did not answer `{method}` within {seconds} s")]
    Late { method: String, seconds: u64 },
}

/// Answer to a request of the program. Dropping it answers with an error.
pub(crate) struct Reply {
    id: Value,
    peer: Arc<Peer>,
    is_sent: bool,
}

impl Reply {
    /// Answers with a result.
    pub(crate) fn result(mut self, result: &Value) {
        self.is_sent = true;
        self.peer.write(&json!({ "jsonrpc": "2.0", "id": self.id, "result": result }));
    }

    /// Answers with an error.
    pub(crate) fn error(mut self, code: i64, message: &str) {
        self.send_error(code, message);
    }

    fn send_error(&mut self, code: i64, message: &str) {
        self.is_sent = true;
        let error = json!({ "code": code, "message": message });
        self.peer.write(&json!({ "jsonrpc": "2.0", "id": self.id, "error": error }));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            self.send_error(INTERNAL, "the request was given up");
        }
    }
}

/// Connection to a program. Dropping the last handle ends the program.
pub(crate) struct Peer {
    outbox: mpsc::Sender<Vec<u8>>,
    state: Mutex<State>,
    next_id: AtomicU64,
    /// Token that ends the program when it is cancelled.
    ending: CancellationToken,
    /// Token that is cancelled once the program and its children have ended.
    gone: CancellationToken,
}

#[derive(Default)]
struct State {
    pending: HashMap<u64, oneshot::Sender<Result<Value, CallError>>>,
    fault: Option<String>,
    said: Vec<u8>,
}

impl Peer {
    /// Connects to a started program. `incoming` creates the receiver of its messages, given the new
    /// connection.
    pub(crate) fn connect<I: Incoming + 'static>(
        process: Box<dyn Process>,
        incoming: impl FnOnce(&Arc<Self>) -> Arc<I>,
    ) -> (Arc<Self>, Arc<I>) {
        let (outbox, inbox) = mpsc::channel(MAX_WAITING_LINES);
        let peer = Arc::new(Self {
            outbox,
            state: Mutex::default(),
            next_id: AtomicU64::new(1),
            ending: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        let incoming = incoming(&peer);
        let pump = Pump::new(process, Arc::downgrade(&peer), incoming.clone(), peer.ending.clone());
        tokio::spawn(pump.run(inbox, peer.gone.clone()));
        (peer, incoming)
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.lock_state();
            if let Some(fault) = &state.fault {
                return Err(CallError::Gone(fault.clone()));
            }
            state.pending.insert(id, sender);
        }
        let line = encode_line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        if self.outbox.send(line).await.is_err() {
            return Err(CallError::Gone(self.end_reason()));
        }
        answer.await.unwrap_or_else(|_| Err(CallError::Gone(self.end_reason())))
    }

    /// Sends a request whose answer has to come within `limit`.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) async fn request_within(
        &self,
        limit: Duration,
        method: &str,
        params: Value,
    ) -> Result<Value, CallError> {
        let late = || CallError::Late { method: method.to_owned(), seconds: limit.as_secs() };
        tokio::time::timeout(limit, self.request(method, params)).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Queues a message without waiting. A program is ended if it leaves too many messages unread.
    fn write(&self, message: &Value) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.outbox.try_send(encode_line(message)) {
            self.fail_connection("it does not read what is sent to it".to_owned());
        }
    }

    /// Whether the program is still connected.
    pub(crate) fn is_alive(&self) -> bool {
        self.lock_state().fault.is_none()
    }

    /// Reason for the end of the connection.
    pub(crate) fn end_reason(&self) -> String {
        self.lock_state().fault.clone().unwrap_or_else(|| "it has ended".to_owned())
    }

    /// Ends the connection with this reason, and then the program.
    pub(crate) fn fail_connection(&self, why: String) {
        self.fail_pending(why);
        self.ending.cancel();
    }

    /// Ends the program and all that it started, and waits for that.
    pub(crate) async fn close(&self) {
        self.fail_connection("it was ended".to_owned());
        self.gone.cancelled().await;
    }

    /// Returns the tail of standard error in one line, without control characters, of at most `limit`
    /// characters.
    pub(crate) fn stderr_tail(&self, limit: usize) -> String {
        let state = self.lock_state();
        let text = String::from_utf8_lossy(&state.said);
        let words: Vec<&str> = text.split_whitespace().collect();
        let line: Vec<char> = words.join(" ").chars().filter(|c| !c.is_control()).collect();
        line.iter().skip(line.len().saturating_sub(limit)).collect()
    }

    /// Sets the reason for the end of the connection, unless one is set, and fails all pending requests with
    /// it.
    fn fail_pending(&self, why: String) -> String {
        let (why, pending) = {
            let mut state = self.lock_state();
            let why = state.fault.get_or_insert(why).clone();
            (why, std::mem::take(&mut state.pending))
        };
        for waiting in pending.into_values() {
            // The caller may have stopped waiting.
            let _ = waiting.send(Err(CallError::Gone(why.clone())));
        }
        why
    }

    fn deliver_answer(&self, id: &Value, answer: Result<Value, CallError>) {
        let waiting = id.as_u64().and_then(|id| self.lock_state().pending.remove(&id));
        if let Some(waiting) = waiting {
            // The caller may have stopped waiting.
            let _ = waiting.send(answer);
        }
    }

    fn keep_stderr(&self, bytes: &[u8]) {
        let said = &mut self.lock_state().said;
        said.extend_from_slice(bytes);
        let above = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..above);
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.ending.cancel();
    }
}

fn encode_line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
