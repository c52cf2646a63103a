use std::collections::{BTreeSet, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Poll;

use tokio::sync::Mutex;
use zk_core::model::{EntryId, MailId, Message, ModelRef, RunId, ThinkingLevel};
use zk_core::service::{CustomEntry, Durability, EntryKind, OpenSession, RunControl, StoreError};

use crate::Earlier;
use crate::find::is_prompt;

/// Callback with the error after which a run continues without a session.
pub(super) type OnLost = Box<dyn Fn(&StoreError) + Send + Sync>;

/// Callback that reads the present branch of version control, from files.
pub(super) type ReadBranch = Arc<dyn Fn() -> Option<String> + Send + Sync>;

pub(super) struct Log {
    pub(super) session: Arc<dyn OpenSession>,
    /// Beginning of the conversation, if it was not loaded.
    pub(super) earlier: Option<Earlier>,
    pub(super) state: Mutex<State>,
    /// Entries that wait for the next append. Handlers fill it before their first await, so that a cancelled one leaves
    /// its entries here.
    pub(super) queue: std::sync::Mutex<Queue>,
    /// Set if the run may go on without its session.
    pub(super) on_lost: OnceLock<OnLost>,
    /// Set if each run notes the branch of the session.
    pub(super) read_branch: OnceLock<ReadBranch>,
}

#[derive(Default)]
pub(super) struct State {
    /// Appends in flight, oldest first.
    pub(super) in_flight: VecDeque<InFlight>,
    /// Entries whose append failed; the next append writes them first.
    pub(super) unstored: Vec<EntryKind>,
    /// Whether any entry is stored.
    pub(super) stored: bool,
    /// Whether an entry other than a prompt is stored.
    pub(super) answered: bool,
    /// Whether the run continues without its session.
    pub(super) lost: bool,
    /// Last model and thinking level in the log.
    pub(super) model: Option<ModelRef>,
    pub(super) thinking: Option<ThinkingLevel>,
}

/// Entries that wait for the next append.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) entries: Vec<EntryKind>,
    /// Messages queued so far, keyed by memory address, so that a message that is announced again is not stored twice.
    taken: HashMap<usize, Arc<Message>>,
    /// Extra data of the current turn's read-only calls.
    pub(super) call_data: Vec<EntryKind>,
    /// Entries of plugins that are stored with the results of the current turn.
    pub(super) joined: Vec<CustomEntry>,
    /// Run of an earlier leg, whose start is stored.
    pub(super) continues: Option<RunId>,
    /// Present run, which ends if another worker takes the session. A run that is dropped gives the session up.
    pub(super) run: Option<Weak<dyn RunControl>>,
    /// Whether the end of a call is stored and not synced to disk.
    pub(super) has_unsynced_end: bool,
    /// Mail that was read and is still in the store.
    pub(super) read_mail: BTreeSet<MailId>,
    /// Mail to take out of the store with the next append.
    pub(super) taken_mail: BTreeSet<MailId>,
}

/// Append that was started and not awaited yet.
pub(super) struct InFlight {
    pub(super) entries: Vec<EntryKind>,
    /// Mail that the append takes out of the store.
    pub(super) mail: Vec<MailId>,
    pub(super) append: Pin<Box<dyn Future<Output = Result<Vec<EntryId>, StoreError>> + Send>>,
}

impl Log {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores `entries` after all earlier ones, and waits until they are as durable as requested.
    pub(super) async fn write(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.queue().entries.extend(entries);
        self.flush(durability).await
    }

