//! Agents of a worker: a leg opens its session under the lease, in the directory and with the preset that its job names.

use std::path::Path;

use async_trait::async_trait;
use zk_chat::{LaunchRequest, LaunchSession};
use zk_core::service::{EngineName, Job, Lease, LegEnd, LegFailure};
use zk_engine::{LegAgent, LegOpener, LegPlace, LegPlaces, LegSessionError, SessionLeg, leg_place};
use zk_session::OpeningError;
use zk_tui::Style;
use zk_tui::plain::SharedScreen;

use super::{Launcher, unattended};
use crate::app::AppContext;
use crate::compose::HostOptions;
use crate::exit::Failure;
use crate::sessions;

/// Opener of the agents of a worker's legs.
pub(crate) struct WorkerAgents {
    launcher: Launcher,
    app: AppContext,
    places: LegPlaces,
    log: SharedScreen,
}

impl WorkerAgents {
    /// Opener with the places that this worker has for legs.
    pub(crate) fn new(app: AppContext, places: LegPlaces, log: SharedScreen) -> Self {
        Self { launcher: Launcher::new(app.clone()), app, places, log }
    }

    fn log(&self, job: &Job, text: &str) {
        self.log.line(Style::PLAIN, &format!("zk: {}: {text}", job.run()));
    }

    /// Logs the reason, and returns the end of the leg.
    fn fail(&self, job: &Job, why: &str, failure: LegFailure) -> LegEnd {
        self.log(job, why);
        LegEnd::Failed(failure)
    }

    /// Logs the reason for which the leg has no session, and returns its end.
    fn refuse(&self, job: &Job, error: &LegSessionError) -> LegEnd {
        let next = match error {
            LegSessionError::NoWorkspace(name) => format!(": start the worker with --workspace {name}=DIR"),
            LegSessionError::NoStore => {
                ": give it the setting `fleet.workspaces` of the submitter".to_owned()
            }
            LegSessionError::Files(error) if error.is_temporary() => "; it is tried again soon".to_owned(),
            LegSessionError::Store(_)
            | LegSessionError::NoFiles
            | LegSessionError::Files(_)
            | LegSessionError::OtherHost(_)
            | LegSessionError::NoDirectory(_) => String::new(),
        };
        self.log(job, &format!("{error}{next}"));
        error.end()
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
}

#[async_trait]
impl LegOpener for WorkerAgents {
    async fn open(&self, job: &Job, lease: &Lease) -> Result<Box<dyn LegAgent>, LegEnd> {
        let store = sessions::store(&self.app.work.machine)
            .map_err(|failure| self.fail(job, &failure.to_string(), LegFailure::Session))?;
        let leg_place = leg_place(&*store, job, &self.places).await;
        let leg_place = leg_place.map_err(|error| self.refuse(job, &error))?;
        let app = self.app_of(job, leg_place.directory())?;
        if let LegPlace::Kept(files) = &leg_place
            && app.work.project != app.work.cwd
        {
            let (dir, project) = (files.directory().display(), app.work.project.display());
            let why = format!(
                "{dir} is within the repository {project}: set ZK_HOME or XDG_STATE_HOME to a place outside"
            );
            return Err(self.fail(job, &why, LegFailure::Start));
        }
        if matches!(leg_place, LegPlace::Kept(_)) && app.settings.context().is_on_another_machine() {
            let why = "its commands would run on another machine, whose files are not kept: submit it without `--keep`, or with another preset";
            return Err(self.fail(job, why, LegFailure::Start));
        }
        let place = sessions::place(&app.work, &app.settings);
        let session = match place.begin_leg(job.session(), job.run(), lease).await {
            Ok(session) => session,
            Err(OpeningError::Store(error)) => return Err(self.refuse(job, &error.into())),
            Err(error) => return Err(self.fail(job, &error.to_string(), LegFailure::Session)),
        };
        let host = HostOptions { lease: Some(lease.clone()), ..HostOptions::unattended(&app.settings) };
        let opened = Box::pin(unattended::open(&app, &session, host)).await;
        let (agent, bus) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                // The reason is reported, not an error of closing.
                let _ = session.close().await;
                return Err(self.fail(job, &failure.to_string(), LegFailure::Start));
            }
        };
        self.log(job, &format!("leg with token {} begins", lease.token()));
        let log = self.log.clone();
        let log = move |text: &str| log.line(Style::PLAIN, &format!("zk: {text}"));
        let files = match leg_place {
            LegPlace::Directory(_) => None,
            LegPlace::Kept(files) => Some(files),
        };
        let begun = match (&files, &session.open) {
            (Some(files), Some(open)) => files.begin(&*store, &**open, job, &bus, log.clone()).await,
            (Some(_), None) | (None, _) => Ok(()),
        };
        let leg = SessionLeg::new(agent, bus, session, log);
        if let Err(error) = begun {
            Box::new(leg).close().await;
            return Err(self.refuse(job, &error));
        }
        Ok(Box::new(match files {
            Some(files) => leg.with_files(files),
            None => leg,
        }))
    }
}
