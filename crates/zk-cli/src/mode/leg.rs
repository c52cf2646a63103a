//! Agents of a worker: a leg opens its session under the lease, in the directory and with the preset that its job names.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use zk_agent::Agent;
use zk_chat::{LaunchRequest, LaunchSession};
use zk_core::kernel::Bus;
use zk_core::model::AgentError;
use zk_core::service::{
    EngineName, HandoverCause, Job, Lease, LegEnd, LegFailure, NewSession, SessionStore, StoreError, Wait,
};
use zk_engine::{LegAgent, LegOpener};
use zk_session::OpeningError;
use zk_tui::Style;
use zk_tui::plain::SharedScreen;

use super::Launcher;
use super::summary;
use crate::app::AppContext;
use crate::compose::backends::Answering;
use crate::compose::{self, HostOptions};
use crate::exit::{Failure, Outcome};
use crate::sessions::{self, Session};

/// Pause before the next leg of a run whose session cannot be opened now, such as one that a person has attached to.
const STORE_PAUSE: Duration = Duration::from_secs(10);

/// Opener of the agents of a worker's legs.
pub(crate) struct WorkerAgents {
    launcher: Launcher,
    app: AppContext,
    workspaces: BTreeMap<EngineName, PathBuf>,
    log: SharedScreen,
}

impl WorkerAgents {
    /// Opener with the workspaces that this worker has by name.
    pub(crate) fn new(app: AppContext, workspaces: BTreeMap<EngineName, PathBuf>, log: SharedScreen) -> Self {
        Self { launcher: Launcher::new(app.clone()), app, workspaces, log }
    }

    fn log(&self, job: &Job, text: &str) {
        self.log.line(Style::PLAIN, &format!("zk: {}: {text}", job.run()));
    }

    /// Logs the reason, and returns the end of the leg.
    fn fail(&self, job: &Job, why: &str, failure: LegFailure) -> LegEnd {
        self.log(job, why);
        LegEnd::Failed(failure)
    }

    /// Directory of the job's session; a run of a schedule begins with a copy of its template.
    async fn directory(&self, store: &dyn SessionStore, job: &Job) -> Result<PathBuf, LegEnd> {
        let nothing = || Box::new(|_, _| ControlFlow::Break(()));
        let mut scanned = store.scan(job.session(), nothing()).await;
        if let (Err(StoreError::NotFound { .. }), Some(template)) = (&scanned, job.template()) {
            let copied = async {
                let read = store.read(template).await?;
                let new = NewSession {
                    id: Some(job.session().clone()),
                    cwd: read.info.cwd,
                    parent: Some(template.clone()),
                };
                store.restore(new, read.entries).await
            };
            if let Err(error) = copied.await {
                return Err(self.store_failed(job, &error));
            }
            scanned = store.scan(job.session(), nothing()).await;
        }
        let cwd = scanned.map_err(|error| self.store_failed(job, &error))?.info.cwd;
        match job.workspace() {
            Some(workspace) => self.workspaces.get(workspace).cloned().ok_or_else(|| {
                let why = format!(
                    "there is no workspace `{workspace}`: start the worker with --workspace {workspace}=DIR"
                );
                self.fail(job, &why, LegFailure::NoWorkspace(workspace.clone()))
            }),
            None if cwd.is_dir() => Ok(cwd),
            None => {
                let why = format!("the directory {} of its session is not here", cwd.display());
                Err(self.fail(job, &why, LegFailure::NoDirectory))
            }
        }
    }

    fn store_failed(&self, job: &Job, error: &StoreError) -> LegEnd {
        match error {
            StoreError::Fenced { .. } => {
                self.log(job, "another worker has it under a newer lease");
                LegEnd::Handover(HandoverCause::Fenced)
            }
            StoreError::TooNew { .. } => {
                self.log(job, &error.to_string());
                LegEnd::Handover(HandoverCause::TooNew)
            }
            StoreError::InUse { .. } | StoreError::Io { .. } | StoreError::Failed(_) => {
                self.log(job, &format!("{error}; it is tried again in {} s", STORE_PAUSE.as_secs()));
                LegEnd::Parked(Wait::Until(SystemTime::now() + STORE_PAUSE))
            }
            StoreError::NotFound { .. } => self.fail(job, &error.to_string(), LegFailure::NoSession),
            StoreError::Damaged { .. }
            | StoreError::NoEntry { .. }
            | StoreError::PostedBefore { .. }
            | StoreError::Refused(_) => self.fail(job, &error.to_string(), LegFailure::Session),
        }
    }

