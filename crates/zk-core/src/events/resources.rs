use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::{Event, Gather};

/// Where are skills, prompts and instructions? Every answer counts, each with who gave it.
///
/// Skills will be looked for with it; until zk has them, it is for plugins that agree on it among themselves.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ResourcesDiscover {
    /// The working directory.
    pub cwd: PathBuf,
}

/// An answer to [`ResourcesDiscover`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Resources {
    /// Directories with skills.
    pub skills: Vec<PathBuf>,
    /// Directories with prompt templates.
    pub prompts: Vec<PathBuf>,
    /// Files with instructions for the system prompt.
    pub instructions: Vec<PathBuf>,
}

impl Event for ResourcesDiscover {
    const NAME: &'static str = "resources:discover";
    type Reply = Resources;
    type Mode = Gather;
}
