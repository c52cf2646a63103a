mod handlers;
mod log;
mod redact;
mod sub_agents;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::Mutex;
use zk_core::events::{
    AgentStart, ModelSelect, SessionEnd, SessionMessages, SessionOpenTurn, SessionStart, SideCallEnd,
    ThinkingSelect, ToolBegin, ToolEnd, ToolResultsAfter, UsageUpdate,
};
use zk_core::kernel::{BoxError, Plugin, Reach, Scope};
use zk_core::model::RunId;
use zk_core::service::{Mailbox, OpenSession, SessionLog, StoreError};

use self::handlers::SubAgentUsage;
use self::log::{Log, State};
pub use self::redact::redact_entry;
use self::sub_agents::SubAgents;
use crate::Loaded;

/// Plugin that writes a run into an open session.
///
/// | event | stored entries |
/// |---|---|
/// | `session:start` | start of the run |
/// | `session:messages` | messages |
/// | `side-call:end` | usage of a plugin's model call beside the conversation, also in a sub-agent |
/// | `usage` of a sub-agent | usage of its turn |
/// | `agent:start`, `model:select`, `thinking:select` | changed model and thinking level |
/// | `session:open-turn` | answer with calls, before any call runs |
/// | `tool:begin`, `tool:end` | begin and end of a call that is not read-only; the begin is synced to disk, with the ends before it |
/// | `tool-results:after` | extra data of read-only calls, and the answer with its results, in one append; synced after calls that are not read-only |
/// | `session:end` | end of the run |
///
/// The prompt is stored before its request is sent, an answer before its calls run, and the begin of a call
/// with effects before the call: so [`load_history`](crate::load_history) knows how far each call of a killed
/// process got. A failed append stops the run; its entries are kept and written before those of the next
/// append. A message that is announced again is not stored twice.
///
/// Secrets are not stored: if the host provides a [`Redactor`](zk_core::service::Redactor), it redacts every
/// entry. The conversation in memory keeps the original text.
///
/// Of sub-agents, which spend the session's money, the usage and the text are stored: the text as it arrives, so that it
/// survives the end of the process ([`SubAgentTexts`](zk_core::service::SubAgentTexts)).
///
/// The recorder also provides [`SessionLog`], through which plugins store entries in this session, and [`Mailbox`], through
/// which a run takes the mail of the session: mail leaves the store in the append of its entries. An append under an older
/// lease ends the run at once ([`RunControl::lose_session`](zk_core::service::RunControl::lose_session)).
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

/// Part of its session that a recorder has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// All entries are stored.
    All,
    /// All entries but the last ones are stored.
    Part {
        /// Number of entries that are not stored.
        missing: usize,
    },
    /// No entry is stored.
    Nothing,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("session", self.log.session.id()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Recorder into a new session.
    #[must_use]
    pub fn new(session: Arc<dyn OpenSession>) -> Self {
        Self::resuming(session, &Loaded::default())
    }

    /// Recorder into a session that continues from `loaded`: the model and thinking level in it are not
    /// stored again.
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
                read_branch: OnceLock::new(),
            }),
        }
    }

    /// Recorder of a leg that goes on with `run`, whose start is in the session already.
    #[must_use]
    pub fn continuing(session: Arc<dyn OpenSession>, loaded: &Loaded, run: RunId) -> Self {
        let recorder = Self::resuming(session, loaded);
        recorder.log.queue().continues = Some(run);
        recorder
    }

    /// Lets a run continue without its session: if the first entries of a new session cannot be stored,
    /// `on_lost` gets the error and the run is not recorded. After the first success, a failed append stops
    /// the run as usual.
    #[must_use]
    pub fn or_without(self, on_lost: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        let _ = self.log.on_lost.set(Box::new(on_lost));
        self
    }

    /// Notes the branch of version control at the start of each run, for listings of sessions. `read` may read files.
    #[must_use]
    pub fn noting_branch(self, read: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        let _ = self.log.read_branch.set(Arc::new(read));
        self
    }

    /// Part of the session that is stored once all pending appends have ended.
    pub async fn saved(&self) -> Saved {
        let mut state = self.log.state.lock().await;
        let _ = self.log.await_appends(&mut state).await;
        match (state.stored, state.unstored.len() + self.log.queue().entries.len()) {
            (false, _) => Saved::Nothing,
            (true, 0) => Saved::All,
            (true, missing) => Saved::Part { missing },
        }
    }

    /// Whether only prompts were stored, so that [`discard_unanswered`](crate::discard_unanswered) would
    /// remove the session.
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
        // Sub-agents spend the session's money, but have no session of their own.
        scope.handle_at::<SideCallEnd, _>(Reach::Descendants, self.log.clone());
        let depth = scope.bus().map_or(0, |bus| bus.origin().depth);
        let usage = SubAgentUsage { log: self.log.clone(), depth };
        scope.handle_at::<UsageUpdate, _>(Reach::Descendants, Arc::new(usage));
        SubAgents::register(self.log.clone(), scope);
        scope.handle::<AgentStart, _>(self.log.clone());
        scope.handle::<ModelSelect, _>(self.log.clone());
        scope.handle::<ThinkingSelect, _>(self.log.clone());
        scope.handle::<SessionOpenTurn, _>(self.log.clone());
        scope.handle::<ToolBegin, _>(self.log.clone());
        scope.handle::<ToolEnd, _>(self.log.clone());
        scope.handle::<ToolResultsAfter, _>(self.log.clone());
        scope.handle::<SessionEnd, _>(self.log.clone());
        scope.provide_service::<dyn SessionLog>(self.log.clone());
        scope.provide_service::<dyn Mailbox>(self.log.clone());
        Ok(())
    }
}
