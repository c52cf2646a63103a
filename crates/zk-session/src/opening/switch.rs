use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Bus, Plugin, Scope};
use zk_core::model::{AgentError, EntryId, SessionId};
use zk_core::service::{
    Backend, BranchPath, ConversationError, LeftSession, OpenedSession, Provider, SessionOpener, StoreError,
    SwitchTarget,
};

use super::{ConversationSession, OpeningError, SessionPlace};

/// Program whose conversation goes from one session to another.
#[async_trait]
pub trait SwitchHost: Send + Sync + 'static {
    /// Error of the program, whose text the person sees.
    type Error: fmt::Display + From<OpeningError> + Send;

    /// Returns the place of the sessions, with the present working directory.
    fn place(&self) -> SessionPlace;

    /// Opens the session with this id, or a new one in the present working directory.
    ///
    /// # Errors
    /// Errors of the program.
    async fn begin(&self, id: Option<&SessionId>) -> Result<ConversationSession, Self::Error>;

    /// Returns the plugins that belong to one session.
    ///
    /// # Errors
    /// Errors of the program.
    fn parts(&self, session: &ConversationSession) -> Result<Vec<Arc<dyn Plugin>>, Self::Error>;

    /// Whether a model was chosen for all sessions.
    fn overrides_model(&self) -> bool;

    /// Whether an amount of reasoning was chosen for all sessions.
    fn overrides_thinking(&self) -> bool;
}

/// Opener of a conversation's sessions, one after the other; each is closed when it is left.
pub struct SessionSwitch<H> {
    host: H,
    bus: Bus,
    /// Provider of the conversation's start, for sessions that used it.
    provider: Arc<dyn Provider>,
    state: Mutex<State>,
    me: Weak<Self>,
}

struct State {
    current: Arc<ConversationSession>,
    /// Storage results of sessions that were left.
    left: Vec<Result<LeftSession, StoreError>>,
}

impl<H> fmt::Debug for SessionSwitch<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSwitch").field("current", &self.state().current).finish_non_exhaustive()
    }
}

impl<H> SessionSwitch<H> {
    /// Returns the current session.
    #[must_use]
    pub fn current(&self) -> Arc<ConversationSession> {
        self.state().current.clone()
    }

    /// Takes the storage results of the sessions left since the last call.
    pub fn take_left(&self) -> Vec<Result<LeftSession, StoreError>> {
        std::mem::take(&mut self.state().left)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: SwitchHost> SessionSwitch<H> {
    /// Creates the switch of the conversation on `bus`, which begins with the session `first` and with `provider`.
    #[must_use]
    pub fn new(host: H, bus: Bus, provider: Arc<dyn Provider>, first: ConversationSession) -> Arc<Self> {
        let state = State { current: Arc::new(first), left: Vec::new() };
        Arc::new_cyclic(|me| Self { host, bus, provider, state: Mutex::new(state), me: me.clone() })
    }

    /// Returns the plugins of the current session. Closing them closes the session.
    ///
    /// # Errors
    /// Errors of the program.
    pub fn parts(&self) -> Result<Vec<Arc<dyn Plugin>>, H::Error> {
        let session = self.current();
        let mut parts: Vec<Arc<dyn Plugin>> =
            vec![Arc::new(Closing { session: session.clone(), switch: self.me.clone() })];
        parts.extend(self.host.parts(&session)?);
        Ok(parts)
    }

    /// Returns the provider that a session used, if the conversation began with it or it is a backend's.
    fn provider_of(&self, name: &str) -> Option<Arc<dyn Provider>> {
        if name == self.provider.name() {
            return Some(self.provider.clone());
        }
        self.bus.item::<dyn Backend>(name)?.provider()
    }

    /// Makes `session` the current one, and returns it for the conversation to continue.
    fn make_current(&self, session: &Arc<ConversationSession>) -> Result<OpenedSession, H::Error> {
        let before = std::mem::replace(&mut self.state().current, session.clone());
        let plugins = self.parts().inspect_err(|_| self.state().current = before)?;
        // A model of the command line or the settings overrides the session's.
        let used = session.loaded.model.as_ref().filter(|_| !self.host.overrides_model());
        let provider = used.and_then(|model| self.provider_of(&model.provider));
        let used = used.zip(provider);
        Ok(OpenedSession {
            id: session.open.as_ref().map(|open| open.id().clone()),
            messages: session.loaded.messages.clone(),
            entries: session.take_restored().unwrap_or_default(),
            model: used.map(|(model, provider)| provider.model(&model.model)),
            thinking: session.loaded.thinking.filter(|_| !self.host.overrides_thinking()),
            cwd: None,
            plugins,
        })
    }

    async fn open_target(&self, target: &SwitchTarget) -> Result<ConversationSession, ConversationError> {
        let id = match target {
            SwitchTarget::New => None,
            SwitchTarget::Session(id) => Some(id.clone()),
            SwitchTarget::Fork(entry) => {
                let copied = self.current().copy_up_to(&self.host.place(), entry).await;
                Some(copied.map_err(conversation_error::<H>)?)
            }
            // The conversation moves the leaf in place instead.
            SwitchTarget::Branch(_) | SwitchTarget::Tree(_) => {
                let (what, reason) = (target.to_string(), "a branch is no session of its own".to_owned());
                return Err(ConversationError::Unsupported { what, reason });
            }
        };
        self.host.begin(id.as_ref()).await.map_err(conversation_error::<H>)
    }
}

fn conversation_error<H: SwitchHost>(error: impl Into<H::Error>) -> ConversationError {
    ConversationError::Agent(AgentError::Usage(error.into().to_string()))
}

#[async_trait]
impl<H: SwitchHost> SessionOpener for SessionSwitch<H> {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        let session = Arc::new(self.open_target(target).await?);
        match self.make_current(&session) {
            Ok(opened) => Ok(opened),
            Err(error) => {
                // The unused session is closed; the reason was reported already.
                let _ = session.close().await;
                Err(conversation_error::<H>(error))
            }
        }
    }

    async fn find_path(&self, to: Option<&EntryId>) -> Result<BranchPath, ConversationError> {
        self.current().find_path(to).await.map_err(conversation_error::<H>)
    }

    async fn move_leaf(
        &self,
        to: Option<&EntryId>,
        summary: Option<String>,
    ) -> Result<OpenedSession, ConversationError> {
        let present = self.current();
        let moved = present.move_leaf_from(&self.host.place(), to, summary).await;
        let (moved, left) = moved.map_err(conversation_error::<H>)?;
        let error = match self.make_current(&Arc::new(moved)) {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let outcome = match present.take_leaf_back(left).await {
            Ok(()) => "the leaf is back where it was".to_owned(),
            Err(second) => format!("the leaf stays where it was moved to: {second}"),
        };
        Err(ConversationError::Agent(AgentError::Usage(format!("{error}; {outcome}"))))
    }
}

/// Closes a session when its scope closes.
struct Closing<H> {
    session: Arc<ConversationSession>,
    switch: Weak<SessionSwitch<H>>,
}

impl<H: SwitchHost> Plugin for Closing<H> {
    fn name(&self) -> &'static str {
        "session"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let (session, switch) = (self.session.clone(), self.switch.clone());
        scope.on_close(async move || {
            let closed = session.close().await;
            if let Some(switch) = switch.upgrade() {
                switch.state().left.push(closed);
            }
        });
        Ok(())
    }
}
