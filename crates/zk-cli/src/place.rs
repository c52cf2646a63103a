//! Where a conversation's commands run and its files are, when that is not this machine.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Bus, Plugin, Scope};
use zk_core::service::{Exec, Files};
use zk_exec::{OverlaidFiles, Remote, WorkspaceFiles};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};

/// The value of `--context` and of the setting `context`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContextName {
    Process,
    Sandbox,
    /// An exec-server at this socket.
    Remote(PathBuf),
}

impl ContextName {
    /// What can be chosen, as a person reads it.
    pub(crate) const CHOICES: &str = "\"process\", \"sandbox\" or \"remote:unix:PATH\"";
    /// The same as a regular expression.
    pub(crate) const PATTERN: &str = "^(process|sandbox|remote:unix:/.+)$";

    /// What the settings say.
    pub(crate) fn of(app: &AppContext) -> Self {
        app.settings.text("context").and_then(|text| text.parse().ok()).unwrap_or(Self::Process)
    }
}

impl FromStr for ContextName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "process" => Ok(Self::Process),
            None if text == "sandbox" => Ok(Self::Sandbox),
            Some(("remote", address)) => socket(address).map(Self::Remote),
            _ => Err(format!("use {}", Self::CHOICES)),
        }
    }
}

/// The path of an address such as `unix:/run/zk.sock`.
pub(crate) fn socket(address: &str) -> Result<PathBuf, String> {
    let path = address.strip_prefix("unix:").map(Path::new);
    path.filter(|path| path.is_absolute())
        .map(Path::to_owned)
        .ok_or_else(|| format!("`{address}` is no address; write unix:PATH with an absolute path"))
}

/// Serves what takes the place of this machine's commands and files; nothing if they are this machine's.
pub(crate) struct Place {
    remote: Option<Remote>,
}

impl Place {
    /// The place that the settings name, reached.
    pub(crate) fn of(app: &AppContext) -> Outcome<Self> {
        let remote = match ContextName::of(app) {
            ContextName::Process | ContextName::Sandbox => None,
            ContextName::Remote(socket) => Some(Remote::connect(socket).map_err(Failure::failed)?),
        };
        Ok(Self { remote })
    }

    /// The directory a conversation works in.
    pub(crate) fn cwd(app: &AppContext, bus: &Bus) -> PathBuf {
        let roots = match ContextName::of(app) {
            ContextName::Process | ContextName::Sandbox => None,
            ContextName::Remote(_) => bus.service::<dyn Files>().map(|files| files.roots()),
        };
        roots.and_then(|roots| roots.into_iter().next()).unwrap_or_else(|| app.cwd.clone())
    }

    /// The files of the place, with the directory of this machine where a session's large results are.
    pub(crate) fn with_outputs(self, local: WorkspaceFiles, outputs: &Path) -> Arc<dyn Files> {
        let Some(remote) = self.remote else { return Arc::new(local) };
        let outputs = outputs.canonicalize().unwrap_or_else(|_| outputs.to_owned());
        Arc::new(OverlaidFiles::new(Arc::new(remote.files()), Arc::new(local), outputs))
    }
}

impl Plugin for Place {
    fn name(&self) -> &'static str {
        "place"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        if let Some(remote) = &self.remote {
            scope.provide_service::<dyn Exec>(Arc::new(remote.exec()));
            scope.provide_service::<dyn Files>(Arc::new(remote.files()));
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
        assert_eq!(read("remote:unix:/run/zk.sock"), Ok(ContextName::Remote("/run/zk.sock".into())));
        for wrong in
            ["", "proces", "remote", "remote:", "remote:unix:zk.sock", "remote:tcp:1.2.3.4", "sandbox:x"]
        {
            let error = read(wrong).unwrap_err();
            assert!(
                error.contains("use \"process\"") || error.contains("write unix:PATH"),
                "{wrong}: {error}"
            );
        }
    }
}
