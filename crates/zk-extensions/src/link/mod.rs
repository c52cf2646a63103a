//! One running program of an extension: requests to it, and the task that owns it.

mod pump;
mod said;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::error::ExtensionError;
use crate::protocol::{Cancel, ErrorObject, EventsLost, MAX_LINE_BYTES, notification, request, response};

pub(crate) use pump::{MAX_REQUESTS, Pump};
pub(crate) use said::{LogSink, Said, quoted};

/// Maximum size of the queue of lines in bytes.
const MAX_QUEUED_BYTES: u32 = 4 << 20;
/// Minimum number of bytes that a line counts for, which limits the number of lines.
const MIN_LINE_BYTES: u32 = 256;
/// Time added to the wait for an answer while the extension has a question open with the person.
const PERSON_PAUSE: Duration = Duration::from_millis(500);

/// Handler of an extension's requests and notifications.
#[async_trait]
pub(crate) trait Served: Send + Sync {
    /// Answers a request.
    async fn serve(&self, method: &str, params: Value) -> Result<Value, ErrorObject>;

    /// Takes a notification.
    fn handle_notification(&self, method: &str, params: Value);
}

/// Queued line.
pub(crate) struct QueuedLine {
    pub(crate) line: Vec<u8>,
    /// Permit for the line's bytes, released once the line is written.
    _room: OwnedSemaphorePermit,
}

/// Connection to one running program, used by all registrations of the extension.
pub(crate) struct Link {
    name: String,
    outbox: mpsc::UnboundedSender<QueuedLine>,
    room: Arc<Semaphore>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Result<Value, ErrorObject>>>>,
    last_id: AtomicU64,
    lost: AtomicU64,
    /// Number of the extension's questions that the person has not answered yet.
    asked: AtomicUsize,
    fault: OnceLock<String>,
}