    /// Settings of the job's directory, with its preset.
    fn app_of(&self, job: &Job, cwd: &Path) -> Result<AppContext, LegEnd> {
        let request = |preset: Option<&EngineName>| LaunchRequest {
            cwd: Some(cwd.to_owned()),
            session: LaunchSession::Stored(job.session().to_string()),
            settings: preset.iter().map(|name| ("preset".to_owned(), name.as_str().into())).collect(),
            ..LaunchRequest::default()
        };
        let read = |preset| {
            let app = self.launcher.app_of(&request(preset))?;
            app.settings.check_preset(&app.work.project)?;
            Ok::<_, Failure>(app)
        };
        match (read(job.preset()), job.preset()) {
            (Ok(app), _) => Ok(app),
            // Only the preset cannot be used.
            (Err(failure), Some(preset)) if read(None).is_ok() => {
                Err(self.fail(job, &failure.to_string(), LegFailure::NoPreset(preset.clone())))
            }
            (Err(failure), _) => Err(self.fail(job, &failure.to_string(), LegFailure::Start)),
        }
    }

    /// Puts the agent together; everything that was opened is closed when that fails.
    async fn agent(&self, app: &AppContext, session: &Session) -> Outcome<(Agent, Bus)> {
        let used = session.loaded.model.as_ref().map(|model| &*model.provider);
        let answering = Answering::find(app, used, app.endpoint()).await?;
        let bus = compose::bus(app, session, HostOptions::unattended(&app.settings)).await?;
        let built = async {
            let provider = answering.provider(&bus, &app.settings).await?;
            answering.tell_unenforced(&bus, &app.work.machine.notices);
            let model = answering.model(app, &*provider, session, false).await?;
            compose::agent(app, &bus, provider.clone(), model, session, summary::run_error)
        };
        match built.await {
            Ok(agent) => Ok((agent, bus)),
            Err(failure) => {
                bus.close().await;
                Err(failure)
            }
        }
    }
}

#[async_trait]
impl LegOpener for WorkerAgents {
    async fn open(&self, job: &Job, lease: &Lease) -> Result<Box<dyn LegAgent>, LegEnd> {
        let store = sessions::store(&self.app.work.machine)
            .map_err(|failure| self.fail(job, &failure.to_string(), LegFailure::Session))?;
        let cwd = self.directory(&store, job).await?;
        let app = self.app_of(job, &cwd)?;
        let place = sessions::place(&app.work, &app.settings);
        let session = match place.begin_leg(job.session(), job.run(), lease).await {
            Ok(session) => session,
            Err(OpeningError::Store(error)) => return Err(self.store_failed(job, &error)),
            Err(error) => return Err(self.fail(job, &error.to_string(), LegFailure::Session)),
        };
        match Box::pin(self.agent(&app, &session)).await {
            Ok((agent, bus)) => {
                self.log(job, &format!("leg with token {} begins", lease.token()));
                Ok(Box::new(WorkerLeg { agent, bus, session, log: self.log.clone() }))
            }
            Err(failure) => {
                // The reason is reported, not an error of closing.
                let _ = session.close().await;
                Err(self.fail(job, &failure.to_string(), LegFailure::Start))
            }
        }
    }
}

/// Agent of a leg with its session.
struct WorkerLeg {
    agent: Agent,
    bus: Bus,
    session: Session,
    log: SharedScreen,
}

#[async_trait]
impl LegAgent for WorkerLeg {
    fn agent(&self) -> &Agent {
        &self.agent
    }

    fn report(&self, job: &Job, ended: &Result<(), AgentError>) {
        let text = match ended {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        self.log.line(Style::PLAIN, &format!("zk: {}: {text}", job.run()));
    }

    async fn close(self: Box<Self>) {
        self.agent.close().await;
        self.bus.close().await;
        if let Err(error) = self.session.close().await {
            self.log.line(Style::PLAIN, &format!("zk: session not saved: {error}"));
        }
    }
}
