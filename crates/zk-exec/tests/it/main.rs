//! Commands that run and files that are reached, with real processes and a real file system.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]
#![expect(clippy::duplicate_mod, reason = "the same promises hold for both ways to run commands")]

mod corpus;
mod corpus_paths;
#[cfg(feature = "docker")]
mod docker;
mod files;
mod limits;
mod orphans;
mod parent;
mod protected;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "sandbox")]
mod sandbox;
mod supervisor;
mod support;
mod swap;
mod walk;

/// Commands as children of this process.
#[path = "."]
mod own {
    pub(crate) use zk_exec::ProcessExec;

    pub(crate) fn with(environment: zk_exec::Environment) -> ProcessExec {
        ProcessExec::new(environment)
    }

    #[path = "process.rs"]
    mod process;
}

/// Commands below a supervisor.
#[path = "."]
mod supervised {
    pub(crate) use crate::support::supervised as with;

    #[path = "process.rs"]
    mod process;
}
