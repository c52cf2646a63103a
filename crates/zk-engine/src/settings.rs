use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::EngineLocation;

/// Engine of runs that outlive their worker.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-by-projects" = false))]
pub struct FleetSettings {
    /// Engine of the runs: `local`, `postgres://…` or `temporal://…`. The program `zk-worker` has the engines beyond this
    /// machine.
    #[schemars(regex(pattern = EngineLocation::PATTERN))]
    #[schemars(extend("x-secret" = true, "x-expected" = EngineLocation::CHOICES))]
    pub engine: Option<String>,
    /// Store of the files of runs, for runs that go on with their files on any machine: `git:ADDRESS` for a bare repository, or
    /// `files:DIR` for a directory that all machines share.
    #[schemars(regex(pattern = "^(git|files):.+$"))]
    #[schemars(extend("x-secret" = true, "x-expected" = "`git:ADDRESS` or `files:DIR`"))]
    pub workspaces: Option<String>,
    /// Name of this machine, for runs whose files are on it; its host name without.
    pub host: Option<String>,
}

impl fmt::Debug for FleetSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("FleetSettings").finish_non_exhaustive()
    }
}
