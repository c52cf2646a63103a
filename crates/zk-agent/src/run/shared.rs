use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use zk_core::events::{Offer, SteerKind};
use zk_core::kernel::Cx;
use zk_core::model::{Disclosure, Message, RunId, Stats, TurnId};
use zk_core::service::RunEnded;

use crate::lock::lock;
use crate::run::Queues;

/// State that a run shares with its handles, its gates and its sub-agents.
#[derive(Debug)]
pub(crate) struct RunShared {
    pub(crate) id: RunId,
    pub(crate) stop: CancellationToken,
    /// Cancelled when the run is over and its agent idle.
    pub(crate) over: CancellationToken,
    begun: OnceLock<Instant>,
    queues: Mutex<Queues>,
    stats: Mutex<Stats>,
    /// Number of approved calls so far, by tool. Counted at approval, so that a budget includes other calls
    /// of the same batch.
    counts: Mutex<BTreeMap<String, u32>>,
    /// Canonical names of lazy tools that were unlocked in this run.
    unlocked: Mutex<BTreeSet<String>>,
    /// Offers of tools in the current turn that differ from the tools' own, by canonical name.
    offers: Mutex<Arc<BTreeMap<String, Offer>>>,
    /// Reason for the stop, of the first caller that gave one.
    abort_reason: OnceLock<String>,
    /// Number and id of the current turn.
    turn: Mutex<(u32, Option<TurnId>)>,
    /// Cause for which this worker leaves the run to another one, once it does.
    leaving: Mutex<Option<Leaving>>,
}

/// Cause for which a worker leaves a run to another one. A later one of the list prevails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leaving {
    /// The worker is to end.
    Handover,
    /// Another worker has the session already.
    Fenced,
}

impl RunShared {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self::of_run(RunId::fresh(), stop)
    }

    /// Creates the state of a run with this id.
    pub(crate) fn of_run(id: RunId, stop: CancellationToken) -> Self {
        Self {
            id,
            stop,
            over: CancellationToken::new(),
            begun: OnceLock::new(),
            queues: Mutex::default(),
            stats: Mutex::default(),
            counts: Mutex::default(),
            unlocked: Mutex::default(),
            offers: Mutex::default(),
            abort_reason: OnceLock::new(),
            turn: Mutex::default(),
            leaving: Mutex::default(),
        }
    }

    /// Whether `cx` is a context of this run.
    pub(crate) fn owns(&self, cx: &Cx) -> bool {
        cx.run_id() == self.id.as_str()
    }

    /// Marks the run as begun, unless it is already.
    pub(crate) fn mark_begun(&self) {
        self.begun.get_or_init(Instant::now);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.get().is_some()
    }

    fn elapsed_ms(&self) -> u64 {
        self.begun.get().map_or(0, |begun| begun.elapsed().as_millis() as u64)
    }

    pub(crate) fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        lock(&self.stats)
    }

    pub(crate) fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        lock(&self.counts)
    }

    pub(crate) fn unlocked(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.unlocked)
    }

    /// Returns the offers of tools in the current turn that differ from the tools' own.
    pub(crate) fn offers(&self) -> Arc<BTreeMap<String, Offer>> {
        lock(&self.offers).clone()
    }

    pub(crate) fn set_offers(&self, offers: BTreeMap<String, Offer>) {
        *lock(&self.offers) = Arc::new(offers);
    }

    /// Returns whether the current turn offers a tool always, once the run asked for it, or never. A tool without an
    /// offer follows its own disclosure.
    pub(crate) fn offer(&self, name: &str, own: Disclosure) -> Offer {
        lock(&self.offers).get(name).copied().unwrap_or_else(|| own.into())
    }

    pub(crate) fn count_call(&self, tool: &str) {
        *self.counts().entry(tool.to_owned()).or_default() += 1;
    }

    /// Queues a message; returns it if the run accepts no more.
    pub(crate) fn queue(&self, kind: SteerKind, message: Message) -> Result<(), RunEnded> {
        self.queues().add(kind, message.identified().shared())
    }

    /// Stops the run, with an optional reason.
    pub(crate) fn abort(&self, reason: Option<&str>) {
        if let Some(reason) = reason.filter(|_| !self.stop.is_cancelled()) {
            let _ = self.abort_reason.set(reason.to_owned());
        }
        self.stop.cancel();
    }

    /// Leaves the run to another worker after the current calls or turn.
    pub(crate) fn hand_over(&self) {
        self.set_leaving(Leaving::Handover);
    }

    /// Leaves the run at once to the worker that has its session now.
    pub(crate) fn mark_fenced(&self) {
        self.set_leaving(Leaving::Fenced);
        self.stop.cancel();
    }

    fn set_leaving(&self, cause: Leaving) {
        let mut leaving = lock(&self.leaving);
        *leaving = (*leaving).max(Some(cause));
    }

    pub(crate) fn leaving(&self) -> Option<Leaving> {
        *lock(&self.leaving)
    }

    pub(crate) fn abort_reason(&self) -> Option<String> {
        self.abort_reason.get().cloned()
    }

    pub(crate) fn begin_turn(&self, number: u32, id: TurnId) {
        *lock(&self.turn) = (number, Some(id));
    }

    /// Returns the number of the current turn, 0 before the first, and its id.
    pub(crate) fn present_turn(&self) -> (u32, Option<TurnId>) {
        lock(&self.turn).clone()
    }

    /// Queues a message of the harness, which is delivered after the current batch of calls.
    pub(crate) fn queue_nudge(&self, message: Arc<Message>) {
        self.queues().nudges.push(message);
    }

    pub(crate) fn has_steering(&self) -> bool {
        !self.queues().steer.is_empty()
    }

    pub(crate) fn record_first_token(&self) {
        let elapsed = self.elapsed_ms();
        self.stats().first_token_ms.get_or_insert(elapsed);
    }

    /// Returns the current statistics.
    pub(crate) fn snapshot(&self) -> Stats {
        let mut stats = self.stats().clone();
        stats.tool_calls = self.counts().clone();
        stats.duration_ms = self.elapsed_ms();
        stats
    }
}
