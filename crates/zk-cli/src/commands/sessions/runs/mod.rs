//! Runs that outlive their worker: submitting, listing, watching and deciding.

mod change;
mod decide;
mod files;
mod list;
mod place;
mod question;
mod schedule;
mod top;
mod watch;

use std::sync::Arc;

use zk_core::service::{Engine, EngineError, EngineName};
use zk_engine::{EngineLocation, LocalEngine, Runs, RunsError};
use zk_exec::LocalStateFiles;

use crate::app::{AppContext, Machine, runtime};
use crate::commands::print;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::sessions;

pub(crate) use change::{raise, retry};
pub(crate) use decide::{abort, answer, approve, drain, steer};
pub(crate) use files::{bring_files, host_name, kept_workspaces};
pub(crate) use list::{list, overview};
pub(crate) use place::{attach, handoff, submit};
pub(crate) use schedule::schedule;
pub(crate) use top::top;
pub(crate) use watch::watch;

impl Explain for EngineError {
    fn exit(&self) -> Exit {
        match self {
            Self::InvalidName { .. } | Self::UnknownRun(_) | Self::OtherJob(_) | Self::NameTaken(_) => {
                Exit::Usage
            }
            Self::Finished { .. }
            | Self::SessionTaken { .. }
            | Self::TooNew { .. }
            | Self::Full { .. }
            | Self::Lost { .. }
            | Self::Damaged { .. }
            | Self::Failed { .. } => Exit::Failed,
        }
    }
}

impl Explain for RunsError {
    fn exit(&self) -> Exit {
        match self {
            Self::Engine(error) => error.exit(),
            Self::Unknown(_) | Self::Ambiguous { .. } | Self::NoPrompt | Self::NothingToDo(_) => Exit::Usage,
            Self::Store(_) | Self::NotParked { .. } | Self::NotFailed { .. } | Self::Answer(_) => {
                Exit::Failed
            }
        }
    }

    fn explain(&self) -> String {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } => format!("{self}; `zk fleet ls` lists them"),
            Self::NothingToDo(_) => format!("{self}: `zk handoff \"what to do next\"`"),
            Self::Engine(EngineError::SessionTaken { run, .. }) => {
                format!("{self}: `zk fleet abort {run}`, or `zk fleet steer {run} TEXT`")
            }
            Self::Engine(_)
            | Self::Store(_)
            | Self::NoPrompt
            | Self::NotParked { .. }
            | Self::NotFailed { .. }
            | Self::Answer(_) => self.to_string(),
        }
    }
}

/// The engine of this machine.
fn local_engine(machine: &Machine) -> Outcome<LocalEngine> {
    let no_place = || Failure::usage("there is no place for runs: set HOME or ZK_HOME");
    let dir = machine.dirs.engine().ok_or_else(no_place)?;
    Ok(LocalEngine::new(dir, Arc::new(LocalStateFiles::new(machine.host_files.clone()))))
}

/// The engine that the settings name.
pub(crate) fn engine(machine: &Machine) -> Outcome<Arc<dyn Engine>> {
    Ok(match machine.engine.remote()? {
        Some((address, kind)) => kind.open(address)?,
        None => Arc::new(local_engine(machine)?),
    })
}

/// Name of the engine's place in messages, without credentials.
pub(crate) fn engine_name(machine: &Machine) -> Outcome<String> {
    Ok(match machine.engine.location() {
        EngineLocation::Local => local_engine(machine)?.path().display().to_string(),
        location @ EngineLocation::Remote(_) => location.to_string(),
    })
}

/// Prepares the server of the engine that the settings name.
pub(crate) fn set_up(machine: &Machine) -> Outcome<Exit> {
    let done = match machine.engine.remote()? {
        Some((address, kind)) => runtime()?.block_on(kind.set_up(address))?,
        None => {
            "the engine of this machine needs no preparation; `fleet.engine` names another one".to_owned()
        }
    };
    print(machine, &[done])
}

/// The runs of this user, with the store of their sessions.
pub(crate) fn runs(machine: &Machine) -> Outcome<Runs> {
    let store = sessions::store(machine)?.into_inner();
    Ok(Runs::new(engine(machine)?, store, machine.redactor.clone()))
}

/// Parses a name on the command line, such as a queue's.
pub(crate) fn name(text: &str) -> Outcome<EngineName> {
    Ok(EngineName::new(text)?)
}

/// Returns the preset of the command line as a name for the worker.
fn preset(app: &AppContext) -> Outcome<Option<EngineName>> {
    let given = app.settings.given_presets();
    match given.as_slice() {
        [] => Ok(None),
        [one] => name(one).map(Some),
        _ => Err(Failure::usage("a run has one preset: name one with --preset")),
    }
}
