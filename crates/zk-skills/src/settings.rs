//! Settings section `[skills]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::skill::{Diagnostic, Skill};

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
    /// Names of the only skills that are used; empty for all.
    #[schemars(extend("x-expected" = "a list of names, such as [\"pdf\"]"))]
    pub only: Vec<String>,
    /// Skills by name that are given here, without files.
    #[schemars(extend("x-by-projects" = false))]
    pub inline: BTreeMap<String, InlineSkill>,
    /// Maximum number of skills in use at a time.
    #[schemars(range(min = 1))]
    pub max_active: Option<u32>,
}

impl Default for SkillSettings {
    fn default() -> Self {
        let none = Vec::new;
        Self {
            enabled: true,
            project: true,
            paths: none(),
            exclude: none(),
            only: none(),
            inline: BTreeMap::new(),
            max_active: None,
        }
    }
}

/// Skill that is given in settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InlineSkill {
    /// Use of the skill, by which the model chooses it.
    pub description: String,
    /// Instructions of the skill.
    pub text: String,
}

impl SkillSettings {
    /// Skills that are given in these settings, and for each that cannot be used its name with the reason.
    ///
    /// ```
    /// use zk_skills::settings::{InlineSkill, SkillSettings};
    ///
    /// let mut settings = SkillSettings::default();
    /// let description = "Release notes: \"short\"".to_owned();
    /// settings.inline.insert("notes".into(), InlineSkill { description, text: "List changes.".into() });
    /// settings.inline.insert("No name".into(), InlineSkill { description: "Named badly".into(), text: "x".into() });
    /// let (skills, wrong) = settings.inline_skills();
    /// assert_eq!(skills[0].name(), "notes");
    /// assert_eq!(skills[0].manifest.description, "Release notes: \"short\"");
    /// assert_eq!(wrong[0].0, "No name");
    /// assert!(wrong[0].1.message.contains("is not in lower case: give it a name"));
    /// ```
    #[must_use]
    pub fn inline_skills(&self) -> (Vec<Skill>, Vec<(String, Diagnostic)>) {
        let (mut skills, mut wrong) = (Vec::new(), Vec::new());
        for (name, InlineSkill { description, text }) in &self.inline {
            match Skill::of_parts(name, description, text) {
                Ok(skill) => skills.push(skill),
                Err(why) => wrong.push((name.clone(), why)),
            }
        }
        (skills, wrong)
    }
}
