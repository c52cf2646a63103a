//! Skills from servers, such as MCP servers.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::kernel::Cx;
use zk_core::model::{Display, Effects, ToolError, ToolErrorKind};
use zk_core::service::{Approval, Question, Questions, Trust, TrustItem, UiAnswer, visible_line};

use crate::skill::scan::hide_suspicious;
use crate::skill::{Bundle, SKILL_FILE, Skill, frontmatter, has_fields};

/// Kind of served skills in the trust store.
const TRUST_SERVED: &str = "served-skill";
/// Time limit for a person's approval.
const PERSON_TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);

/// Server of skills: an item of the bus whose name is the prefix of its skills' names, `NAME:SKILL`.
///
/// The files of a skill are only read when it is used.
#[async_trait]
pub trait SkillHost: Send + Sync {
    /// Skills as listed last.
    fn skills(&self) -> Vec<ServedSkill>;

    /// Reads a file of a skill, both given by URI. The host checks the size and digest in the entry.
    ///
    /// # Errors
    /// A text, when the file cannot be read, or does not match the entry.
    async fn read(&self, skill: &str, file: &str, cx: &Cx) -> Result<Vec<u8>, String>;
}

/// Skill in a host's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSkill {
    /// URI of the skill's `SKILL.md`, which identifies it within the host.
    pub uri: String,
    /// Frontmatter as JSON.
    pub frontmatter: Value,
    /// URIs of the skill's files with their digests; empty if the content can change.
    pub files: Vec<(String, String)>,
    /// Whether the skill may be used without asking a person.
    pub is_allowed: bool,
}

/// Served skill with its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Name of the host.
    pub host: String,
    /// Entry of the skill.
    pub entry: ServedSkill,
}

impl Served {
    /// Bytes for approval: the entry with the digests of all files.
    fn bytes(&self) -> Vec<u8> {
        let ServedSkill { uri, frontmatter, files, is_allowed: _ } = &self.entry;
        format!("{uri}\0{frontmatter}\0{files:?}").into_bytes()
    }

    /// Common prefix of its files' URIs.
    fn common_uri_prefix(&self) -> &str {
        self.entry.uri.strip_suffix(SKILL_FILE).unwrap_or(&self.entry.uri)
    }

    /// Files of the skill, as listed to a model.
    pub(crate) fn bundle(&self) -> Bundle {
        let below = self.entry.files.iter().filter_map(|(uri, _)| uri.strip_prefix(self.common_uri_prefix()));
        Bundle { files: below.map(Into::into).collect(), ..Bundle::default() }
    }

    /// Text of the skill after its frontmatter, which must equal the listed one.
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

    /// Text file of the skill, by its path in the skill.
    pub(crate) async fn text(&self, path: &str, cx: &Cx) -> Result<String, ToolError> {
        let host = cx.item::<dyn SkillHost>(&self.host);
        let host = host.ok_or_else(|| {
            ToolError::failed(format!("{}, which serves the skill, is not there now", self.host))
        })?;
        let uri = format!("{}{path}", self.common_uri_prefix());
        if uri != self.entry.uri && self.entry.files.iter().all(|(listed, _)| *listed != uri) {
            let why = format!("the skill has no file `{path}`");
            return Err(ToolError::new(ToolErrorKind::NotFound, why));
        }
        let read = host.read(&self.entry.uri, &uri, cx).await;
        let bytes = read.map_err(|why| ToolError::failed(format!("cannot read `{path}`: {why}")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Asks for approval unless it was given before. Returns whether it was allowed only once.
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
            // Without digests, the content can change unnoticed.
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

/// Usable skills of all hosts on the bus.
pub(crate) fn served(cx: &Cx) -> Vec<Skill> {
    let mut skills = Vec::new();
    for item in cx.bus().items::<dyn SkillHost>() {
        for entry in item.value.skills() {
            let is_allowed = entry.is_allowed;
            let mut skill = Skill::served(Served { host: item.name.to_string(), entry }).ok();
            // Skills that are allowed without a question are trusted by the person's settings.
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
