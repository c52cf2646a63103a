//! The engine on a bus, and its readers.

mod host;
mod reader;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use zk_core::events::{
    SessionBeforeEnd, SessionEnd, SpawnComplete, SpawnError, StreamText, ToolResultsAfter,
};
use zk_core::kernel::{AnyEvent, BoxError, Cx, Event, HookOptions, Origin, Plugin, Reach, Scope, Stage};
use zk_core::service::{Entry, FrontEnd, NewEntry, Questions, SessionLog};

pub use self::reader::{Drained, Reader};

use self::reader::Backlog;
use crate::engine::events::with_events;
use crate::record::SOURCE;
use crate::{
    BlockId, Effect, Engine, EngineInput, EngineOutput, Intent, JobRow, Kept, Lines, NoteLevel,
    ObservedEvent, Patch, View,
};

/// View of one bus: a plugin that reduces events, answers questions and feeds readers. Clones share the view.
/// After the bus is closed, it can be installed on another bus for the same conversation.
///
/// The view includes the events of sub-agents. Its record of a run is the entry at `session:before-end`, from
/// which [`rebuild`](crate::rebuild) restores the blocks.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use zk_core::events::StreamText;
/// use zk_core::kernel::Bus;
/// use zk_view::{View, ViewDriver};
///
/// let (bus, driver) = (Bus::new(), ViewDriver::new());
/// bus.install(&driver).unwrap();
/// let mut reader = driver.reader();
/// bus.cx().emit(StreamText { turn_id: "t".into(), delta: "Hello.".into() }).await.unwrap();
///
/// let mut view = View::default();
/// reader.next().await.unwrap().iter().for_each(|patch| view.apply(patch));
/// assert_eq!(view, driver.view());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct ViewDriver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    began: Instant,
    /// Signal that a run began, for the timer.
    running: Notify,
    /// Signal that there are new effects.
    effects: Notify,
    answering: Option<Answering>,
    /// Lock held while an entry is stored, so that no record is stored twice.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Answering {
    questions: Questions,
    front_end: FrontEnd,
    /// Lock held by the task that follows the questions, so that there is only one.
    following: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    engine: Engine,
    readers: Vec<Backlog>,
    last_reader: u64,
    effects: VecDeque<Effect>,
    /// Whether the host is still working on the last effect it took.
    in_hand: bool,
    ticking: bool,
    closed: bool,
    /// Number of registrations on a bus; the clean-up of the newest one closes the view.
    registrations: u64,
    /// Streamed text that the engine has not reduced yet: it waits until a reader reads, or another event
    /// arrives.
    text: Option<StreamText>,
    /// Whether the last event was streamed text, so that more text can be appended to it.
    streams: bool,
}

/// Maximum size of unreduced streamed text, in bytes.
const MAX_GATHERED: usize = 16 * 1024;

impl State {
    /// Adds streamed text to the pending piece. Returns false if the engine has to reduce it at once.
    fn append_stream_text(&mut self, event: &dyn AnyEvent, origin: &Origin) -> bool {
        let Some(piece) = event.as_any().downcast_ref::<StreamText>().filter(|_| origin.depth == 0) else {
            self.streams = false;
            return false;
        };
        if !std::mem::replace(&mut self.streams, true) {
            return false;
        }
        match &mut self.text {
            Some(text) if text.turn_id != piece.turn_id || text.delta.len() >= MAX_GATHERED => return false,
            Some(text) => text.delta.push_str(&piece.delta),
            None => {
                self.text = Some(piece.clone());
                self.readers.iter().for_each(Backlog::wake);
            }
        }
        true
    }

    /// Reduces the pending text.
    fn reduce_pending_text(&mut self, now: u64) {
        let Some(text) = self.text.take() else { return };
        // Text causes no effects.
        let EngineOutput { patches, .. } = self
            .engine
            .apply(now, EngineInput::Event(ObservedEvent { event: &text, origin: &Origin::default() }));
        self.push_patches(&patches);
    }

    fn push_patches(&mut self, patches: &[Patch]) {
        for patch in patches {
            self.readers.iter_mut().for_each(|reader| reader.push(patch));
        }
    }
}

impl Default for ViewDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl ViewDriver {
    /// An empty view.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Creates a view that answers these questions.
    #[must_use]
    pub fn answering(questions: &Questions) -> Self {
        let (questions, front_end) = (questions.clone(), questions.attach());
        Self::with(Some(Answering { questions, front_end, following: tokio::sync::Mutex::default() }))
    }

