//! Execution of a conversation's commands in a container or on another machine, with its files there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope};
use zk_core::service::{Exec, Files, TurnCwd};
use zk_exec::{
    ContextName, DockerExec, DockerOptions, Environment, Limits, OverlaidFiles, Remote, RemoteError,
    SshTarget, SshTunnel, WorkspaceFiles,
};

use crate::app::{AppContext, Machine, Shared, Workplace};
use crate::exit::{Failure, Outcome};
use crate::sandbox;
use crate::settings::Settings;

/// Place of commands and files: this machine, a container or another machine.
pub(crate) enum ExecutionTarget {
    Here,
    Docker(Arc<DockerExec>),
    /// Another machine, with the limits of each command.
    Remote(Remote, Limits),
}

impl ExecutionTarget {
    /// Connects to the configured place.
    pub(crate) fn of(app: &AppContext) -> Outcome<Self> {
        Ok(match app.settings.context() {
            ContextName::Process | ContextName::Sandbox => Self::Here,
            ContextName::Docker(image) => {
                let exec = DockerExec::new(docker(&app.work, &app.settings, image));
                exec.check().map_err(Failure::failed)?;
                Self::Docker(Arc::new(exec))
            }
            ContextName::Remote(socket) => {
                Self::Remote(Remote::connect(socket).map_err(Failure::failed)?, app.settings.limits.limits())
            }
            ContextName::Ssh(host) => Self::Remote(
                connect_over_ssh(&app.work.machine, &app.shared, &host)?,
                app.settings.limits.limits(),
            ),
        })
    }

    /// Returns the working directory of a conversation.
    pub(crate) fn cwd(work: &Workplace, settings: &Settings, bus: &Bus) -> PathBuf {
        let there = if Self::is_on_another_machine(settings) { bus.service::<dyn Files>() } else { None };
        let roots = there.map(|files| files.roots());
        roots.and_then(|roots| roots.into_iter().next()).unwrap_or_else(|| work.cwd.clone())
    }

    /// Returns the current working directory on this machine, which a turn may have changed.
    pub(crate) fn current_dir(work: &Workplace, settings: &Settings, cx: &Cx) -> PathBuf {
        let moved = if Self::is_on_another_machine(settings) { None } else { TurnCwd::of(cx) };
        moved.unwrap_or_else(|| work.cwd.clone())
    }

    /// Whether commands and files are on another machine.
    pub(crate) fn is_on_another_machine(settings: &Settings) -> bool {
        match settings.context() {
            // The directory is mounted at its own path.
            ContextName::Process | ContextName::Sandbox | ContextName::Docker(_) => false,
            ContextName::Remote(_) | ContextName::Ssh(_) => true,
        }
    }

    /// Returns the files of the place, with this machine's directory of the session's large results.
    pub(crate) fn with_outputs(self, local: WorkspaceFiles, outputs: &Path) -> Arc<dyn Files> {
        let remote = match self {
            Self::Here | Self::Docker(_) => return Arc::new(local),
            Self::Remote(remote, _) => remote,
        };
        let outputs = outputs.canonicalize().unwrap_or_else(|_| outputs.to_owned());
        Arc::new(OverlaidFiles::new(Arc::new(remote.files()), Arc::new(local), outputs))
    }
}

/// Connects to a server on another host by SSH, through one tunnel for all conversations.
fn connect_over_ssh(machine: &Machine, shared: &Shared, host: &SshTarget) -> Outcome<Remote> {
    let fail = |why: String| Failure::failed(format!("cannot reach zk on {host} with ssh: {why}"));
    if shared.tunnel.get().is_none() {
        let tunnel = open_tunnel(machine, host).map_err(|error| fail(error.to_string()))?;
        // If another conversation set a tunnel meanwhile, that one is used.
        let _ = shared.tunnel.set(tunnel);
    }
    let Some(tunnel) = shared.tunnel.get() else { return Err(fail("there is no tunnel".into())) };
    Remote::connect(tunnel.socket()).map_err(|error| match (tunnel.stderr_tail(), error) {
        (said, RemoteError::Unreachable { source, .. }) if said.is_empty() => fail(source.to_string()),
        (said, RemoteError::Unreachable { .. }) => fail(said),
        (_, error) => fail(error.to_string()),
    })
}

fn open_tunnel(machine: &Machine, target: &SshTarget) -> io::Result<SshTunnel> {
    let mut environment = Environment::filtered(machine.env.without_secrets());
    if let Some(agent) = machine.env.get("SSH_AUTH_SOCK") {
        environment = environment.grant("SSH_AUTH_SOCK", agent);
    }
    SshTunnel::open(target, environment, &machine.env.runtime_dir())
}

/// The container that the settings describe.
fn docker(work: &Workplace, settings: &Settings, image: String) -> DockerOptions {
    let mut options = DockerOptions::new(image, &work.cwd);
    options.limits = settings.limits.limits();
    options.project = Some(work.project.clone());
    options.home = work.machine.env.path("HOME");
    options.writable = work.roots().into_iter().skip(1).collect();
    options.hidden =
        [sandbox::hidden(&work.machine, settings), work.machine.dirs.own(&work.roots())].concat();
    options.state.clone_from(&work.machine.dirs.state);
    options.network = settings.docker.network;
    let of_environment =
        || work.machine.env.get("DOCKER_HOST")?.to_str()?.strip_prefix("unix://").map(PathBuf::from);
    if let Some(socket) = settings.docker.socket.clone().or_else(of_environment) {
        options.socket = socket;
    }
    options
}

impl Plugin for ExecutionTarget {
    fn name(&self) -> &'static str {
        "place"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        match self {
            Self::Here => {}
            Self::Docker(exec) => {
                scope.provide_service::<dyn Exec>(exec.clone());
                let exec = exec.clone();
                scope.on_close(async move || exec.close().await);
            }
            Self::Remote(remote, limits) => {
                scope.provide_service::<dyn Exec>(Arc::new(remote.exec().limited(*limits)));
                scope.provide_service::<dyn Files>(Arc::new(remote.files()));
            }
        }
        Ok(())
    }
}