/// Guard of an open question to the person.
pub(crate) struct OpenQuestion(Arc<Link>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    /// Creates a connection, and the queue for its [`Pump`].
    pub(crate) fn new(name: &str) -> (Arc<Self>, mpsc::UnboundedReceiver<QueuedLine>) {
        let (outbox, queue) = mpsc::unbounded_channel();
        let link = Self {
            name: name.to_owned(),
            outbox,
            room: Arc::new(Semaphore::new(MAX_QUEUED_BYTES as usize)),
            pending: Mutex::default(),
            last_id: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            asked: AtomicUsize::new(0),
            fault: OnceLock::new(),
        };
        (Arc::new(link), queue)
    }

    /// Sends a request and waits for its result, for at most `limit` and until `stop`. Dropping the future
    /// cancels the request at the extension.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: impl Serialize + Send,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<Value, ExtensionError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let line = self.check_line(method, request(id, method, params))?;
        let mut waiting = std::pin::pin!(self.send_and_wait(id, line));
        let mut deadline = Instant::now() + limit;
        let answer = loop {
            tokio::select! {
                biased;
                answer = timeout_at(deadline, &mut waiting) => match answer {
                    Ok(answer) => break answer?,
                    // The person is being asked, who may take longer than a program.
                    Err(_) if self.asked.load(Ordering::Relaxed) > 0 => deadline = Instant::now() + PERSON_PAUSE,
                    Err(_) => {
                        return Err(ExtensionError::TimedOut { name: self.name.clone(), method: method.to_owned(), limit });
                    }
                },
                () = stop.cancelled() => return Err(ExtensionError::Stopped { name: self.name.clone() }),
            }
        };
        answer.map_err(|error| ExtensionError::Failed {
            name: self.name.clone(),
            reason: quoted(error.message.as_bytes()),
        })
    }

    async fn send_and_wait(
        &self,
        id: u64,
        line: Vec<u8>,
    ) -> Result<Result<Value, ErrorObject>, ExtensionError> {
        let room = self.room.clone().acquire_many_owned(queue_room(&line)).await;
        let room = room.map_err(|_| self.down_error())?;
        let (sender, answer) = oneshot::channel();
        self.pending().insert(id, sender);
        let mut waiting = WaitingAnswer { link: self, id, is_done: false };
        // The fault is set before pending answers are given up.
        if self.fault.get().is_some() || self.outbox.send(QueuedLine { line, _room: room }).is_err() {
            waiting.is_done = true;
            self.pending().remove(&id);
            return Err(self.down_error());
        }
        let answer = answer.await;
        waiting.is_done = true;
        answer.map_err(|_| self.down_error())
    }

    /// Queues a notification; nothing if the queue is full.
    pub(crate) fn notify(&self, method: &str, params: impl Serialize) -> bool {
        let line = self.check_line(method, notification(method, params)).ok();
        line.is_some_and(|line| self.try_queue(line))
    }

    /// Queues an event without an answer, and counts it as lost if the queue is full.
    pub(crate) fn send_event(&self, params: impl Serialize) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let is_told = lost == 0 || self.notify("events/lost", EventsLost { count: lost });
        if !is_told || !self.notify("event/tell", params) {
            self.lost.fetch_add(if is_told { 1 } else { lost + 1 }, Ordering::Relaxed);
        }
    }

    /// Answers a request of the extension, once the queue has room.
    pub(crate) async fn answer(&self, id: &Value, result: Result<Value, ErrorObject>) {
        let Some(line) = self.answer_line(id, &result) else { return };
        if let Ok(room) = self.room.clone().acquire_many_owned(queue_room(&line)).await {
            let _ = self.outbox.send(QueuedLine { line, _room: room });
        }
    }

    /// Answers a request at once; false if the queue is full.
    pub(crate) fn try_answer(&self, id: &Value, result: &Result<Value, ErrorObject>) -> bool {
        self.answer_line(id, result).is_some_and(|line| self.try_queue(line))
    }

    fn answer_line(&self, id: &Value, result: &Result<Value, ErrorObject>) -> Option<Vec<u8>> {
        let line = self.check_line("answer", response(id, result));
        let failed = |error: ExtensionError| {
            let error = ErrorObject { code: -32000, message: error.to_string() };
            response(id, &Err(error)).ok()
        };
        line.map_or_else(failed, Some)
    }

    fn try_queue(&self, line: Vec<u8>) -> bool {
        let room = self.room.clone().try_acquire_many_owned(queue_room(&line));
        room.is_ok_and(|room| self.outbox.send(QueuedLine { line, _room: room }).is_ok())
    }

    fn check_line(
        &self,
        method: &str,
        line: Result<Vec<u8>, serde_json::Error>,
    ) -> Result<Vec<u8>, ExtensionError> {
        let (name, method) = (self.name.clone(), method.to_owned());
        match line {
            Err(error) => Err(ExtensionError::Unwritable { name, method, reason: error.to_string() }),
            Ok(line) if line.len() > MAX_LINE_BYTES => {
                Err(ExtensionError::TooLong { name, method, bytes: line.len() })
            }
            Ok(line) => Ok(line),
        }
    }

    /// Passes an answer to the caller; false if zk never sent such a request.
    pub(crate) fn resolve(&self, id: u64, result: Result<Value, ErrorObject>) -> bool {
        let Some(waiting) = self.pending().remove(&id) else {
            // A late answer, after the caller gave up.
            return id > 0 && id <= self.last_id.load(Ordering::Relaxed);
        };
        let _ = waiting.send(result);
        true
    }

    /// Ends the connection; all pending requests fail with this reason.
    pub(crate) fn break_off(&self, reason: &str) {
        let _ = self.fault.set(reason.to_owned());
        self.room.close();
        self.pending().clear();
    }

    /// Marks that the person is being asked by the extension.
    pub(crate) fn open_question(self: &Arc<Self>) -> OpenQuestion {
        self.asked.fetch_add(1, Ordering::Relaxed);
        OpenQuestion(self.clone())
    }

    fn down_error(&self) -> ExtensionError {
        let reason = self.fault.get().cloned().unwrap_or_else(|| "it is being ended".to_owned());
        let next = "it is started again by itself".to_owned();
        ExtensionError::Down { name: self.name.clone(), reason, next }
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Result<Value, ErrorObject>>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pending answer; dropping this cancels the request.
struct WaitingAnswer<'a> {
    link: &'a Link,
    id: u64,
    is_done: bool,
}

impl Drop for WaitingAnswer<'_> {
    fn drop(&mut self) {
        if !self.is_done && self.link.pending().remove(&self.id).is_some() {
            self.link.notify("cancel", Cancel { id: json!(self.id) });
        }
    }
}

fn queue_room(line: &[u8]) -> u32 {
    u32::try_from(line.len()).unwrap_or(MAX_QUEUED_BYTES).clamp(MIN_LINE_BYTES, MAX_QUEUED_BYTES)
}