    fn with(answering: Option<Answering>) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            began: Instant::now(),
            running: Notify::new(),
            effects: Notify::new(),
            answering,
            keeping: tokio::sync::Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Creates a reader, which first gets the complete view.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let mut state = self.shared.state();
        state.last_reader += 1;
        let id = state.last_reader;
        let backlog = Backlog::new(id);
        let wake = backlog.wake.clone();
        state.readers.push(backlog);
        Reader { shared: self.shared.clone(), id, wake }
    }

    /// Snapshot of the view.
    #[must_use]
    pub fn view(&self) -> View {
        self.shared.state().engine.view().clone()
    }

    /// Applies an intent. The results are [effects](ViewDriver::next_effect), which [`ViewDriver::drive`]
    /// carries out; a view that [answers](ViewDriver::answering) passes answers on at once.
    pub fn intent(&self, intent: &Intent) {
        self.shared.apply(EngineInput::Intent(intent));
    }

    /// Replaces the list of background commands, oldest first.
    pub fn set_jobs(&self, jobs: &[JobRow]) {
        self.shared.apply(EngineInput::Jobs(jobs));
    }

    /// Shows a notice of the program.
    pub fn note(&self, level: NoteLevel, text: &str) {
        self.shared.apply(EngineInput::Note(level, text));
    }

    /// Replaces the shown session by another one: its entries from the first to the leaf; empty for a new
    /// session. A conversation that switches emits `session:switch` instead.
    pub fn begin(&self, entries: &[Entry]) {
        self.shared.apply(EngineInput::Begin(entries));
    }

    /// Passes the lines for [`Effect::LoadBody`].
    pub fn body(&self, id: &BlockId, lines: &Lines) {
        self.shared.apply(EngineInput::Body(id, lines));
    }

    /// Waits for the next effect, which the host has to carry out.
    pub async fn next_effect(&self) -> Effect {
        loop {
            let effects = self.shared.effects.notified();
            if let Some(effect) = self.take_effect() {
                return effect;
            }
            effects.await;
        }
    }

    /// Takes the next effect, if there is one.
    #[must_use]
    pub fn take_effect(&self) -> Option<Effect> {
        let mut state = self.shared.state();
        let effect = state.effects.pop_front();
        state.in_hand = effect.is_some();
        effect
    }

    /// Whether effects are queued, or the host is still carrying out the last one.
    #[must_use]
    pub fn owes_effects(&self) -> bool {
        let state = self.shared.state();
        state.in_hand || !state.effects.is_empty()
    }

    /// Takes the next effect that satisfies `wanted`; the others stay in order.
    pub fn take_effect_where(&self, wanted: impl FnMut(&Effect) -> bool) -> Option<Effect> {
        let mut state = self.shared.state();
        let at = state.effects.iter().position(wanted)?;
        state.effects.remove(at)
    }
}

impl Plugin for ViewDriver {
    fn name(&self) -> &str {
        SOURCE
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        // The driver may have been on another bus before.
        let registration = self.shared.begin_registration();
        // Runs before other handlers, so that a handler that stops an event cannot hide it.
        let first = HookOptions { stage: Stage::Early, reach: Some(Reach::Descendants), time_limit: None };
        macro_rules! listen {
            ($($event:ident),+) => {
                $({
                    let shared = self.shared.clone();
                    scope.on_sync_at(first, move |event: &zk_core::events::$event, cx: &Cx| {
                        shared.reduce_event(event, cx.origin());
                    });
                })+
            };
        }
        with_events!(listen);
        let kept = (self.shared.clone(), scope.clone());
        scope.on_sync_at(first, move |_: &ToolResultsAfter, cx: &Cx| kept.0.join_turn(&kept.1, cx));
        scope.on_async_with(self.shared.clone(), store_run);
        let shared = self.shared.clone();
        // Runs after the handler of the session store, since a failure there ends the emit.
        scope.on_sync_at(Stage::Late, move |_: &SessionEnd, _: &Cx| {
            shared.end_storing();
        });
        let kept = (self.shared.clone(), scope.clone());
        let last = HookOptions { stage: Stage::Late, reach: Some(Reach::Descendants), time_limit: None };
        scope.on_async_with_at(last, kept.clone(), store_turn);
        scope.on_async_with_at(last, kept.clone(), store_child::<SpawnComplete>);
        scope.on_async_with_at(last, kept, store_child::<SpawnError>);
        // This clean-up runs after the tasks below have ended: clean-ups run newest first.
        let shared = self.shared.clone();
        scope.on_close(async move || shared.close(registration));
        scope.spawn(self.shared.clone().tick_while_running());
        let this = self.clone();
        scope.spawn(async move { this.follow_questions().await });
        Ok(())
    }
}

/// Stores the view's record of a finished turn, so that it survives a crash. After a failure, the record is
/// stored at the end of the run.
async fn store_turn((shared, own): &(Arc<Shared>, Scope), _: &ToolResultsAfter, cx: &Cx) {
    if cx.origin().depth > 0 {
        return shared.store_agents(own, cx).await;
    }
    if shared.end_storing() {
        return;
    }
    let _one_at_a_time = shared.keeping.lock().await;
    let entry = shared.state().engine.turn_entry();
    shared.store_entry(own, cx, entry).await;
}

/// Stores the remaining record of a run that ends.
async fn store_run(shared: &Arc<Shared>, _: &SessionBeforeEnd, _: &Cx) -> Option<NewEntry> {
    // The parts of a failed write of results are not stored.
    shared.state().engine.give_up_storing();
    // Waits for records that are being stored, so that they are not stored again.
    let _one_at_a_time = shared.keeping.lock().await;
    let mut state = shared.state();
    let (entry, kept) = state.engine.run_entry()?;
    state.engine.begin_storing(kept);
    Some(entry)
}

