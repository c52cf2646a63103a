//! Queue of lines to the program.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use zk_core::events::{PartKind, PartLeftOut};
use zk_core::kernel::{AnyEvent, Cx, Event, EventStamp};
use zk_core::service::{Exec, ExecRequest};

use super::BridgeError;
use super::lines::{EventLine, LineStamp, Lost, MAX_LINE_BYTES, line};

/// Capacity of the queue, in bytes.
const ROOM: u32 = 4 << 20;

/// Result of asking the program about an event.
pub(super) type Verdict = Result<Value, BridgeError>;

/// Queued line.
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) line: Vec<u8>,
    /// Caller that waits for the reply.
    pub(super) asker: Option<oneshot::Sender<Verdict>>,
    /// Service that starts the program if it is not running.
    pub(super) exec: Option<Arc<dyn Exec>>,
    /// Permit for the line's bytes, released once the line is written.
    pub(super) room: OwnedSemaphorePermit,
}

/// Sender's end of the queue, used by the handlers.
pub(super) struct Queue {
    shared: Arc<Shared>,
    messages: mpsc::UnboundedSender<Message>,
}

/// Receiver's end of the queue, used by the task that owns the program.
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) messages: mpsc::UnboundedReceiver<Message>,
}

/// State that both ends share.
pub(super) struct Shared {
    pub(super) plugin: String,
    pub(super) program: String,
    next: AtomicU64,
    room: Arc<Semaphore>,
    lost: AtomicU64,
    broken: OnceLock<BridgeError>,
    /// Whether the program's failure was announced to the person.
    is_announced: AtomicBool,
}

/// Creates the queue for the program of `request`, bounded by bytes.
pub(super) fn queue(plugin: &str, request: &ExecRequest) -> (Arc<Queue>, Work) {
    let shared = Arc::new(Shared {
        plugin: plugin.to_owned(),
        program: request.program.to_string_lossy().into_owned(),
        // The greeting has number 0.
        next: AtomicU64::new(1),
        room: Arc::new(Semaphore::new(ROOM as usize)),
        lost: AtomicU64::new(0),
        broken: OnceLock::new(),
        is_announced: AtomicBool::new(false),
    });
    let (sender, messages) = mpsc::unbounded_channel();
    (Arc::new(Queue { shared: shared.clone(), messages: sender }), Work { shared, messages })
}

impl Shared {
    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether an event has this number.
    pub(super) fn was_issued(&self, id: u64) -> bool {
        id < self.next.load(Ordering::Relaxed)
    }

    /// Marks the program as failed: no more lines are written. The first error is kept.
    pub(super) fn break_off(&self, error: BridgeError) {
        let _ = self.broken.set(error);
    }

    pub(super) fn broken(&self) -> Option<&BridgeError> {
        self.broken.get()
    }

    /// Number of events that were dropped since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    pub(super) fn lost_line(&self, count: u64) -> Option<Vec<u8>> {
        let id = self.next_id();
        line(&EventLine {
            id,
            event: "bridge:lost",
            reply: false,
            run: "",
            stamp: None,
            data: Lost { count },
        })
        .ok()
    }

    fn line<D: Serialize>(
        &self,
        event: &str,
        reply: bool,
        cx: &Cx,
        stamp: Option<LineStamp>,
        data: D,
    ) -> Result<(u64, Vec<u8>), BridgeError> {
        let (id, program) = (self.next_id(), || self.program.clone());
        let line = line(&EventLine { id, event, reply, run: cx.run_id(), stamp, data })
            .map_err(|error| BridgeError::Unwritable { program: program(), reason: error.to_string() })?;
        if line.len() > MAX_LINE_BYTES {
            return Err(BridgeError::TooLong { program: program(), bytes: line.len() });
        }
        Ok((id, line))
    }

    /// Size of a line for the queue's limit; at least a minimum, which bounds the number of lines.
    fn room_of(line: &[u8]) -> u32 {
        u32::try_from(line.len()).unwrap_or(ROOM).clamp(1 << 10, ROOM)
    }
}

impl Queue {
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Asks the program about an event, once the queue has room.
    pub(super) async fn ask<E: Event>(&self, event: &E, cx: &Cx) -> Verdict {
        let shared = &self.shared;
        if let Some(error) = shared.broken() {
            return Err(error.clone());
        }
        let (id, line) = shared.line(E::NAME, true, cx, None, event)?;
        let closing = || BridgeError::Closing { program: shared.program.clone() };
        let room = shared.room.clone().acquire_many_owned(Shared::room_of(&line)).await;
        let room = room.map_err(|_| closing())?;
        let (asker, answer) = oneshot::channel();
        let message = Message { id, line, asker: Some(asker), exec: cx.service::<dyn Exec>(), room };
        self.messages.send(message).map_err(|_| closing())?;
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    /// Sends an event without a reply; drops it if the queue is full.
    pub(super) fn tell(&self, event: &dyn AnyEvent, stamp: EventStamp, cx: &Cx) {
        let shared = &self.shared;
        if let Some(error) = shared.broken() {
            self.announce(error, cx);
            return;
        }
        let sent = event.to_json().ok().and_then(|data| {
            let (id, line) = shared.line(event.name(), false, cx, Some(stamp.into()), data).ok()?;
            let room = shared.room.clone().try_acquire_many_owned(Shared::room_of(&line)).ok()?;
            let message = Message { id, line, asker: None, exec: cx.service::<dyn Exec>(), room };
            self.messages.send(message).ok()
        });
        if sent.is_none() {
            shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Announces once that an observing program has failed, since no handler's failure would report it.
    fn announce(&self, error: &BridgeError, cx: &Cx) {
        if self.shared.is_announced.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = self.shared.plugin.clone();
        let event =
            PartLeftOut { kind: PartKind::HookProcess, source: name.clone(), name, error: error.to_string() };
        let cx = cx.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The outcome is ignored: a failing observer changes nothing here.
            runtime.spawn(async move { drop(cx.emit(event).await) });
        }
    }
}
