pub(crate) mod error;

use std::fmt;
use std::ops::ControlFlow;

use async_trait::async_trait;
use zk_agent::Agent;
use zk_core::kernel::Bus;
use zk_core::model::AgentError;
use zk_core::service::{Job, LegEnd, NewSession, SessionStore, StoreError};
use zk_session::ConversationSession;

use self::error::LegSessionError;
use crate::agent_legs::{LegAgent, leg_end_of};
use crate::workspaces::{LegFiles, LegPlace, LegPlaces, WorkspaceName};

/// Returns the place of the job's leg: the directory of its session, or what its workspace names. A run of a schedule
/// begins with a copy of its template.
///
/// # Errors
/// [`LegSessionError`], with which the leg ends.
pub async fn leg_place(
    store: &dyn SessionStore,
    job: &Job,
    places: &LegPlaces,
) -> Result<LegPlace, LegSessionError> {
    if let WorkspaceName::OnHost(host) = WorkspaceName::of(job)
        && places.host.as_ref().is_none_or(|own| own.as_name() != host)
    {
        return Err(LegSessionError::OtherHost(host.clone()));
    }
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
    match WorkspaceName::of(job) {
        WorkspaceName::Kept => {
            let kept = places.kept.as_ref().ok_or(LegSessionError::NoStore)?;
            Ok(LegPlace::Kept(kept.open(store, job).await?))
        }
        WorkspaceName::Named(workspace) => {
            let found = places.named.get(workspace).cloned();
            found.map(LegPlace::Directory).ok_or_else(|| LegSessionError::NoWorkspace(workspace.clone()))
        }
        WorkspaceName::OfSession | WorkspaceName::OnHost(_) if cwd.is_dir() => Ok(LegPlace::Directory(cwd)),
        WorkspaceName::OfSession | WorkspaceName::OnHost(_) => Err(LegSessionError::NoDirectory(cwd)),
    }
}

/// Agent of a leg with its bus and its session.
pub struct SessionLeg {
    agent: Agent,
    bus: Bus,
    session: ConversationSession,
    files: Option<LegFiles>,
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
        Self { agent, bus, session, files: None, log: Box::new(log) }
    }

    /// Sets the files of the leg, which it gives back when it is closed.
    #[must_use]
    pub fn with_files(self, files: LegFiles) -> Self {
        Self { files: Some(files), ..self }
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
        if let (Some(files), LegEnd::Done(_) | LegEnd::Failed(_)) = (&self.files, leg_end_of(ended)) {
            files.end();
        }
    }

    async fn close(self: Box<Self>) {
        self.agent.close().await;
        self.bus.close().await;
        if let Err(error) = self.session.close().await {
            (self.log)(&format!("session not saved: {error}"));
        }
        if let Some(line) = match &self.files {
            Some(files) => files.close().await,
            None => None,
        } {
            (self.log)(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use zk_core::model::Message;
    use zk_core::service::{Durability, EngineName, EntryKind, HandoverCause, LegFailure, Wait};
    use zk_session::MemoryStore;

    use super::*;
    use crate::workspaces::{HostName, KEPT_WORKSPACE};

    #[tokio::test]
    async fn a_leg_without_its_session_says_why_and_how_it_ends() {
        let store = MemoryStore::new();
        let name = |text| EngineName::new(text).unwrap();
        let job = Job::new("r-1".into(), "s-1".into()).unwrap();
        let nothing = LegPlaces::default();
        let missing = leg_place(&store, &job, &nothing).await.unwrap_err();
        assert_eq!(missing.end(), LegEnd::Failed(LegFailure::NoSession));
        let new = NewSession { id: Some("s-1".into()), cwd: "/no/such/directory".into(), parent: None };
        let message =
            EntryKind::Message { message: Message::injected("hello", "test").shared(), usage: None };
        let open = store.create(new).await.unwrap();
        open.append(vec![message], Durability::Process).await.unwrap();
        let gone = leg_place(&store, &job, &nothing).await.unwrap_err();
        assert_eq!(gone.to_string(), "the directory /no/such/directory of its session is not here");
        let named = BTreeMap::from([(name("main"), PathBuf::from("/srv"))]);
        let host = Some(HostName::new("here").unwrap());
        let there = LegPlaces { named, host, kept: None };
        let pinned = job.clone().with_workspace(name("host:elsewhere"));
        let refused = leg_place(&store, &pinned, &there).await.unwrap_err();
        assert_eq!(refused.end(), LegEnd::Handover(HandoverCause::OtherHost), "{refused}");
        assert!(refused.to_string().contains("host:elsewhere"), "{refused}");
        let pinned = job.clone().with_workspace(name("host:here"));
        let gone = leg_place(&store, &pinned, &there).await.unwrap_err();
        assert_eq!(gone.end(), LegEnd::Failed(LegFailure::NoDirectory));
        let kept = job.clone().with_workspace(name(KEPT_WORKSPACE));
        let no_store = leg_place(&store, &kept, &there).await.unwrap_err();
        assert_eq!(no_store.end(), LegEnd::Failed(LegFailure::NoFiles));
        let job = job.with_workspace(name("main"));
        assert_eq!(leg_place(&store, &job, &there).await.unwrap().directory(), PathBuf::from("/srv"));
        let unknown = leg_place(&store, &job, &nothing).await.unwrap_err();
        assert_eq!(unknown.end(), LegEnd::Failed(LegFailure::NoWorkspace(name("main"))));
        let busy = LegSessionError::from(StoreError::Failed("busy".into()));
        assert!(matches!(busy.end(), LegEnd::Parked(Wait::Until(_))), "{busy}");
        assert!(busy.to_string().ends_with("it is tried again in 10 s"), "{busy}");
    }
}
