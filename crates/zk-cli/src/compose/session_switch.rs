use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Bus, Plugin, Scope};
use zk_core::model::{AgentError, EntryId, SessionId};
use zk_core::service::{
    Backend, BranchPath, ConversationError, LeftSession, OpenedSession, Provider, SessionOpener, StoreError,
    SwitchTarget,
};

use crate::app::AppContext;
use crate::args::Resume;
use crate::compose;
use crate::exit::{Failure, Outcome};
use crate::place::ExecutionTarget;
use crate::sessions::{self, Session};

/// Opener of a conversation's sessions, one after the other; each is closed when it is left.
pub(crate) struct SessionSwitch {
    app: AppContext,
    bus: Bus,
    /// Provider of the conversation's start, for sessions that used it.
    provider: Arc<dyn Provider>,
    state: Mutex<State>,
    me: Weak<Self>,
}

struct State {
    current: Arc<Session>,
    /// Storage results of sessions that were left.
    left: Vec<Result<LeftSession, StoreError>>,
}

impl SessionSwitch {
    pub(crate) fn new(app: &AppContext, bus: &Bus, provider: Arc<dyn Provider>, first: Session) -> Arc<Self> {
        let state = State { current: Arc::new(first), left: Vec::new() };
        let (app, bus) = (app.clone(), bus.clone());
        Arc::new_cyclic(|me| Self { app, bus, provider, state: Mutex::new(state), me: me.clone() })
    }

    /// Returns the current session.
    pub(crate) fn current(&self) -> Arc<Session> {
        self.state().current.clone()
    }

    /// Takes the storage results of the sessions left since the last call.
    pub(crate) fn take_left(&self) -> Vec<Result<LeftSession, StoreError>> {
        std::mem::take(&mut self.state().left)
    }

    /// Returns the plugins of the current session. Closing them closes the session.
    pub(crate) fn parts(&self) -> Outcome<Vec<Arc<dyn Plugin>>> {
        let session = self.current();
        let mut parts: Vec<Arc<dyn Plugin>> =
            vec![Arc::new(Closing { session: session.clone(), switch: self.me.clone() })];
        parts.extend(sessions::parts::session_parts(&self.app, &session)?);
        Ok(parts)
    }

    /// Returns the provider that a session used, if the conversation began with it or it is a backend's.
    fn provider_of(&self, name: &str) -> Option<Arc<dyn Provider>> {
        if name == self.provider.name() {
            return Some(self.provider.clone());
        }
        self.bus.item::<dyn Backend>(name)?.provider()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `session` the current one, and returns it for the conversation to continue.
    fn make_current(&self, session: &Arc<Session>) -> Outcome<OpenedSession> {
        let before = std::mem::replace(&mut self.state().current, session.clone());
        let plugins = self.parts().inspect_err(|_| self.state().current = before)?;
        // A model of the command line or the settings overrides the session's.
        let used = session.loaded.model.as_ref().filter(|_| self.app.settings.program.model.is_none());
        let provider = used.and_then(|model| self.provider_of(&model.provider));
        let used = used.zip(provider);
        Ok(OpenedSession {
            id: session.open.as_ref().map(|open| open.id().clone()),
            messages: session.loaded.messages.clone(),
            entries: session.take_restored().unwrap_or_default(),
            model: used.map(|(model, provider)| provider.model(&model.model)),
            thinking: session
                .loaded
                .thinking
                .filter(|_| !compose::thinking_is_overridden(&self.app.settings)),
            cwd: None,
            plugins,
        })
    }

    async fn open_target(&self, target: &SwitchTarget) -> Result<Session, ConversationError> {
        // A new session belongs to the present working directory, which may have changed.
        let mut app = self.app.clone();
        app.work.cwd = ExecutionTarget::current_dir(&self.app.work, &self.app.settings, &self.bus.cx());
        let resume = match target {
            SwitchTarget::New => None,
            SwitchTarget::Session(id) => Some(Resume::Id(id.to_string())),
            SwitchTarget::Fork(entry) => {
                let copied =
                    self.current().copy_up_to(&sessions::place(&app.work, &app.settings), entry).await;
                let copied = copied.map_err(|error| conversation_error(error.into()))?;
                Some(Resume::Id(copied.to_string()))
            }
            // The conversation moves the leaf in place instead.
            SwitchTarget::Branch(_) | SwitchTarget::Tree(_) => {
                let (what, reason) = (target.to_string(), "a branch is no session of its own".to_owned());
                return Err(ConversationError::Unsupported { what, reason });
            }
        };
        sessions::begin(&app.work, &app.settings, resume.as_ref()).await.map_err(conversation_error)
    }
}

fn conversation_error(failure: Failure) -> ConversationError {
    ConversationError::Agent(AgentError::Usage(failure.message))
}

#[async_trait]
impl SessionOpener for SessionSwitch {
    async fn open(
        &self,
        target: &SwitchTarget,
        _: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError> {
        let session = Arc::new(self.open_target(target).await?);
        match self.make_current(&session) {
            Ok(opened) => Ok(opened),
            Err(failure) => {
                // The unused session is closed; the reason was reported already.
                let _ = session.close().await;
                Err(conversation_error(failure))
            }
        }
    }

    async fn find_path(&self, to: Option<&EntryId>) -> Result<BranchPath, ConversationError> {
        self.current().find_path(to).await.map_err(|error| conversation_error(error.into()))
    }

    async fn move_leaf(
        &self,
        to: Option<&EntryId>,
        summary: Option<String>,
    ) -> Result<OpenedSession, ConversationError> {
        let place = sessions::place(&self.app.work, &self.app.settings);
        let moved = self.current().move_leaf(&place, to, summary).await;
        let moved = moved.map_err(|error| conversation_error(error.into()))?;
        self.make_current(&Arc::new(moved)).map_err(conversation_error)
    }
}

/// Closes a session when its scope closes.
struct Closing {
    session: Arc<Session>,
    switch: Weak<SessionSwitch>,
}

impl Plugin for Closing {
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
