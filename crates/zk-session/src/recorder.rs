mod handlers;
mod log;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::Mutex;
use zk_core::events::{
    AgentStart, ModelSelect, SessionEnd, SessionMessages, SessionOpenTurn, SessionStart, SideCallEnd,
    ThinkingSelect, ToolBegin, ToolEnd, ToolResultsAfter,
};
use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{OpenSession, SessionLog, StoreError};

use self::log::{Log, State};
use crate::Loaded;

/// The plugin that writes a run into an open session.
///
/// | event | entries |
/// |---|---|
/// | `session:start` | the run's start |
/// | `session:messages` | the messages |
/// | `side-call:end` | what a plugin used that asked a model beside the conversation |
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
/// Secrets are not stored: where the host offers a [`Redactor`](zk_core::service::Redactor), every entry goes
/// through it first. The conversation in memory keeps what the person typed.
///
/// Sub-agents are not recorded: each has a session of its own.
///
/// The recorder also offers [`SessionLog`], through which plugins keep entries of their own in this session.
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

/// Extent to which a recorder has stored its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Everything it was given.
    All,
    /// Everything up to some entry: this many more are not stored.
    Part {
        /// Number of entries that are not stored.
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
        let (state, queue) = (Mutex::new(state), std::sync::Mutex::default());
        Self {
            log: Arc::new(Log {
                session,
                earlier: loaded.earlier.clone(),
                state,
                queue,
                on_lost: OnceLock::new(),
            }),
        }
    }

    /// This recorder, for a run that is worth more than its session: when the first entries of a new session
    /// cannot be stored, `on_lost` is told why and the run goes on unrecorded. Once something was stored, an
    /// append that fails stops the run as ever.
    #[must_use]
    pub fn or_without(self, on_lost: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        let _ = self.log.on_lost.set(Box::new(on_lost));
        self
    }

    /// Returns how much of the session is stored now, after everything that is being written.
    pub async fn saved(&self) -> Saved {
        let mut state = self.log.state.lock().await;
        let _ = self.log.settle(&mut state).await;
        match (state.stored, state.unstored.len() + self.log.queue().entries.len()) {
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
        scope.handle::<SideCallEnd, _>(self.log.clone());
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