/// Stores the last text of a sub-agent, since its parent may wait for others.
async fn store_child<E: Event>((shared, own): &(Arc<Shared>, Scope), _: &E, cx: &Cx) {
    shared.store_agents(own, cx).await;
}

impl Shared {
    /// Stores the records of running sub-agents. After a failure, the next turn of the parent tries again.
    async fn store_agents(&self, own: &Scope, cx: &Cx) {
        let _one_at_a_time = self.keeping.lock().await;
        let entry = self.state().engine.agents_entry();
        self.store_entry(own, cx, entry).await;
    }

    /// Appends an entry to the session.
    async fn store_entry(&self, own: &Scope, cx: &Cx, entry: Option<(NewEntry, Kept)>) {
        if let (Some((entry, kept)), Some(log)) = (entry, cx.service::<dyn SessionLog>())
            && log.append(own, entry).await.is_ok()
        {
            self.state().engine.entry_is_stored(kept);
        }
    }

    /// Adds the record of a finished turn to the write that stores its results.
    fn join_turn(&self, own: &Scope, cx: &Cx) {
        // A record that is being stored may contain the same parts.
        let Ok(_one_at_a_time) = self.keeping.try_lock() else { return };
        let mut state = self.state();
        if cx.origin().depth == 0
            && let (Some((entry, kept)), Some(log)) =
                (state.engine.turn_entry(), cx.service::<dyn SessionLog>())
            && log.join_results(own, entry)
        {
            state.engine.begin_storing(kept);
        }
    }

    /// Notes that the parts which were being stored are stored; `false` if there were none.
    fn end_storing(&self) -> bool {
        self.state().engine.end_storing()
    }

    /// Locks the state, after reducing the pending text.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.reduce_pending_text(self.now());
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn reduce_event(&self, event: &dyn AnyEvent, origin: &Origin) {
        if self.lock().append_stream_text(event, origin) {
            return;
        }
        self.apply(EngineInput::Event(ObservedEvent { event, origin }));
    }

    /// Reduces one input and passes the patches to the readers without waiting.
    fn apply(&self, input: EngineInput<'_>) {
        let mut replies = Vec::new();
        {
            let mut state = self.state();
            let EngineOutput { patches, effects } = state.engine.apply(self.now(), input);
            state.push_patches(&patches);
            for effect in effects {
                match effect {
                    Effect::Reply { id, digest, answer } if self.answering.is_some() => {
                        replies.push((id, digest, answer));
                    }
                    Effect::Run { .. }
                    | Effect::Steer { .. }
                    | Effect::Abort
                    | Effect::Reply { .. }
                    | Effect::Hurry
                    | Effect::Switch { .. }
                    | Effect::Compact { .. }
                    | Effect::Command { .. }
                    | Effect::GiveBack { .. }
                    | Effect::LoadBody { .. } => {
                        state.effects.push_back(effect);
                        self.effects.notify_one();
                    }
                }
            }
            if !patches.is_empty() {
                state.readers.iter().for_each(Backlog::wake);
            }
            if state.engine.next_tick().is_some() && !state.ticking {
                state.ticking = true;
                self.running.notify_one();
            }
        }
        for (id, digest, answer) in replies {
            let Some(answering) = &self.answering else { continue };
            if let Err(error) = answering.front_end.answer(id, digest, answer) {
                self.apply(EngineInput::Note(NoteLevel::Warning, &error.to_string()));
            }
        }
    }

    /// Ticks once a second during a run; has no timer otherwise.
    async fn tick_while_running(self: Arc<Self>) {
        loop {
            self.running.notified().await;
            loop {
                let next = {
                    let mut state = self.state();
                    let next = state.engine.next_tick();
                    state.ticking = next.is_some();
                    next
                };
                let Some(next) = next else { break };
                sleep(Duration::from_millis(next)).await;
                self.apply(EngineInput::Tick);
            }
        }
    }

    /// Opens the view for a registration on a bus; returns its number.
    fn begin_registration(&self) -> u64 {
        let mut state = self.state();
        state.closed = false;
        state.registrations += 1;
        state.registrations
    }

    /// Closes the view unless there is a newer registration.
    fn close(&self, registration: u64) {
        let mut state = self.state();
        // The clock of the view ends with the bus.
        state.ticking = false;
        if state.registrations != registration {
            // The view goes on with the next bus, and so does the timer.
            if state.engine.next_tick().is_some() {
                state.ticking = true;
                self.running.notify_one();
            }
            return;
        }
        state.closed = true;
        state.readers.iter().for_each(Backlog::wake);
    }

    /// Takes the patches for reader `id`: an empty list if there are none yet, `None` at the end.
    fn take_patches(&self, id: u64) -> Option<Vec<Patch>> {
        let mut state = self.state();
        let State { engine, readers, closed, .. } = &mut *state;
        let reader = readers.iter_mut().find(|reader| reader.id == id)?;
        let patches = reader.take(|| engine.view().clone());
        if patches.is_empty() && *closed { None } else { Some(patches) }
    }
}
