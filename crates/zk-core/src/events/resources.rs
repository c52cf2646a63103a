use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::{Event, Gather};

/// Skills are looked for: where else are some? Every answer counts, each with who gave it.
///
/// Tools, commands and prompt sections need no such question: a plugin registers them as items.
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
    /// Directories with skills, absolute. They count as those that settings name, behind those.
    pub skills: Vec<PathBuf>,
}

impl Event for ResourcesDiscover {
    const NAME: &'static str = "resources:discover";
    type Reply = Resources;
    type Mode = Gather;
}
