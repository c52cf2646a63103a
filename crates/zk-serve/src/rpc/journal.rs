use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::{Notify, watch};
use zk_core::service::Redactor;
use zk_view::{Activity, IndexedView, Patch, View};

use super::message::notification;
use super::wire::notes::PatchNote;

/// Most notifications, and bytes of them, that are kept for clients that come back.
const MAX_KEPT: usize = 4096;
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Notifications of one conversation, numbered, with the view that they make.
#[derive(Debug)]
pub(super) struct Journal {
    conversation: String,
    redactor: Arc<Redactor>,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    /// Signal that something was asked for.
    asked: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    view: IndexedView,
    last: u64,
    kept: VecDeque<Arc<str>>,
    bytes: usize,
    is_over: bool,
    /// Whether something was asked for since all was settled.
    is_unsettled: bool,
    /// Requests that are being handed in.
    handed_in: usize,
}

/// Request that is being handed in: until this is dropped, nothing is settled.
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

/// Notifications for one who follows.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) lines: Vec<Arc<str>>,
    /// Number of the last one.
    pub(super) last: u64,
    /// Whether the whole view stands for what is missing.
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
    pub(super) fn patch(&self, patch: Patch) {
        let mut state = self.state();
        state.view.apply(&patch);
        if state.is_busy() {
            state.is_unsettled = true;
        }
        let seq = state.last + 1;
        let conversation = self.conversation.clone();
        let note = PatchNote { conversation, seq, time_ms: now_ms(), patch, settled: false };
        self.keep(state, notification("conversation/patch", &note));
    }

    /// Adds another notification, with its number and time.
    pub(super) fn note(&self, method: &str, fields: &Value) {
        let state = self.state();
        let line = self.line_of(&state, method, fields);
        self.keep(state, line);
    }

    /// Adds the last notification.
    pub(super) fn end(&self, method: &str, fields: &Value) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        let line = self.line_of(&state, method, fields);
        state.is_over = true;
        self.keep(state, line);
    }

    /// Adds the notification that all is settled, unless nothing was asked for or something goes on; gives whether nothing
    /// is left to be waited for.
    pub(super) fn settle(&self, is_idle: bool) -> bool {
        let mut state = self.state();
        if !state.is_unsettled || state.is_over || state.is_busy() || state.handed_in > 0 {
            return true;
        }
        if !is_idle {
            return false;
        }
        state.is_unsettled = false;
        let line = self.line_of(&state, "conversation/settled", &Value::Null);
        self.keep(state, line);
        true
    }

    /// Notes that something is being asked for.
    pub(super) fn ask(&self) -> Asking<'_> {
        let mut state = self.state();
        state.is_unsettled = true;
        state.handed_in += 1;
        Asking { journal: self, seq: state.last }
    }

    /// Signal that something was asked for.
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

    /// Notifications behind number `after`; the whole view where these are not kept any more, or nothing is known.
    pub(super) fn take(&self, after: Option<u64>) -> Taken {
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

    fn keep(&self, mut state: MutexGuard<'_, State>, line: String) {
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

    /// The line without secrets: a quote ends every shape of a key, so that it stays JSON.
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
