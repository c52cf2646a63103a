use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use async_trait::async_trait;
use tokio::sync::Mutex;
use zk_core::events::{
    AgentStart, Cause, ModelSelect, SessionEnd, SessionEntry, SessionMessages, SessionOpenTurn, SessionStart,
    ThinkingSelect, ToolBegin, ToolEnd, ToolResultsAfter,
};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, Plugin, Scope};
use zk_core::model::{EntryId, Message, ModelRef, Role, ThinkingLevel, TurnId, TurnUsage};
use zk_core::service::{
    CustomEntry, Durability, EntryKind, NewEntry, OpenSession, Redactor, SessionLog, StoreError,
};

use crate::Loaded;
use crate::find::is_prompt;
use crate::redact::redact_entry;

/// The plugin that writes a run into an open session.
///
/// | event | entries |
/// |---|---|
/// | `session:start` | the run's start |
/// | `session:messages` | the messages |
/// | `agent:start`, `model:select`, `thinking:select` | model and thinking level, when they changed |
/// | `session:open-turn` | an answer with calls, before any of them runs |
/// | `tool:begin`, `tool:end` | the begin and the end of a call that is not read-only, on the disk |
/// | `tool-results:after` | what read-only calls left beside their results, the assistant message and its results, in one append |
/// | `session:end` | the run's end |
///
/// The prompt is stored before its request is sent, an answer before its calls run, and what a call with effects
/// does before it does it: [`load_history`](crate::load_history) knows of a killed process how far each call
/// got. An append that fails stops the run; its entries are kept
/// and written, before anything else, with the next append; a message that is announced again is not written
/// twice.
///
/// Secrets are not stored: where the host offers a [`Redactor`], every entry goes through it first. The
/// conversation in memory keeps what the person typed.
///
/// Sub-agents are not recorded: each has a session of its own.
///
/// It also offers [`SessionLog`], through which plugins keep entries of their own in this session.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_core::events::{MessagesCause, SessionMessages};
/// use zk_core::kernel::Bus;
/// use zk_core::model::Message;
/// use zk_core::service::{NewSession, SessionStore};
/// use zk_session::{MemoryStore, Recorder};
///
/// let store = MemoryStore::new();
/// let session = store.create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap();
/// let bus = Bus::new();
/// bus.install(&Recorder::new(session.clone())).unwrap();
/// let messages = vec![Message::user_text("hello").shared()];
/// let prompt =
///     SessionMessages { run_id: "r_1".into(), messages, usage: None, cause: MessagesCause::Prompt };
/// bus.cx().emit(prompt).await.unwrap();
/// assert_eq!(session.entries().await.unwrap().len(), 1);
/// # });
/// ```
#[derive(Clone)]
pub struct Recorder {
    log: Arc<Log>,
}

/// What of a session its recorder has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Everything it was given.
    All,
    /// Everything up to some entry: this many more are not stored.
    Part {
        /// How many are missing.
        missing: usize,
    },
    /// Nothing at all.
    Nothing,
}

/// Takes the error because of which a run goes on without a session.
type OnLost = Box<dyn Fn(&StoreError) + Send + Sync>;

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
        let state = State {
            model: loaded.model.clone(),
            thinking: loaded.thinking,
            stored: *loaded != Loaded::default(),
            ..State::default()
        };
        Self { log: Arc::new(Log { session, state: Mutex::new(state), on_lost: OnceLock::new() }) }
    }

    /// This recorder, for a run that is worth more than its session: when the first entries of a new session
    /// cannot be stored, `on_lost` is told why and the run goes on unrecorded. Once something was stored, an
    /// append that fails stops the run as ever.
    #[must_use]
    pub fn or_without(self, on_lost: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        let _ = self.log.on_lost.set(Box::new(on_lost));
        self
    }

    /// What of the session is stored now, after everything that is being written.
    pub async fn saved(&self) -> Saved {
        let mut state = self.log.state.lock().await;
        let _ = self.log.settle(&mut state).await;
        match (state.stored, state.unstored.len()) {
            (false, _) => Saved::Nothing,
            (true, 0) => Saved::All,
            (true, missing) => Saved::Part { missing },
        }
    }

    /// Whether it has stored nothing but prompts, as [`discard_unanswered`](crate::discard_unanswered) looks for.
    pub async fn stored_only_prompts(&self) -> bool {
        !self.log.state.lock().await.answered
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
        scope.handle::<SessionOpenTurn, _>(self.log.clone());
        scope.handle::<ToolBegin, _>(self.log.clone());
        scope.handle::<ToolEnd, _>(self.log.clone());
        scope.handle::<ToolResultsAfter, _>(self.log.clone());
        scope.handle::<SessionEnd, _>(self.log.clone());
        scope.provide_service::<dyn SessionLog>(self.log.clone());
        Ok(())
    }
}

