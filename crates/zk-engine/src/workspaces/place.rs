use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use zk_core::service::{EngineError, EngineName, Job};

use super::{KeptWorkspaces, LegFiles};

/// Name of the workspace of a run whose files are in the store of workspaces (`fleet.workspaces`).
pub const KEPT_WORKSPACE: &str = "kept";

/// Prefix of the names of workspaces and queues that belong to one host.
const HOST_PREFIX: &str = "host:";

/// Name of a machine, for runs whose files are on its disk.
///
/// ```
/// use zk_engine::HostName;
///
/// let host = HostName::new("build 7.example").unwrap();
/// assert_eq!(host.as_name().as_str(), "host:build-7.example");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(EngineName);

impl HostName {
    /// Creates the name of a host. Characters that no name has become `-`.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`] for a name that is empty or too long.
    pub fn new(host: &str) -> Result<Self, EngineError> {
        let valid = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let host: String = host.trim().chars().map(valid).collect();
        // An empty name is not valid, also behind the prefix.
        EngineName::new(&host)?;
        Ok(Self(EngineName::new(&format!("{HOST_PREFIX}{host}"))?))
    }

    /// Returns the name of the host's workspaces and queue.
    #[must_use]
    pub fn as_name(&self) -> &EngineName {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().strip_prefix(HOST_PREFIX).unwrap_or_default())
    }
}

/// Meaning of the workspace that a job names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceName<'a> {
    /// The directory of the session, on any machine that has it.
    OfSession,
    /// The directory of the session, on this host alone.
    OnHost(&'a EngineName),
    /// The files in the store of workspaces.
    Kept,
    /// A directory that each worker knows by this name.
    Named(&'a EngineName),
}

impl<'a> WorkspaceName<'a> {
    /// Returns the meaning of the job's workspace.
    #[must_use]
    pub fn of(job: &'a Job) -> Self {
        match job.workspace() {
            None => Self::OfSession,
            Some(name) if name.as_str() == KEPT_WORKSPACE => Self::Kept,
            Some(name) if name.as_str().starts_with(HOST_PREFIX) => Self::OnHost(name),
            Some(name) => Self::Named(name),
        }
    }
}

/// Places of a worker for the legs of runs.
#[derive(Clone, Debug, Default)]
pub struct LegPlaces {
    /// Directories of the worker by name.
    pub named: BTreeMap<EngineName, PathBuf>,
    /// Host of the worker; `None` if it has no name.
    pub host: Option<HostName>,
    /// Store of workspaces, if the worker has one.
    pub kept: Option<KeptWorkspaces>,
}

/// Place of one leg.
#[derive(Debug)]
pub enum LegPlace {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A private directory with the files of the run.
    Kept(LegFiles),
}

impl LegPlace {
    /// Returns the working directory of the leg.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory,
            Self::Kept(files) => files.directory(),
        }
    }
}
