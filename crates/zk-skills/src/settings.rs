//! Settings section `[skills]`.

use schemars::JsonSchema;
use serde::Deserialize;

/// Settings of skills.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SkillSettings {
    /// Whether skills are enabled.
    pub enabled: bool,
    /// Whether the project's skills are used, once they are trusted.
    #[schemars(extend("x-by-projects" = false))]
    pub project: bool,
    /// Further directories with skills.
    #[schemars(inner(regex(pattern = "^(/|~/)")))]
    #[schemars(extend(
        "x-by-projects" = false,
        "x-expected" = "a list of paths that begin with / or ~/, such as [\"~/team\"]"
    ))]
    pub paths: Vec<String>,
    /// Names of skills that are ignored.
    #[schemars(extend("x-expected" = "a list of names, such as [\"pdf\"]"))]
    pub exclude: Vec<String>,
    /// Maximum number of skills in use at a time.
    #[schemars(range(min = 1))]
    pub max_active: Option<u32>,
}

impl Default for SkillSettings {
    fn default() -> Self {
        let none = Vec::new;
        Self { enabled: true, project: true, paths: none(), exclude: none(), max_active: None }
    }
}
