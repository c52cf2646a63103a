use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Mutex;
use zk_core::events::{
    AgentStart, Cause, MessagesCause, ModelSelect, SessionEnd, SessionMessages, SessionStart, ThinkingSelect,
    ToolGate, ToolResultsAfter,
};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, Plugin, Scope, Stage};
use zk_core::model::{EntryId, Message, ModelRef, Role, ThinkingLevel, TurnUsage};
use zk_core::service::{EntryKind, OpenSession, StoreError};

use crate::Loaded;

/// The plugin that writes a run into an open session.
///
/// | event | entries |
/// |---|---|
/// | `session:start` | the run's start |
/// | `session:messages` | the messages |
/// | `agent:start`, `model:select`, `thinking:select` | model and thinking level, when they changed |
/// | `tool-results:after` | the assistant message and its results, in one append |
/// | `session:end` | the run's end |
///
/// The prompt and the run's start are on their way to the disk while the request is on its way to the model;
/// everything else is stored when the event returns. The first tool call waits for what is under way: nothing
/// is done on behalf of a prompt that could not be stored. An append that fails stops the run; its entries are
/// kept and written, before anything else, with the next append; a message that is announced again is not
/// written twice.
///
/// Sub-agents are not recorded: each has a session of its own.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_core::events::SessionStart;
/// use zk_core::kernel::Bus;
/// use zk_core::service::{NewSession, SessionStore};
/// use zk_session::{MemoryStore, Recorder};
///
/// let store = MemoryStore::new();
/// let session = store.create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap();
/// let bus = Bus::new();
/// bus.install(&Recorder::new(session.clone())).unwrap();
/// bus.cx().emit(SessionStart { session_id: None, run_id: "r_1".into(), messages: 0 }).await.unwrap();
/// assert_eq!(session.entries().await.unwrap().len(), 1);
/// # });
/// ```
pub struct Recorder {
    log: Arc<Log>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("session", self.log.session.id()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder into a new session.
    #[must_use]
    pub fn new(session: Arc<dyn OpenSession>) -> Self {
        Self::resuming(session, &Loaded::default())
    }

    /// A recorder into a session that goes on from `loaded`: what it says of model and thinking level is not
    /// written again.
    #[must_use]
    pub fn resuming(session: Arc<dyn OpenSession>, loaded: &Loaded) -> Self {
        let state = State { model: loaded.model.clone(), thinking: loaded.thinking, ..State::default() };
        Self { log: Arc::new(Log { session, state: Mutex::new(state) }) }
    }
}

impl Plugin for Recorder {
    fn name(&self) -> &str {
        "session-recorder"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.handle::<SessionStart, _>(self.log.clone());
        scope.handle::<SessionMessages, _>(self.log.clone());
        scope.handle::<AgentStart, _>(self.log.clone());
        scope.handle::<ModelSelect, _>(self.log.clone());
        scope.handle::<ThinkingSelect, _>(self.log.clone());
        scope.handle_at::<ToolGate, _>(Stage::Early, self.log.clone());
        scope.handle::<ToolResultsAfter, _>(self.log.clone());
        scope.handle::<SessionEnd, _>(self.log.clone());
        Ok(())
    }
}

struct Log {
    session: Arc<dyn OpenSession>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Appends that were begun and not waited for, oldest first.
    under_way: VecDeque<Flight>,
    /// Entries whose append failed.
    unstored: Vec<EntryKind>,
    /// Every message taken so far, by address: what could not be stored is announced again, and kept here
    /// already.
    taken: HashMap<usize, Arc<Message>>,
    /// What the log says last.
    model: Option<ModelRef>,
    thinking: Option<ThinkingLevel>,
}

struct Flight {
    entries: Vec<EntryKind>,
    append: Pin<Box<dyn Future<Output = Result<Vec<EntryId>, StoreError>> + Send>>,
}

impl Log {
    /// Stores `entries`, after everything that is under way.
    async fn write(&self, entries: Vec<EntryKind>) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        if let Err(error) = state.settle().await {
            state.unstored.extend(entries);
            return Err(error);
        }
        state.begin(&self.session, entries).await?;
        state.settle().await
    }

    /// Begins to store `entries`; the next [`Log::write`] waits for it.
    async fn queue(&self, entries: Vec<EntryKind>) -> Result<(), StoreError> {
        self.state.lock().await.begin(&self.session, entries).await
    }
}

impl State {
    /// Hands entries to the session, behind those that could not be stored before.
    async fn begin(
        &mut self,
        session: &Arc<dyn OpenSession>,
        entries: Vec<EntryKind>,
    ) -> Result<(), StoreError> {
        let mut all = std::mem::take(&mut self.unstored);
        all.extend(entries);
        if all.is_empty() {
            return Ok(());
        }
        let (session, given) = (session.clone(), all.clone());
        let mut flight =
            Flight { entries: all, append: Box::pin(async move { session.append(given).await }) };
        // One poll starts it. From here on it belongs to the state, so a run that is dropped while it waits
        // neither loses nor repeats it.
        match poll_fn(|task| Poll::Ready(flight.append.as_mut().poll(task))).await {
            Poll::Ready(Ok(_)) => Ok(()),
            Poll::Ready(Err(error)) => {
                self.unstored = flight.entries;
                Err(error)
            }
            Poll::Pending => {
                self.under_way.push_back(flight);
                Ok(())
            }
        }
    }