    /// Stores all queued entries after those in flight, and waits for it.
    pub(super) async fn flush(&self, durability: Durability) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        self.await_appends(&mut state).await?;
        self.start_append(&mut state, Vec::new(), durability).await?;
        self.await_appends(&mut state).await
    }

    /// Stores an entry about an action that is about to begin. If that fails, the entry is dropped, since the
    /// action does not begin.
    pub(super) async fn announce(&self, entry: EntryKind, durability: Durability) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        self.await_appends(&mut state).await?;
        let begun = self.start_append(&mut state, vec![entry.clone()], durability).await;
        let written = begun.and(self.await_appends(&mut state).await);
        if written.is_err()
            && let Some(at) = state.unstored.iter().rposition(|unstored| *unstored == entry)
        {
            state.unstored.remove(at);
        }
        written
    }

    /// Tells the run that another writer has the session.
    pub(super) fn lose_session(&self) {
        let run = self.queue().run.as_ref().and_then(Weak::upgrade);
        run.into_iter().for_each(|run| run.lose_session());
    }

    /// Starts an append of unstored, queued and given entries, in this order.
    pub(super) async fn start_append(
        &self,
        state: &mut State,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let mut all = std::mem::take(&mut state.unstored);
        all.append(&mut self.queue().entries);
        all.extend(entries);
        if all.is_empty() || state.lost {
            return Ok(());
        }
        let mail = self.queue().mail_taken_by(&all);
        let (session, given, taken) = (self.session.clone(), all.clone(), mail.clone());
        let append = Box::pin(async move { session.append_taking(given, taken, durability).await });
        let mut begun = InFlight { entries: all, mail, append };
        // The first poll starts the append. From here on it belongs to the state, so that a cancelled run
        // neither loses nor repeats it.
        match poll_fn(|task| Poll::Ready(begun.append.as_mut().poll(task))).await {
            Poll::Ready(result) => self.record_result(state, (begun.entries, begun.mail), result.map(|_| ())),
            Poll::Pending => {
                state.in_flight.push_back(begun);
                Ok(())
            }
        }
    }

    /// Waits for all appends in flight; returns the first error.
    pub(super) async fn await_appends(&self, state: &mut State) -> Result<(), StoreError> {
        let mut result = Ok(());
        while let Some(oldest) = state.in_flight.front_mut() {
            let ended = oldest.append.as_mut().await;
            if let Some(oldest) = state.in_flight.pop_front() {
                let ended = self.record_result(state, (oldest.entries, oldest.mail), ended.map(|_| ()));
                result = result.and(ended);
            }
        }
        result
    }

    /// Updates the state after an append. Failed entries wait for the next append; a fenced append ends the run.
    pub(super) fn record_result(
        &self,
        state: &mut State,
        (entries, mail): (Vec<EntryKind>, Vec<MailId>),
        result: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match &result {
            Ok(()) => self.queue().forget_mail(&mail),
            Err(StoreError::Fenced { .. }) => self.lose_session(),
            Err(_) => {}
        }
        match (result, self.on_lost.get()) {
            (Ok(()), _) => {
                state.stored = true;
                state.answered |= !entries.iter().all(is_prompt);
            }
            (Err(_), _) if state.lost => {}
            (Err(error), Some(on_lost)) if !state.stored => {
                state.lost = true;
                state.unstored.clear();
                on_lost(&error);
            }
            (Err(error), _) => {
                state.unstored.extend(entries);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Queue {
    /// Ids of the mail that an append of these entries takes out of the store: mail that is one of its messages, and
    /// taken mail without a message.
    pub(super) fn mail_taken_by(&self, entries: &[EntryKind]) -> Vec<MailId> {
        if self.read_mail.is_empty() {
            return self.taken_mail.iter().cloned().collect();
        }
        let of_messages = entries.iter().filter_map(|entry| match entry {
            EntryKind::Message { message, .. } => message.id.as_ref().map(|id| MailId::from(id.as_str())),
            _ => None,
        });
        let read = of_messages.filter(|id| self.read_mail.contains(id));
        read.chain(self.taken_mail.iter().cloned()).collect()
    }

    /// Drops mail from the lists of read and taken mail, once an append took it out of the store.
    pub(super) fn forget_mail(&mut self, taken: &[MailId]) {
        for id in taken {
            self.read_mail.remove(id);
            self.taken_mail.remove(id);
        }
    }

    /// Returns the messages that were not queued before. The caller queues their entries under the same lock.
    pub(super) fn take_new(&mut self, all: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let mut is_new = |message: &&Arc<Message>| {
            let address = Arc::as_ptr(message).addr();
            self.taken.insert(address, (*message).clone()).is_none()
        };
        all.iter().filter(|message| is_new(message)).cloned().collect()
    }
}

impl State {
    /// Returns an entry for the model; `None` if the last model entry of the log is equal.
    pub(super) fn model_entry(&mut self, model: &ModelRef) -> Option<EntryKind> {
        let news = self.model.as_ref() != Some(model);
        self.model = Some(model.clone());
        news.then(|| EntryKind::Model { model: model.clone() })
    }

    /// Returns an entry for the thinking level; `None` if the last such entry of the log is equal. A log
    /// without an entry means no thinking.
    pub(super) fn thinking_entry(&mut self, level: ThinkingLevel) -> Option<EntryKind> {
        let news = self.thinking.unwrap_or_default() != level;
        self.thinking = Some(level);
        news.then_some(EntryKind::Thinking { level })
    }
}
