use std::path::Path;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{Exec, Files};

use crate::{DockerExec, Limits, OverlaidFiles, Remote, WorkspaceFiles};

/// Place of commands and files: this machine, a container or another machine.
#[derive(Debug)]
pub enum ExecutionTarget {
    /// This machine, whose services others provide.
    Here,
    /// A container with the files of this machine.
    Docker(Arc<DockerExec>),
    /// Another machine, with the limits of each command.
    Remote(Remote, Limits),
}

impl ExecutionTarget {
    /// Returns the files of the place, with this machine's directory of the session's large results.
    #[must_use]
    pub fn with_outputs(self, local: WorkspaceFiles, outputs: &Path) -> Arc<dyn Files> {
        let remote = match self {
            Self::Here | Self::Docker(_) => return Arc::new(local),
            Self::Remote(remote, _) => remote,
        };
        let outputs = outputs.canonicalize().unwrap_or_else(|_| outputs.to_owned());
        Arc::new(OverlaidFiles::new(Arc::new(remote.files()), Arc::new(local), outputs))
    }
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
