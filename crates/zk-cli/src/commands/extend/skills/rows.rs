use serde_json::{Value, json};
use zk_skills::{Skill, SkillSet, SkillSource, place};

/// Row of a skill in the list.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) source: SkillSource,
    pub(super) state: &'static str,
    pub(super) about: String,
    pub(super) valid: bool,
    pub(super) diagnostics: Vec<String>,
}

impl Row {
    pub(super) fn of(skill: &Skill, state: &'static str) -> Self {
        Self {
            name: skill.name().to_owned(),
            path: address(skill),
            source: skill.source,
            state,
            about: skill.manifest.description.split_whitespace().collect::<Vec<_>>().join(" "),
            valid: true,
            diagnostics: skill.diagnostics.iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "path": self.path,
            "source": self.source,
            "valid": self.valid,
            "diagnostics": self.diagnostics,
            "state": self.state,
            "description": self.about,
        })
    }
}

/// Returns the path of a skill, or the address of its server.
pub(super) fn address(skill: &Skill) -> String {
    skill.served.as_ref().map_or_else(|| place(skill), |served| served.entry.uri.clone())
}

pub(super) fn rows(set: &SkillSet) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for skill in &set.skills {
        let state = if skill.manifest.disable_model_invocation { "for you only" } else { "offered" };
        rows.push(Row::of(skill, state));
    }
    rows.extend(set.untrusted.iter().map(|skill| Row::of(skill, "not trusted")));
    for (skill, first) in &set.shadowed {
        let mut row = Row::of(skill, "shadowed");
        row.diagnostics.push(format!("warning: {first} has the same name and is used"));
        rows.push(row);
    }
    for broken in &set.broken {
        rows.push(Row {
            name: broken.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: broken.path.display().to_string(),
            source: broken.source,
            state: "not usable",
            about: String::new(),
            valid: false,
            diagnostics: vec![broken.diagnostic.to_string()],
        });
    }
    rows
}
