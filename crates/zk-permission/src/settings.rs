//! Settings section `[permissions]`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::mode::Mode;

/// Settings of permissions: mode, audit and rules.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-guarded" = true, "x-by-projects" = false))]
pub struct PermissionSettings {
    /// Permission mode: which calls run without a question.
    #[serde(deserialize_with = "mode")]
    #[schemars(with = "String", extend("enum" = Mode::ALL.map(Mode::name)))]
    pub mode: Option<Mode>,
    /// Whether all calls run that no rule forbids.
    pub allow_all: bool,
    /// Whether each decision is recorded in a file.
    pub audit: bool,
    /// Rules for calls that run without a question.
    #[schemars(extend(
        "x-by-projects" = true, "x-merge" = "append", "x-expected" = "a list of rules, such as [\"cargo test **\"]"
    ))]
    pub allow: Vec<String>,
    /// Rules for calls that need a question.
    #[schemars(extend(
        "x-by-projects" = true, "x-merge" = "append", "x-expected" = "a list of rules, such as [\"cargo test **\"]"
    ))]
    pub ask: Vec<String>,
    /// Rules for calls that are refused.
    #[schemars(extend(
        "x-by-projects" = true, "x-merge" = "append", "x-expected" = "a list of rules, such as [\"cargo test **\"]"
    ))]
    pub deny: Vec<String>,
}

impl Default for PermissionSettings {
    fn default() -> Self {
        let none = Vec::new;
        Self { mode: None, allow_all: false, audit: true, allow: none(), ask: none(), deny: none() }
    }
}

fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mode>, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map(Some).map_err(serde::de::Error::custom)
}
