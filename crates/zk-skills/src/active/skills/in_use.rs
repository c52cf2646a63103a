//! Which skills each agent uses.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{ThinkingLevel, ToolError, ToolErrorKind};
use zk_core::service::{ContextId, HostFiles, ToolCx, Trust};

use super::{InUse, Skills, check_approval};
use crate::active::skill_text::deliver;
use crate::active::tools;
use crate::commands::arguments::Arguments;
use crate::commands::interpolate;
use crate::discovery::discover::SkillSet;
use crate::events::{ActivatedBy, DeactivatedBecause, SkillActivated, SkillDeactivated};
use crate::skill::tool_patterns;
use crate::skill::{Bundle, Skill};

impl Skills {
    /// The names of the skills that the agent of `cx` uses.
    #[must_use]
    pub fn active(&self, cx: &Cx) -> Vec<String> {
        let state = self.state();
        state.contexts.get(&context(cx)).map(|used| used.active.keys().cloned().collect()).unwrap_or_default()
    }

    /// The skill `name`, if the agent of `cx` uses it.
    pub(crate) fn in_use(&self, name: &str, cx: &Cx) -> Result<Arc<Skill>, ToolError> {
        let found = self.state().contexts.get(&context(cx)).and_then(|used| used.active.get(name).cloned());
        found.ok_or_else(|| {
            let why = format!("the skill `{name}` is not in use; call skills_use with its name first");
            ToolError::new(ToolErrorKind::Denied, why)
        })
    }

    /// Returns the reason why the skills in use do not allow a call, if so: once one of them names its tools,
    /// only tools that one of them names may be called.
    pub(crate) fn forbids(&self, tool: &str, args: &Value, cx: &Cx) -> Option<String> {
        if tools::NAMES.contains(&tool) {
            return None;
        }
        let state = self.state();
        let used = state.contexts.get(&context(cx))?;
        let lists: Vec<&Vec<String>> =
            used.active.values().filter_map(|skill| skill.manifest.allowed_tools.as_ref()).collect();
        let patterns = || lists.iter().flat_map(|list| list.iter().map(String::as_str));
        if lists.is_empty() || tool_patterns::is_allowed(patterns(), tool, args) {
            return None;
        }
        let names: Vec<&str> = used.active.keys().map(String::as_str).collect();
        let tools: Vec<&str> = patterns().collect();
        let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
        Some(format!("the skills in use ({}) allow only these tools: {tools}", names.join(", ")))
    }

