//! Section of the settings about skills: `[skills]`.

use schemars::JsonSchema;
use serde::Deserialize;

/// Skills that the model can take into use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SkillSettings {
    /// Whether there are skills at all.
    pub enabled: bool,
    /// Whether those of the project count, once they are trusted.
    #[schemars(extend("x-by-projects" = false))]
    pub project: bool,
    /// Further directories with skills.
    #[schemars(inner(regex(pattern = "^(/|~/)")))]
    #[schemars(extend(
        "x-by-projects" = false,
        "x-expected" = "a list of paths that begin with / or ~/, such as [\"~/team\"]"
    ))]
    pub paths: Vec<String>,
    /// Skills that are left out.
    #[schemars(extend("x-expected" = "a list of names, such as [\"pdf\"]"))]
    pub exclude: Vec<String>,
    /// Skills that may be in use at once.
    #[schemars(range(min = 1))]
    pub max_active: Option<u32>,
}

impl Default for SkillSettings {
    fn default() -> Self {
        let none = Vec::new;
        Self { enabled: true, project: true, paths: none(), exclude: none(), max_active: None }
    }
}