    /// Waits for everything under way. The first error is the answer.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let mut result = Ok(());
        while let Some(flight) = self.under_way.front_mut() {
            let ended = flight.append.as_mut().await;
            let flight = self.under_way.pop_front();
            if let (Err(error), Some(flight)) = (ended, flight) {
                self.unstored.extend(flight.entries);
                result = result.and(Err(error));
            }
        }
        result
    }

    /// The messages that were not taken before; from now on they are.
    fn take(&mut self, all: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let mut is_new = |message: &&Arc<Message>| {
            let address = Arc::as_ptr(message).addr();
            self.taken.insert(address, (*message).clone()).is_none()
        };
        all.iter().filter(|message| is_new(message)).cloned().collect()
    }

    /// The entry for the model, unless the log says so already.
    fn model(&mut self, model: &ModelRef) -> Option<EntryKind> {
        let news = self.model.as_ref() != Some(model);
        self.model = Some(model.clone());
        news.then(|| EntryKind::Model { model: model.clone() })
    }

    /// The entry for the thinking level, unless the log says so already. No entry means no thinking.
    fn thinking(&mut self, level: ThinkingLevel) -> Option<EntryKind> {
        let news = self.thinking.unwrap_or_default() != level;
        self.thinking = Some(level);
        news.then_some(EntryKind::Thinking { level })
    }
}

/// The entries of messages; the usage goes with the last answer among them.
fn messages(all: &[Arc<Message>], usage: Option<&TurnUsage>) -> Vec<EntryKind> {
    let answer = all.iter().rposition(|message| message.role == Role::Assistant);
    let usage_of = |index| usage.filter(|_| Some(index) == answer).cloned();
    let entry = |(index, message): (usize, &Arc<Message>)| EntryKind::Message {
        message: message.clone(),
        usage: usage_of(index),
    };
    all.iter().enumerate().map(entry).collect()
}

impl Handler<SessionStart> for Log {
    async fn call(&self, ev: &SessionStart, _: &Cx) -> Answer<SessionStart> {
        self.queue(vec![EntryKind::RunStart { run_id: ev.run_id.clone() }]).await?;
        Ok(None)
    }
}

impl Handler<SessionMessages> for Log {
    async fn call(&self, ev: &SessionMessages, _: &Cx) -> Answer<SessionMessages> {
        let news = self.state.lock().await.take(&ev.messages);
        let entries = messages(&news, ev.usage.as_ref());
        match ev.cause {
            MessagesCause::Prompt => self.queue(entries).await?,
            MessagesCause::Answer
            | MessagesCause::Steer
            | MessagesCause::FollowUp
            | MessagesCause::Harness => {
                self.write(entries).await?;
            }
        }
        if let Some(origin) = ev.messages.iter().rev().find_map(|message| message.origin.as_ref()) {
            self.state.lock().await.model = Some(origin.clone());
        }
        Ok(None)
    }
}

impl Handler<AgentStart> for Log {
    async fn call(&self, ev: &AgentStart, _: &Cx) -> Answer<AgentStart> {
        let mut state = self.state.lock().await;
        let entries = [state.model(&ev.model), state.thinking(ev.thinking)];
        state.begin(&self.session, entries.into_iter().flatten().collect()).await?;
        Ok(None)
    }
}

impl Handler<ModelSelect> for Log {
    async fn call(&self, ev: &ModelSelect, _: &Cx) -> Answer<ModelSelect> {
        let entry = self.state.lock().await.model(&ev.to);
        match ev.cause {
            Cause::Set => self.write(entry.into_iter().collect()).await?,
            Cause::Restore => {}
        }
        Ok(None)
    }
}

impl Handler<ThinkingSelect> for Log {
    async fn call(&self, ev: &ThinkingSelect, _: &Cx) -> Answer<ThinkingSelect> {
        let entry = self.state.lock().await.thinking(ev.to);
        match ev.cause {
            Cause::Set => self.write(entry.into_iter().collect()).await?,
            Cause::Restore => {}
        }
        Ok(None)
    }
}

impl Handler<ToolGate> for Log {
    async fn call(&self, _: &ToolGate, _: &Cx) -> Answer<ToolGate> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        if state.unstored.is_empty() {
            return Ok(None);
        }
        // A call beside this one learned why; it is no more allowed than that one.
        Err("the session could not be written, so nothing is done on its behalf".into())
    }
}

impl Handler<ToolResultsAfter> for Log {
    async fn call(&self, ev: &ToolResultsAfter, _: &Cx) -> Answer<ToolResultsAfter> {
        let news = self.state.lock().await.take(&[ev.assistant.clone(), ev.results.clone()]);
        self.write(messages(&news, Some(&ev.usage))).await?;
        self.state.lock().await.model = Some(ev.usage.model.clone());
        Ok(None)
    }
}

impl Handler<SessionEnd> for Log {
    async fn call(&self, ev: &SessionEnd, _: &Cx) -> Answer<SessionEnd> {
        self.write(vec![EntryKind::RunEnd { run_id: ev.run_id.clone(), status: ev.status }]).await?;
        Ok(None)
    }
}