    /// Takes the skill `name` into use. Gives its text; nothing when the conversation has just that text already.
    ///
    /// # Errors
    /// [`ToolError`] when there is none of that name, it changed since it was approved, or too many are in use.
    pub async fn activate(
        &self,
        name: &str,
        arguments: &str,
        via: ActivatedBy,
        cx: &ToolCx,
    ) -> Result<Option<String>, ToolError> {
        let failed = |error: EmitError| ToolError::failed(error.to_string());
        let set = self.resolve(&cx.cx).await.map_err(failed)?;
        let hidden = |skill: &Skill| via == ActivatedBy::Model && skill.manifest.disable_model_invocation;
        let skill = set.get(name).filter(|skill| !hidden(skill)).cloned();
        let skill = skill.ok_or_else(|| unknown(name, &set))?;
        self.check_room(&skill, &cx.cx)?;
        let files =
            cx.cx.service::<dyn HostFiles>().ok_or_else(|| ToolError::failed("nothing here reads files"))?;
        let (trust, project) = (cx.cx.service::<dyn Trust>(), self.project());
        let reading = skill.clone();
        let mut is_once = false;
        let (body, bundle) = match &skill.served {
            Some(served) => {
                if !self.active(&cx.cx).iter().any(|name| name == skill.name()) {
                    is_once = served.check(&skill, &project, &cx.cx).await?;
                }
                (served.body(skill.name(), &cx.cx).await?, served.bundle())
            }
            None => {
                let read = move || read(&reading, &*files, trust.as_deref(), &project);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| ToolError::failed(error.to_string()))??
            }
        };
        if via == ActivatedBy::Model {
            is_once |= self.check_text(&skill, &body, &cx.cx).await?;
        }
        // Before its own commands run, which are asked about then.
        if is_once {
            let mut state = self.state();
            let used = state.contexts.entry(context(&cx.cx)).or_default();
            used.allowed_once.get_or_insert_with(|| skill.name().to_owned());
        }
        let given = Arguments::new(arguments);
        // Commands in a text from elsewhere are text.
        let (body, placed) = match &skill.served {
            Some(_) => given.substitute(&body),
            None => interpolate::interpolate(&body, &given, cx).await,
        };
        let mut text = deliver(&skill, &body, &bundle);
        if !placed && !arguments.trim().is_empty() {
            text.push_str(&format!("\n\nWith these arguments: {}", arguments.trim()));
        }
        let delivered = self.take_into_use(&skill, &text, &cx.cx)?;
        let activated = SkillActivated {
            name: skill.name().to_owned(),
            source: skill.source.as_str().to_owned(),
            via,
            delivered,
        };
        cx.cx.emit(activated).await.map_err(failed)?;
        Ok(delivered.then_some(text))
    }

    fn check_room(&self, skill: &Skill, cx: &Cx) -> Result<(), ToolError> {
        let max = self.inner.options.max_active;
        let active = self.active(cx);
        if active.len() < max || active.iter().any(|name| name == skill.name()) {
            return Ok(());
        }
        let why = format!(
            "{max} skills are in use already ({}), and no more may be at once; go on with those until the run ends",
            active.join(", ")
        );
        Err(ToolError::new(ToolErrorKind::Denied, why))
    }

    fn take_into_use(&self, skill: &Arc<Skill>, text: &str, cx: &Cx) -> Result<bool, ToolError> {
        // Two calls of a batch may have come here together.
        self.check_room(skill, cx)?;
        let mut state = self.state();
        let used = state.contexts.entry(context(cx)).or_default();
        used.active.insert(skill.name().to_owned(), skill.clone());
        let digest = digest(text);
        Ok(used.delivered.insert(skill.name().to_owned(), digest) != Some(digest))
    }

    /// Remembers the texts of skills that a stored conversation has. Skills of a run that was interrupted are taken into
    /// use again: it may go on.
    pub(crate) async fn restore(
        &self,
        used: Vec<(String, String)>,
        is_interrupted: bool,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        if used.is_empty() {
            return Ok(());
        }
        let set = self.resolve(cx).await?;
        let first = used.len().saturating_sub(self.inner.options.max_active);
        for (at, (name, text)) in used.iter().enumerate() {
            let Some(skill) = set.get(name) else { continue };
            {
                let mut state = self.state();
                let used = state.contexts.entry(context(cx)).or_default();
                used.delivered.insert(name.clone(), digest(text));
                if at < first || !is_interrupted {
                    continue;
                }
                used.active.insert(name.clone(), skill.clone());
            }
            let (name, source) = (name.clone(), skill.source.as_str().to_owned());
            cx.emit(SkillActivated { name, source, via: ActivatedBy::Resume, delivered: false }).await?;
        }
        Ok(())
    }

    /// Takes all skills of the agent of `cx` out of use.
    pub(crate) async fn deactivate(&self, reason: DeactivatedBecause, cx: &Cx) -> Result<(), EmitError> {
        let names: Vec<String> = {
            let mut state = self.state();
            let used = state.contexts.get_mut(&context(cx));
            let take = |used: &mut InUse| {
                used.allowed_once = None;
                std::mem::take(&mut used.active).into_keys().collect()
            };
            used.map(take).unwrap_or_default()
        };
        for name in names {
            cx.emit(SkillDeactivated { name, reason }).await?;
        }
        Ok(())
    }

    /// The text of skills may not be in the conversation of `cx` any more: the next use of each gives it again.
    pub(crate) fn forget_delivered(&self, cx: &Cx) {
        if let Some(used) = self.state().contexts.get_mut(&context(cx)) {
            used.delivered.clear();
        }
    }

    /// The agent of `cx` is gone, or has another conversation.
    pub(crate) fn forget(&self, cx: &Cx) {
        self.state().contexts.remove(&context(cx));
    }

    /// The skill that the agent of `cx` uses in this run though it was allowed for once only.
    pub(crate) fn allowed_once(&self, cx: &Cx) -> Option<String> {
        self.state().contexts.get(&context(cx))?.allowed_once.clone()
    }

    /// The thinking level that the skills in use ask for: the highest.
    pub(crate) fn thinking(&self, cx: &Cx) -> Option<ThinkingLevel> {
        let state = self.state();
        let used = state.contexts.get(&context(cx))?;
        used.active.values().filter_map(|skill| skill.manifest.thinking.as_ref()?.parse().ok()).max()
    }

    /// The model that the skills in use ask for: that of the first by name that asks for one.
    pub(crate) fn model(&self, cx: &Cx) -> Option<String> {
        let state = self.state();
        let used = state.contexts.get(&context(cx))?;
        used.active.values().find_map(|skill| skill.manifest.model.clone())
    }
}

/// Returns the key of an agent's skills.
fn context(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The text and the files of a skill. All files of one of a project must be as they were approved.
fn read(
    skill: &Skill,
    files: &dyn HostFiles,
    trust: Option<&dyn Trust>,
    project: &std::path::Path,
) -> Result<(Arc<str>, Bundle), ToolError> {
    let failed = |error: &dyn std::fmt::Display| ToolError::failed(error.to_string());
    check_approval(skill, files, trust, project)?;
    let body = crate::skill::body(skill, files).map_err(|error| failed(&error))?;
    let bundle = Bundle::of(skill).map_err(|error| failed(&error))?;
    Ok((body, bundle))
}

fn unknown(name: &str, set: &SkillSet) -> ToolError {
    let names: Vec<&str> = set.for_model().map(|skill| skill.name()).take(50).collect();
    let there = if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    let untrusted = set.untrusted.iter().any(|skill| skill.name() == name);
    let note = if untrusted { "; the user has not approved the one of this project" } else { "" };
    ToolError::new(ToolErrorKind::NotFound, format!("there is no skill `{name}`{note}; {there}"))
}