struct Log {
    session: Arc<dyn OpenSession>,
    state: Mutex<State>,
    /// Set when the run may go on without its session.
    on_lost: OnceLock<OnLost>,
}

#[derive(Default)]
struct State {
    /// Appends in flight, oldest first.
    in_flight: VecDeque<InFlight>,
    /// Entries that the next append takes with it: the beginning of a run, and those whose append failed.
    unstored: Vec<EntryKind>,
    /// Something of the session is in the store.
    stored: bool,
    /// Something is in the store that is no prompt.
    answered: bool,
    /// The run goes on without its session.
    lost: bool,
    /// Every message taken so far, by address: what could not be stored is announced again, and kept here
    /// already.
    taken: HashMap<usize, Arc<Message>>,
    /// What read-only calls of the present turn left beside their results.
    call_data: Vec<EntryKind>,
    /// The model and the thinking level that the log says last.
    model: Option<ModelRef>,
    thinking: Option<ThinkingLevel>,
}

/// An append that was begun and not waited for.
struct InFlight {
    entries: Vec<EntryKind>,
    append: Pin<Box<dyn Future<Output = Result<Vec<EntryId>, StoreError>> + Send>>,
}

impl Log {
    /// Stores `entries` after everything in flight, and waits until they survive what `durability` names.
    async fn write(&self, entries: Vec<EntryKind>, durability: Durability) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        if let Err(error) = self.settle(&mut state).await {
            state.unstored.extend(entries);
            return Err(error);
        }
        self.begin(&mut state, entries, durability).await?;
        self.settle(&mut state).await
    }

    /// Stores that something is about to happen. If that fails it does not happen, so it is not stored later.
    async fn announce(&self, entry: EntryKind, durability: Durability) -> Result<(), StoreError> {
        let written = self.write(vec![entry.clone()], durability).await;
        if written.is_err() {
            let mut state = self.state.lock().await;
            if let Some(at) = state.unstored.iter().rposition(|unstored| *unstored == entry) {
                state.unstored.remove(at);
            }
        }
        written
    }

    /// Hands entries to the session, behind those that could not be stored before.
    async fn begin(
        &self,
        state: &mut State,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let mut all = std::mem::take(&mut state.unstored);
        all.extend(entries);
        if all.is_empty() || state.lost {
            return Ok(());
        }
        let (session, given) = (self.session.clone(), all.clone());
        let append = Box::pin(async move { session.append(given, durability).await });
        let mut begun = InFlight { entries: all, append };
        // One poll starts it. From here on it belongs to the state, so a run that is dropped while it waits
        // neither loses nor repeats it.
        match poll_fn(|task| Poll::Ready(begun.append.as_mut().poll(task))).await {
            Poll::Ready(result) => self.ended(state, begun.entries, result.map(|_| ())),
            Poll::Pending => {
                state.in_flight.push_back(begun);
                Ok(())
            }
        }
    }

    /// Waits for everything in flight. The first error is the answer.
    async fn settle(&self, state: &mut State) -> Result<(), StoreError> {
        let mut result = Ok(());
        while let Some(oldest) = state.in_flight.front_mut() {
            let ended = oldest.append.as_mut().await;
            if let Some(oldest) = state.in_flight.pop_front() {
                let ended = self.ended(state, oldest.entries, ended.map(|_| ()));
                result = result.and(ended);
            }
        }
        result
    }

    /// Notes how an append ended.
    fn ended(
        &self,
        state: &mut State,
        entries: Vec<EntryKind>,
        result: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
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

impl State {
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

/// The entries as they are stored: without secrets, where the host knows of any.
fn redacted(entries: Vec<EntryKind>, cx: &Cx) -> Vec<EntryKind> {
    match cx.service::<Redactor>() {
        Some(redactor) => entries.into_iter().map(|entry| redact_entry(entry, &redactor)).collect(),
        None => entries,
    }
}

fn redacted_entry(entry: EntryKind, cx: &Cx) -> EntryKind {
    match cx.service::<Redactor>() {
        Some(redactor) => redact_entry(entry, &redactor),
        None => entry,
    }
}

fn is_of_turn(entry: &EntryKind, turn: &TurnId) -> bool {
    matches!(entry, EntryKind::CallData { turn_id, .. } if turn_id == turn)
}

#[async_trait]
impl SessionLog for Log {
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        let mut state = self.state.lock().await;
        self.settle(&mut state).await?;
        // What could not be stored before comes first.
        self.begin(&mut state, Vec::new(), Durability::Process).await?;
        self.settle(&mut state).await?;
        if state.lost {
            return Err(StoreError::Failed("this conversation is not stored".to_owned()));
        }
        let mut entry = EntryKind::Custom(entry.by(scope.source()));
        if let Some(redactor) = scope.bus().and_then(|bus| bus.service::<Redactor>()) {
            entry = redact_entry(entry, &redactor);
        }
        let ids = self.session.append(vec![entry.clone()], Durability::Process).await?;
        state.stored = true;
        state.answered |= !is_prompt(&entry);
        drop(state);
        if let (EntryKind::Custom(entry), Some(bus)) = (entry, scope.bus()) {
            // A watcher that fails is reported; the entry is stored.
            let _ = bus.cx().emit(SessionEntry { entry }).await;
        }
        let none = || StoreError::Failed("the store gave no id to an entry".to_owned());
        ids.into_iter().next().ok_or_else(none)
    }

    async fn entries(&self, scope: &Scope) -> Result<Vec<CustomEntry>, StoreError> {
        {
            let mut state = self.state.lock().await;
            self.settle(&mut state).await?;
        }
        let own = |kind| match kind {
            EntryKind::Custom(entry) if entry.source == scope.source().as_str() => Some(entry),
            _ => None,
        };
        Ok(self.session.entries().await?.into_iter().filter_map(|entry| own(entry.kind)).collect())
    }
}

impl Handler<SessionStart> for Log {
    async fn call(&self, ev: &SessionStart, _: &Cx) -> Answer<SessionStart> {
        // A run without anything in it needs no place on the disk yet: the prompt follows.
        let mut state = self.state.lock().await;
        if !state.lost {
            state.unstored.push(EntryKind::RunStart { run_id: ev.run_id.clone() });
        }
        Ok(None)
    }
}

impl Handler<SessionMessages> for Log {
    async fn call(&self, ev: &SessionMessages, cx: &Cx) -> Answer<SessionMessages> {
        let news = self.state.lock().await.take(&ev.messages);
        let entries = match (&ev.usage, ev.messages.is_empty()) {
            (Some(usage), true) => vec![EntryKind::Usage { usage: usage.clone() }],
            (usage, _) => messages(&news, usage.as_ref()),
        };
        self.write(redacted(entries, cx), Durability::Process).await?;
        if let Some(origin) = ev.messages.iter().rev().find_map(|message| message.origin.as_ref()) {
            self.state.lock().await.model = Some(origin.clone());
        }
        Ok(None)
    }
}

impl Handler<AgentStart> for Log {
    async fn call(&self, ev: &AgentStart, _: &Cx) -> Answer<AgentStart> {
        let mut state = self.state.lock().await;
        let entries = [state.model(&ev.model), state.thinking(ev.thinking)].into_iter().flatten().collect();
        self.begin(&mut state, entries, Durability::Process).await?;
        Ok(None)
    }
}

impl Handler<ModelSelect> for Log {
    async fn call(&self, ev: &ModelSelect, _: &Cx) -> Answer<ModelSelect> {
        let entry = self.state.lock().await.model(&ev.to);
        match ev.cause {
            Cause::Set => self.write(entry.into_iter().collect(), Durability::Process).await?,
            Cause::Restore => {}
        }
        Ok(None)
    }
}

impl Handler<ThinkingSelect> for Log {
    async fn call(&self, ev: &ThinkingSelect, _: &Cx) -> Answer<ThinkingSelect> {
        let entry = self.state.lock().await.thinking(ev.to);
        match ev.cause {
            Cause::Set => self.write(entry.into_iter().collect(), Durability::Process).await?,
            Cause::Restore => {}
        }
        Ok(None)
    }
}

impl Handler<SessionOpenTurn> for Log {
    async fn call(&self, ev: &SessionOpenTurn, cx: &Cx) -> Answer<SessionOpenTurn> {
        let (turn_id, message, usage) = (ev.turn_id.clone(), ev.message.clone(), ev.usage.clone());
        let open = EntryKind::OpenTurn { turn_id, message, usage };
        self.announce(redacted_entry(open, cx), Durability::Process).await?;
        Ok(None)
    }
}

impl Handler<ToolBegin> for Log {
    async fn call(&self, ev: &ToolBegin, cx: &Cx) -> Answer<ToolBegin> {
        if !ev.read_only {
            let begin = EntryKind::CallBegin {
                turn_id: ev.call.turn_id.clone(),
                call_id: ev.call.call_id.clone(),
                name: ev.call.name.clone(),
                args: ev.args.clone(),
                summary: Some(ev.summary.clone()),
            };
            self.announce(redacted_entry(begin, cx), Durability::Disk).await?;
        }
        Ok(None)
    }
}

impl Handler<ToolEnd> for Log {
    async fn call(&self, ev: &ToolEnd, cx: &Cx) -> Answer<ToolEnd> {
        if ev.read_only {
            self.state.lock().await.call_data.push(EntryKind::CallData {
                turn_id: ev.call.turn_id.clone(),
                call_id: ev.call.call_id.clone(),
                summary: Some(ev.summary.clone()),
                display: ev.display.clone(),
                details: ev.details.clone(),
                elapsed_ms: ev.elapsed_ms,
            });
        } else {
            let end = EntryKind::CallEnd {
                turn_id: ev.call.turn_id.clone(),
                call_id: ev.call.call_id.clone(),
                summary: Some(ev.summary.clone()),
                result: ev.result.clone(),
                display: ev.display.clone(),
                details: ev.details.clone(),
                elapsed_ms: ev.elapsed_ms,
            };
            self.write(vec![redacted_entry(end, cx)], Durability::Disk).await?;
        }
        Ok(None)
    }
}

impl Handler<ToolResultsAfter> for Log {
    async fn call(&self, ev: &ToolResultsAfter, cx: &Cx) -> Answer<ToolResultsAfter> {
        let (mut entries, news) = {
            let mut state = self.state.lock().await;
            (std::mem::take(&mut state.call_data), state.take(&[ev.assistant.clone(), ev.results.clone()]))
        };
        // An earlier turn that has no pair needs none of it.
        entries.retain(|entry| is_of_turn(entry, &ev.usage.turn_id));
        entries.extend(messages(&news, Some(&ev.usage)));
        self.write(redacted(entries, cx), Durability::Process).await?;
        self.state.lock().await.model = Some(ev.usage.model.clone());
        Ok(None)
    }
}

impl Handler<SessionEnd> for Log {
    async fn call(&self, ev: &SessionEnd, cx: &Cx) -> Answer<SessionEnd> {
        let mut entries: Vec<_> = ev.entries.iter().cloned().map(EntryKind::Custom).collect();
        entries.push(EntryKind::RunEnd { run_id: ev.run_id.clone(), status: ev.status });
        self.write(redacted(entries, cx), Durability::Process).await?;
        Ok(None)
    }
}
