//! Place of a conversation's commands and files, when that is not this machine.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope};
use zk_core::service::{Exec, Files, TurnCwd};
use zk_exec::{DockerExec, DockerOptions, Limits, OverlaidFiles, Remote, RemoteError, WorkspaceFiles};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::far_host::{FarHost, Tunnel};
use crate::sandbox;

/// The value of `--context` and of the setting `context`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContextName {
    Process,
    Sandbox,
    /// A container of this image.
    Docker(String),
    /// An exec-server at this socket.
    Remote(PathBuf),
    /// An exec-server that is started on this host.
    Ssh(FarHost),
}

impl ContextName {
    /// Choices of a context, as a person reads them.
    pub(crate) const CHOICES: &str =
        "\"process\", \"sandbox\", \"docker:IMAGE\", \"remote:unix:PATH\" or \"remote:ssh:HOST\"";
    /// Regular expression of the same choices.
    pub(crate) const PATTERN: &str = "^(process|sandbox|docker:.+|remote:unix:/.+|remote:ssh:.+)$";

    /// Returns the context of the settings.
    pub(crate) fn of(app: &AppContext) -> Self {
        app.settings.program.context.clone().unwrap_or(Self::Process)
    }
}

impl FromStr for ContextName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "process" => Ok(Self::Process),
            None if text == "sandbox" => Ok(Self::Sandbox),
            Some(("docker", image)) if is_image(image) => Ok(Self::Docker(image.to_owned())),
            Some(("remote", address)) => match address.strip_prefix("ssh:") {
                Some(host) => FarHost::parse(host).map(Self::Ssh),
                None => socket(address).map(Self::Remote),
            },
            _ => Err(format!("use {}", Self::CHOICES)),
        }
    }
}

/// Whether a text can name an image: `debian`, `ghcr.io/team/build:1`, `alpine@sha256:…`.
fn is_image(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/:@".contains(&byte))
}

/// The path of an address such as `unix:/run/zk.sock`.
pub(crate) fn socket(address: &str) -> Result<PathBuf, String> {
    let path = address.strip_prefix("unix:").map(Path::new);
    path.filter(|path| path.is_absolute())
        .map(Path::to_owned)
        .ok_or_else(|| format!("`{address}` is no address; write unix:PATH with an absolute path"))
}

/// Executor of the person's commands that the sandbox would bound: `cx.service::<PersonExec>()`. Absent where
/// they run as the model's do.
pub(crate) struct PersonExec(pub(crate) Arc<dyn Exec>);

/// Serves what takes the place of this machine's commands and files; nothing if they are this machine's.
pub(crate) enum Place {
    Here,
    Docker(Arc<DockerExec>),
    /// With what each command may use there.
    Remote(Remote, Limits),
}

impl Place {
    /// The place that the settings name, reached.
    pub(crate) fn of(app: &AppContext) -> Outcome<Self> {
        Ok(match ContextName::of(app) {
            ContextName::Process | ContextName::Sandbox => Self::Here,
            ContextName::Docker(image) => {
                let exec = DockerExec::new(docker(app, image));
                exec.check().map_err(Failure::failed)?;
                Self::Docker(Arc::new(exec))
            }
            ContextName::Remote(socket) => {
                Self::Remote(Remote::connect(socket).map_err(Failure::failed)?, app.settings.limits.limits())
            }
            ContextName::Ssh(host) => Self::Remote(far(app, &host)?, app.settings.limits.limits()),
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
        match ContextName::of(app) {
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
fn far(app: &AppContext, host: &FarHost) -> Outcome<Remote> {
    let fail = |why: String| Failure::failed(format!("cannot reach zk on {host} with ssh: {why}"));
    if app.tunnel.get().is_none() {
        let tunnel = Tunnel::open(host, &app.env).map_err(|error| fail(error.to_string()))?;
        // Whoever was first has the one that counts.
        let _ = app.tunnel.set(tunnel);
    }
    let Some(tunnel) = app.tunnel.get() else { return Err(fail("there is no tunnel".into())) };
    Remote::connect(tunnel.socket()).map_err(|error| match (tunnel.complaint(), error) {
        (said, RemoteError::Unreachable { source, .. }) if said.is_empty() => fail(source.to_string()),
        (said, RemoteError::Unreachable { .. }) => fail(said),
        (_, error) => fail(error.to_string()),
    })
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

impl Plugin for Place {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_and_wrong_ones_say_what_to_write() {
        let read = |text: &str| text.parse::<ContextName>();
        assert_eq!(read("process"), Ok(ContextName::Process));
        assert_eq!(read("sandbox"), Ok(ContextName::Sandbox));
        assert_eq!(read("docker:ghcr.io/a/b:1"), Ok(ContextName::Docker("ghcr.io/a/b:1".into())));
        assert_eq!(read("remote:unix:/run/zk.sock"), Ok(ContextName::Remote("/run/zk.sock".into())));
        for wrong in [
            "",
            "proces",
            "docker",
            "docker:",
            "docker:-x",
            "docker:a b",
            "remote",
            "remote:",
            "remote:unix:zk.sock",
            "remote:tcp:1.2.3.4",
            "sandbox:x",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(
                error.contains("use \"process\"") || error.contains("write unix:PATH"),
                "{wrong}: {error}"
            );
        }
    }
}
