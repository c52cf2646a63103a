use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::Bus;
use zk_core::model::AgentError;
use zk_core::service::{
    EngineName, HandoverCause, Job, LegEnd, LegFailure, NewSession, SessionStore, StoreError, Wait,
};
use zk_session::ConversationSession;

use crate::agent_legs::LegAgent;

/// Pause before the next leg of a run whose session cannot be opened now, such as one that a person has attached to.
pub(crate) const STORE_PAUSE: Duration = Duration::from_secs(10);

/// Reason for which a leg has no session to go on with, for the log of the worker.
#[derive(Debug, thiserror::Error)]
pub enum LegSessionError {
    /// The session cannot be opened.
    #[error("{}", of_store(.0))]
    Store(#[from] StoreError),
    /// The worker has no such workspace.
    #[error("there is no workspace `{0}`")]
    NoWorkspace(EngineName),
    /// The directory of the session is not on this machine.
    #[error("the directory {0} of its session is not here")]
    NoDirectory(PathBuf),
}

fn of_store(error: &StoreError) -> String {
    match (error, end_of_store(error)) {
        (StoreError::Fenced { .. }, _) => "another worker has it under a newer lease".to_owned(),
        (_, LegEnd::Parked(_)) => format!("{error}; it is tried again in {} s", STORE_PAUSE.as_secs()),
        _ => error.to_string(),
    }
}

fn end_of_store(error: &StoreError) -> LegEnd {
    match error {
        StoreError::Fenced { .. } => LegEnd::Handover(HandoverCause::Fenced),
        StoreError::TooNew { .. } => LegEnd::Handover(HandoverCause::TooNew),
        StoreError::InUse { .. } | StoreError::Io { .. } | StoreError::Failed(_) => {
            LegEnd::Parked(Wait::Until(SystemTime::now() + STORE_PAUSE))
        }
        StoreError::NotFound { .. } => LegEnd::Failed(LegFailure::NoSession),
        StoreError::Damaged { .. }
        | StoreError::NoEntry { .. }
        | StoreError::PostedBefore { .. }
        | StoreError::Refused(_) => LegEnd::Failed(LegFailure::Session),
    }
}

impl LegSessionError {
    /// Returns the end of the leg.
    #[must_use]
    pub fn end(&self) -> LegEnd {
        match self {
            Self::Store(error) => end_of_store(error),
            Self::NoWorkspace(workspace) => LegEnd::Failed(LegFailure::NoWorkspace(workspace.clone())),
            Self::NoDirectory(_) => LegEnd::Failed(LegFailure::NoDirectory),
        }
    }
}

/// Returns the directory of the job's session, of `workspaces` if the job names one. A run of a schedule begins with a
/// copy of its template.
///
/// # Errors
/// [`LegSessionError`], with which the leg ends.
pub async fn session_directory(
    store: &dyn SessionStore,
    job: &Job,
    workspaces: &BTreeMap<EngineName, PathBuf>,
) -> Result<PathBuf, LegSessionError> {
    let nothing = || Box::new(|_, _| ControlFlow::Break(()));
    let mut scanned = store.scan(job.session(), nothing()).await;
    if let (Err(StoreError::NotFound { .. }), Some(template)) = (&scanned, job.template()) {
        let read = store.read(template).await?;
        let new = NewSession {
            id: Some(job.session().clone()),
            cwd: read.info.cwd,
            parent: Some(template.clone()),
        };
        store.restore(new, read.entries).await?;
        scanned = store.scan(job.session(), nothing()).await;
    }
    let cwd = scanned?.info.cwd;
    match job.workspace() {
        Some(workspace) => {
            let found = workspaces.get(workspace).cloned();
            found.ok_or_else(|| LegSessionError::NoWorkspace(workspace.clone()))
        }
        None if cwd.is_dir() => Ok(cwd),
        None => Err(LegSessionError::NoDirectory(cwd)),
    }
}

/// Agent of a leg with its bus and its session.
pub struct SessionLeg {
    agent: Agent,
    bus: Bus,
    session: ConversationSession,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for SessionLeg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLeg").field("session", &self.session).finish_non_exhaustive()
    }
}

impl SessionLeg {
    /// Creates the leg of `agent` on `bus`; `log` writes a line into the log of the worker.
    #[must_use]
    pub fn new(
        agent: Agent,
        bus: Bus,
        session: ConversationSession,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self { agent, bus, session, log: Box::new(log) }
    }
}

#[async_trait]
impl LegAgent for SessionLeg {
    fn agent(&self) -> &Agent {
        &self.agent
    }

    fn report(&self, job: &Job, ended: &Result<(), AgentError>) {
        let text = match ended {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        (self.log)(&format!("{}: {text}", job.run()));
    }

    async fn close(self: Box<Self>) {
        self.agent.close().await;
        self.bus.close().await;
        if let Err(error) = self.session.close().await {
            (self.log)(&format!("session not saved: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::Message;
    use zk_core::service::{Durability, EntryKind};
    use zk_session::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_leg_without_its_session_says_why_and_how_it_ends() {
        let store = MemoryStore::new();
        let name = |text| EngineName::new(text).unwrap();
        let job = Job::new("r-1".into(), "s-1".into()).unwrap();
        let missing = session_directory(&store, &job, &BTreeMap::new()).await.unwrap_err();
        assert_eq!(missing.end(), LegEnd::Failed(LegFailure::NoSession));
        let new = NewSession { id: Some("s-1".into()), cwd: "/no/such/directory".into(), parent: None };
        let message =
            EntryKind::Message { message: Message::injected("hello", "test").shared(), usage: None };
        let open = store.create(new).await.unwrap();
        open.append(vec![message], Durability::Process).await.unwrap();
        let gone = session_directory(&store, &job, &BTreeMap::new()).await.unwrap_err();
        assert_eq!(gone.to_string(), "the directory /no/such/directory of its session is not here");
        let there = BTreeMap::from([(name("main"), PathBuf::from("/srv"))]);
        let job = job.with_workspace(name("main"));
        assert_eq!(session_directory(&store, &job, &there).await.unwrap(), PathBuf::from("/srv"));
        let unknown = session_directory(&store, &job, &BTreeMap::new()).await.unwrap_err();
        assert_eq!(unknown.end(), LegEnd::Failed(LegFailure::NoWorkspace(name("main"))));
        let busy = LegSessionError::from(StoreError::Failed("busy".into()));
        assert!(matches!(busy.end(), LegEnd::Parked(Wait::Until(_))), "{busy}");
        assert!(busy.to_string().ends_with("it is tried again in 10 s"), "{busy}");
    }
}
