//! Skills that somebody else serves, such as an MCP server.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::kernel::Cx;
use zk_core::model::{Display, Effects, ToolError, ToolErrorKind};
use zk_core::service::{Approval, Question, Questions, Trust, TrustItem, UiAnswer, visible_line};

use crate::skill::scan::hide_suspicious;
use crate::skill::{Bundle, SKILL_FILE, Skill, frontmatter, has_fields};

/// Kind under which a served skill is approved in the trust store.
const TRUST_SERVED: &str = "served-skill";
/// Longest time a person may take to approve one.
const PERSON_TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);

/// Somebody who serves skills: an item of the bus under the name that stands before those of its skills, `NAME:SKILL`.
///
/// Nothing of a skill is read before it is used.
#[async_trait]
pub trait SkillHost: Send + Sync {
    /// The skills, as they were listed last.
    fn skills(&self) -> Vec<ServedSkill>;

    /// A file of a skill, both by their addresses. The host vouches for the size and the digest that the entry names.
    ///
    /// # Errors
    /// In words, when it cannot be read, or is not as the entry says.
    async fn read(&self, skill: &str, file: &str, cx: &Cx) -> Result<Vec<u8>, String>;
}

/// A skill as its host lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSkill {
    /// The address of its `SKILL.md`: with the host, what makes it this skill.
    pub uri: String,
    /// The frontmatter, as JSON.
    pub frontmatter: Value,
    /// The addresses of all its files with their digests; none where the content changes.
    pub files: Vec<(String, String)>,
    /// Whether it may be used without asking a person.
    pub is_allowed: bool,
}

/// Host and entry of a served skill of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The name of the host.
    pub host: String,
    /// Entry of the skill.
    pub entry: ServedSkill,
}

impl Served {
    /// Returns the bytes that a person approves: the entry with the digests of all files.
    fn bytes(&self) -> Vec<u8> {
        let ServedSkill { uri, frontmatter, files, is_allowed: _ } = &self.entry;
        format!("{uri}\0{frontmatter}\0{files:?}").into_bytes()
    }

    /// The address before those of its files.
    fn root(&self) -> &str {
        self.entry.uri.strip_suffix(SKILL_FILE).unwrap_or(&self.entry.uri)
    }

    /// Lists the skill's files, as they are named to a model.
    pub(crate) fn bundle(&self) -> Bundle {
        let below = self.entry.files.iter().filter_map(|(uri, _)| uri.strip_prefix(self.root()));
        Bundle { files: below.map(Into::into).collect(), ..Bundle::default() }
    }

    /// The text of the skill behind its frontmatter, which has to be the one that was listed.
    pub(crate) async fn body(&self, name: &str, cx: &Cx) -> Result<Arc<str>, ToolError> {
        let text = self.text(SKILL_FILE, cx).await?;
        let parts = frontmatter::split(&text);
        let parts = parts.filter(|parts| has_fields(parts.yaml, &self.entry.frontmatter));
        let parts = parts.ok_or_else(|| {
            let why = format!("the frontmatter of the skill `{name}` is not the one that was listed");
            ToolError::new(ToolErrorKind::Denied, why)
        })?;
        Ok(parts.body.replace("\r\n", "\n").trim().into())
    }

    /// A file of the skill as text, by its path in it.
    pub(crate) async fn text(&self, path: &str, cx: &Cx) -> Result<String, ToolError> {
        let host = cx.item::<dyn SkillHost>(&self.host);
        let host = host.ok_or_else(|| {
            ToolError::failed(format!("{}, which serves the skill, is not there now", self.host))
        })?;
        let uri = format!("{}{path}", self.root());
        if uri != self.entry.uri && self.entry.files.iter().all(|(listed, _)| *listed != uri) {
            let why = format!("the skill has no file `{path}`");
            return Err(ToolError::new(ToolErrorKind::NotFound, why));
        }
        let read = host.read(&self.entry.uri, &uri, cx).await;
        let bytes = read.map_err(|why| ToolError::failed(format!("cannot read `{path}`: {why}")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether it may be used: a person said so, now or before. Gives whether that was for this once only.
    pub(crate) async fn check(
        &self,
        skill: &Skill,
        project: &std::path::Path,
        cx: &Cx,
    ) -> Result<bool, ToolError> {
        let (name, bytes) = (format!("{} {}", self.host, self.entry.uri), self.bytes());
        let item = TrustItem { project, kind: TRUST_SERVED, name: &name, bytes: &bytes };
        let trust = cx.service::<dyn Trust>();
        if self.entry.is_allowed || trust.as_ref().is_some_and(|trust| trust.is_trusted(&item)) {
            return Ok(false);
        }
        let denied = |why: String| Err(ToolError::new(ToolErrorKind::Denied, why));
        let questions = cx.service::<Questions>().filter(|questions| questions.is_attended());
        let Some(questions) = questions else {
            return denied(format!(
                "nobody is there to approve the skill `{}`; `skills = \"allow\"` in the settings of {} does",
                skill.name(),
                self.host
            ));
        };
        let lines = [
            skill.manifest.description.clone(),
            format!("At {}, with {} files.", self.entry.uri, self.entry.files.len().max(1)),
            "Its text tells your model what to do.".to_owned(),
        ];
        let always = "this skill in this project, for as long as none of its files changes".to_owned();
        let approval = Approval {
            tool: "skills_use".to_owned(),
            args: json!({ "skill": skill.name() }),
            effects: Effects::none(),
            preview: Some(Display::Lines { lines: lines.map(|line| visible_line(&line)).into() }),
            // A skill without digests can change without anybody's seeing it.
            always: trust.is_some().then_some(always).filter(|_| !self.entry.files.is_empty()),
            ..Approval::default()
        };
        match questions.ask(Question::Approve(Box::new(approval)), cx, PERSON_TIME_LIMIT).await {
            UiAnswer::Once => Ok(true),
            UiAnswer::Always => match trust {
                Some(trust) => match trust.approve_in_background(&item).await {
                    Err(error) => denied(format!("the approval cannot be stored: {error}")),
                    Ok(()) => Ok(false),
                },
                None => Ok(false),
            },
            _ => denied(format!("the user did not approve the skill `{}`", skill.name())),
        }
    }
}

/// The skills of all hosts of the bus. One that cannot be used is left out.
pub(crate) fn served(cx: &Cx) -> Vec<Skill> {
    let mut skills = Vec::new();
    for item in cx.bus().items::<dyn SkillHost>() {
        for entry in item.value.skills() {
            let is_allowed = entry.is_allowed;
            let mut skill = Skill::served(Served { host: item.name.to_string(), entry }).ok();
            // The settings of the person vouch for those that may be used unasked.
            skill.iter_mut().filter(|_| !is_allowed).for_each(hide_suspicious);
            skills.extend(skill);
        }
    }
    skills
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontmatter_is_the_listed_one_field_by_field() {
        let yaml = "name: a\ndescription: \"It: b\"\nversion: 1.10\ntags: [x, 2, true]\nmore: {k: null}\n";
        let fields = json!({"name": "a", "description": "It: b", "version": 1.1, "tags": ["x", 2, true],
                            "more": {"k": null}});
        assert!(has_fields(yaml, &fields));
        for (key, value) in [
            ("name", json!("b")),
            ("version", json!(1.2)),
            ("tags", json!(["x", 2])),
            ("more", json!({"k": null, "l": 1})),
            ("else", json!(1)),
        ] {
            let mut other = fields.clone();
            other[key] = value;
            assert!(!has_fields(yaml, &other), "{key}");
        }
        assert!(!has_fields("name: a", &fields) && !has_fields("- a", &fields));
    }
}
