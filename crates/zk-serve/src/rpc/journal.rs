use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::{Notify, watch};
use zk_core::service::Redactor;
use zk_view::{Activity, IndexedView, Patch, View};

use super::message::notification;
use super::wire::notes::PatchNote;

/// Maximum number of notifications kept for clients that reconnect.
const MAX_KEPT: usize = 4096;
/// Maximum size of the kept notifications, in bytes.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Numbered notifications of one conversation, with the view that they result in.
#[derive(Debug)]
pub(super) struct Journal {
    conversation: String,
    redactor: Arc<Redactor>,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    /// Signal that a request was made.
    asked: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    view: IndexedView,
    last: u64,
    kept: VecDeque<Arc<str>>,
    bytes: usize,
    is_over: bool,
    /// Whether a request or a change came since the conversation last settled.
    is_unsettled: bool,
    /// Number of requests that are being passed to the conversation.
    handed_in: usize,
}

/// Guard of a request that is being passed to the conversation, which does not count as settled meanwhile.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    journal: &'a Journal,
    /// Number of the last notification before the request.
    pub(super) seq: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.journal.state();
        state.handed_in = state.handed_in.saturating_sub(1);
        drop(state);
        self.journal.asked.notify_one();
    }
}

/// Notifications for a subscriber.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) lines: Vec<Arc<str>>,
    /// Number of the last notification.
    pub(super) last: u64,
    /// Whether the lines are the whole view, in place of notifications that are no longer kept.
    pub(super) resync: bool,
    pub(super) is_over: bool,
}

impl Journal {
    pub(super) fn new(conversation: String, redactor: Arc<Redactor>) -> Self {
        Self {
            conversation,
            redactor,
            state: Mutex::default(),
            changed: watch::Sender::new(0),
            asked: Arc::default(),
        }
    }

    /// Adds a change of the view.
    pub(super) fn add_patch(&self, patch: Patch) {
        let mut state = self.state();
        state.view.apply(&patch);
        if state.is_busy() {
            state.is_unsettled = true;
        }
        let seq = state.last + 1;
        let conversation = self.conversation.clone();
        let note = PatchNote { conversation, seq, time_ms: now_ms(), patch, settled: false };
        self.store_line(state, notification("conversation/patch", &note));
    }

    /// Adds another notification, with its number and time.
    pub(super) fn add_notification(&self, method: &str, fields: &Value) {
        let state = self.state();
        let line = self.line_of(&state, method, fields);
        self.store_line(state, line);
    }

    /// Adds the last notification.
    pub(super) fn add_final_notification(&self, method: &str, fields: &Value) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        let line = self.line_of(&state, method, fields);
        state.is_over = true;
        self.store_line(state, line);
    }

    /// Adds the notification that the conversation has settled, if a request or a change came before. Returns
    /// false if the caller has to try again later, since `is_idle` is false.
    pub(super) fn add_settled_notification(&self, is_idle: bool) -> bool {
        let mut state = self.state();
        if !state.is_unsettled || state.is_over || state.is_busy() || state.handed_in > 0 {
            return true;
        }
        if !is_idle {
            return false;
        }
        state.is_unsettled = false;
        let line = self.line_of(&state, "conversation/settled", &Value::Null);
        self.store_line(state, line);
        true
    }

    /// Marks a request as being passed to the conversation.
    pub(super) fn begin_request(&self) -> Asking<'_> {
        let mut state = self.state();
        state.is_unsettled = true;
        state.handed_in += 1;
        Asking { journal: self, seq: state.last }
    }

    /// Returns the signal that a request was made.
    pub(super) fn asked(&self) -> Arc<Notify> {
        self.asked.clone()
    }

    /// Number of the last notification.
    pub(super) fn last(&self) -> u64 {
        self.state().last
    }

    /// Receiver of the number of the last notification.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Calls `read` with the view as it is now.
    pub(super) fn with_view<T>(&self, read: impl FnOnce(&View) -> T) -> T {
        read(&self.state().view)
    }

    /// Returns the notifications after number `after`; the whole view if some are no longer kept, or without
    /// a number.
    pub(super) fn notifications_after(&self, after: Option<u64>) -> Taken {
        let state = self.state();
        let (last, is_over) = (state.last, state.is_over);
        let missing =
            after.and_then(|after| last.checked_sub(after)).and_then(|count| usize::try_from(count).ok());
        if let Some(missing) = missing.filter(|missing| *missing <= state.kept.len()) {
            let lines = state.kept.iter().skip(state.kept.len() - missing).cloned().collect();
            return Taken { lines, last, resync: false, is_over };
        }
        let view = Box::new(View::clone(&state.view));
        let settled = !state.is_unsettled && !state.is_busy();
        drop(state);
        let (conversation, time_ms) = (self.conversation.clone(), now_ms());
        let note = PatchNote { conversation, seq: last, time_ms, patch: Patch::Reset { view }, settled };
        let line = self.redacted(notification("conversation/patch", &note));
        Taken { lines: vec![line], last, resync: true, is_over }
    }

    fn line_of(&self, state: &State, method: &str, fields: &Value) -> String {
        let mut params = fields.as_object().cloned().unwrap_or_default();
        params.insert("conversation".into(), self.conversation.clone().into());
        params.insert("seq".into(), (state.last + 1).into());
        params.insert("time_ms".into(), now_ms().into());
        notification(method, &params)
    }

    fn store_line(&self, mut state: MutexGuard<'_, State>, line: String) {
        let line = self.redacted(line);
        state.last += 1;
        state.bytes += line.len();
        state.kept.push_back(line);
        while state.kept.len() > MAX_KEPT || state.bytes > MAX_KEPT_BYTES {
            let Some(left) = state.kept.pop_front() else { break };
            state.bytes = state.bytes.saturating_sub(left.len());
        }
        let last = state.last;
        drop(state);
        self.changed.send_replace(last);
    }

    /// Redacts secrets in a line. The line stays JSON, since no form of a key contains a quote.
    fn redacted(&self, line: String) -> Arc<str> {
        match self.redactor.redact(&line) {
            std::borrow::Cow::Borrowed(_) => line.into(),
            std::borrow::Cow::Owned(clean) => clean.into(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.view.status.activity != Activity::Idle
            || !self.view.cards.is_empty()
            || self.view.status.run_ms.is_some()
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
