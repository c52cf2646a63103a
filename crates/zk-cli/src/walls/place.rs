//! Execution of a conversation's commands in a container or on another machine, with its files there.

use std::path::PathBuf;
use std::sync::Arc;

use zk_core::kernel::{Bus, Cx};
use zk_core::service::{Files, TurnCwd};
use zk_exec::{
    ContextName, DockerExec, DockerOptions, Environment, ExecutionTarget, Remote, SshTarget, SshTunnel,
};

use crate::app::{AppContext, Machine, Shared, Workplace};
use crate::exit::{Failure, Outcome};
use crate::sandbox;
use crate::settings::Settings;

/// Connects to the configured place.
pub(crate) fn target(app: &AppContext) -> Outcome<ExecutionTarget> {
    Ok(match app.settings.context() {
        ContextName::Process | ContextName::Sandbox => ExecutionTarget::Here,
        ContextName::Docker(image) => {
            let exec = DockerExec::new(docker(&app.work, &app.settings, image));
            exec.check().map_err(Failure::failed)?;
            ExecutionTarget::Docker(Arc::new(exec))
        }
        ContextName::Remote(socket) => ExecutionTarget::Remote(
            Remote::connect(socket).map_err(Failure::failed)?,
            app.settings.limits.limits(),
        ),
        ContextName::Ssh(host) => ExecutionTarget::Remote(
            connect_over_ssh(&app.work.machine, &app.shared, &host)?,
            app.settings.limits.limits(),
        ),
    })
}

/// Returns the working directory of a conversation.
pub(crate) fn cwd(work: &Workplace, settings: &Settings, bus: &Bus) -> PathBuf {
    let there = if settings.context().is_on_another_machine() { bus.service::<dyn Files>() } else { None };
    let roots = there.map(|files| files.roots());
    roots.and_then(|roots| roots.into_iter().next()).unwrap_or_else(|| work.cwd.clone())
}

/// Returns the current working directory on this machine, which a turn may have changed.
pub(crate) fn current_dir(work: &Workplace, settings: &Settings, cx: &Cx) -> PathBuf {
    let moved = if settings.context().is_on_another_machine() { None } else { TurnCwd::of(cx) };
    moved.unwrap_or_else(|| work.cwd.clone())
}

/// Connects to a server on another host by SSH, through one tunnel for all conversations.
fn connect_over_ssh(machine: &Machine, shared: &Shared, host: &SshTarget) -> Outcome<Remote> {
    let environment = with_ssh_agent(machine, Environment::filtered(machine.env.without_secrets()));
    let remote = SshTunnel::connect(&shared.tunnel, host, environment, &machine.env.runtime_dir());
    remote.map_err(Failure::failed)
}

/// Adds the SSH agent of the person to the environment of commands.
pub(crate) fn with_ssh_agent(machine: &Machine, environment: Environment) -> Environment {
    match machine.env.get("SSH_AUTH_SOCK") {
        Some(agent) => environment.grant("SSH_AUTH_SOCK", agent),
        None => environment,
    }
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
