//! Place of a conversation's commands and files, when that is not this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope};
use zk_core::service::{Exec, Files, TurnCwd};
use zk_exec::{
    ContextName, DockerExec, DockerOptions, Environment, Limits, OverlaidFiles, Remote, RemoteError,
    SshTarget, SshTunnel, WorkspaceFiles,
};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::sandbox;

/// Serves what takes the place of this machine's commands and files; nothing if they are this machine's.
pub(crate) enum ExecutionTarget {
    Here,
    Docker(Arc<DockerExec>),
    /// A machine, with what each command may use there.
    Remote(Remote, Limits),
}

impl ExecutionTarget {
    /// The place that the settings name, reached.
    pub(crate) fn of(app: &AppContext) -> Outcome<Self> {
        Ok(match app.settings.context() {
            ContextName::Process | ContextName::Sandbox => Self::Here,
            ContextName::Docker(image) => {
                let exec = DockerExec::new(docker(app, image));
                exec.check().map_err(Failure::failed)?;
                Self::Docker(Arc::new(exec))
            }
            ContextName::Remote(socket) => {
                Self::Remote(Remote::connect(socket).map_err(Failure::failed)?, app.settings.limits.limits())
            }
            ContextName::Ssh(host) => {
                Self::Remote(connect_over_ssh(app, &host)?, app.settings.limits.limits())
            }
        })
    }

    /// The directory a conversation works in.
    pub(crate) fn cwd(app: &AppContext, bus: &Bus) -> PathBuf {
        let there = if Self::is_elsewhere(app) { bus.service::<dyn Files>() } else { None };
        let roots = there.map(|files| files.roots());
        roots.and_then(|roots| roots.into_iter().next()).unwrap_or_else(|| app.cwd.clone())
    }

    /// The directory of this machine that a conversation works in by now.
    pub(crate) fn now(app: &AppContext, cx: &Cx) -> PathBuf {
        let moved = if Self::is_elsewhere(app) { None } else { TurnCwd::of(cx) };
        moved.unwrap_or_else(|| app.cwd.clone())
    }

    /// Whether the directories of a conversation are those of another machine.
    pub(crate) fn is_elsewhere(app: &AppContext) -> bool {
        match app.settings.context() {
            // The directory is mounted at its own path.
            ContextName::Process | ContextName::Sandbox | ContextName::Docker(_) => false,
            ContextName::Remote(_) | ContextName::Ssh(_) => true,
        }
    }

    /// The files of the place, with the directory of this machine where a session's large results are.
    pub(crate) fn with_outputs(self, local: WorkspaceFiles, outputs: &Path) -> Arc<dyn Files> {
        let remote = match self {
            Self::Here | Self::Docker(_) => return Arc::new(local),
            Self::Remote(remote, _) => remote,
        };
        let outputs = outputs.canonicalize().unwrap_or_else(|_| outputs.to_owned());
        Arc::new(OverlaidFiles::new(Arc::new(remote.files()), Arc::new(local), outputs))
    }
}

/// Connects to what is served on another host, through one tunnel for all conversations.
fn connect_over_ssh(app: &AppContext, host: &SshTarget) -> Outcome<Remote> {
    let fail = |why: String| Failure::failed(format!("cannot reach zk on {host} with ssh: {why}"));
    if app.tunnel.get().is_none() {
        let tunnel = open_tunnel(app, host).map_err(|error| fail(error.to_string()))?;
        // Whoever was first has the one that counts.
        let _ = app.tunnel.set(tunnel);
    }
    let Some(tunnel) = app.tunnel.get() else { return Err(fail("there is no tunnel".into())) };
    Remote::connect(tunnel.socket()).map_err(|error| match (tunnel.stderr_tail(), error) {
        (said, RemoteError::Unreachable { source, .. }) if said.is_empty() => fail(source.to_string()),
        (said, RemoteError::Unreachable { .. }) => fail(said),
        (_, error) => fail(error.to_string()),
    })
}

fn open_tunnel(app: &AppContext, target: &SshTarget) -> io::Result<SshTunnel> {
    let mut environment = Environment::filtered(app.env.without_secrets());
    if let Some(agent) = app.env.get("SSH_AUTH_SOCK") {
        environment = environment.grant("SSH_AUTH_SOCK", agent);
    }
    SshTunnel::open(target, environment, &app.env.runtime_dir())
}

/// The container that the settings describe.
fn docker(app: &AppContext, image: String) -> DockerOptions {
    let mut options = DockerOptions::new(image, &app.cwd);
    options.limits = app.settings.limits.limits();
    options.project = Some(app.project.clone());
    options.home = app.env.path("HOME");
    options.writable = app.roots().into_iter().skip(1).collect();
    options.hidden = [sandbox::hidden(app), app.dirs.own(&app.roots())].concat();
    options.state.clone_from(&app.dirs.state);
    options.network = app.settings.docker.network;
    let of_environment = || app.env.get("DOCKER_HOST")?.to_str()?.strip_prefix("unix://").map(PathBuf::from);
    if let Some(socket) = app.settings.docker.socket.clone().or_else(of_environment) {
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
