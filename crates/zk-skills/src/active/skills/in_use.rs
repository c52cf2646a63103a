//! Skills in use by each agent.

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
    /// Names of the skills that the agent of `cx` uses.
    #[must_use]
    pub fn active(&self, cx: &Cx) -> Vec<String> {
        let state = self.state();
        state
            .contexts
            .get(&context_id(cx))
            .map(|used| used.active.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Skill `name`, if the agent of `cx` uses it.
    pub(crate) fn in_use(&self, name: &str, cx: &Cx) -> Result<Arc<Skill>, ToolError> {
        let found =
            self.state().contexts.get(&context_id(cx)).and_then(|used| used.active.get(name).cloned());
        found.ok_or_else(|| {
            let why = format!("the skill `{name}` is not in use; call skills_use with its name first");
            ToolError::new(ToolErrorKind::Denied, why)
        })
    }

    /// Reason why the skills in use forbid a call, if they do: if any of them lists its tools, only listed
    /// tools may be called.
    pub(crate) fn forbids(&self, tool: &str, args: &Value, cx: &Cx) -> Option<String> {
        if tools::NAMES.contains(&tool) {
            return None;
        }
        let state = self.state();
        let used = state.contexts.get(&context_id(cx))?;
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

    /// Begins to use the skill `name`. Returns its text; `None` if the conversation already contains it.
    ///
    /// # Errors
    /// [`ToolError`] when the skill is unknown, was changed since its approval, or too many skills are in
    /// use.
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
        let skill = skill.ok_or_else(|| unknown_skill_error(name, &set))?;
        self.check_active_limit(&skill, &cx.cx)?;
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
                let read = move || read_approved(&reading, &*files, trust.as_deref(), &project);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| ToolError::failed(error.to_string()))??
            }
        };
        if via == ActivatedBy::Model {
            is_once |= self.check_text(&skill, &body, &cx.cx).await?;
        }
        // Recorded before the skill's own commands run, so that they need approval, too.
        if is_once {
            let mut state = self.state();
            let used = state.contexts.entry(context_id(&cx.cx)).or_default();
            used.allowed_once.get_or_insert_with(|| skill.name().to_owned());
        }
        let (body, given) = match &skill.bundle {
            Some(place) => {
                let body = place.expand(&body, skill.dir.as_deref(), &cx.cx);
                (body.into(), Arguments::from_zero(arguments))
            }
            None => (body, Arguments::new(arguments)),
        };
        // Commands in the text of a served skill are not executed.
        let (body, placed) = match &skill.served {
            Some(_) => given.substitute(&body),
            None => interpolate::interpolate(&body, &given, cx).await,
        };
        let mut text = deliver(&skill, &body, &bundle);
        if !placed && !arguments.trim().is_empty() {
            text.push_str(&format!("\n\nWith these arguments: {}", arguments.trim()));
        }
        let delivered = self.mark_in_use(&skill, &text, &cx.cx)?;
        let activated = SkillActivated {
            name: skill.name().to_owned(),
            source: skill.source.as_str().to_owned(),
            via,
            delivered,
        };
        cx.cx.emit(activated).await.map_err(failed)?;
        Ok(delivered.then_some(text))
    }

    fn check_active_limit(&self, skill: &Skill, cx: &Cx) -> Result<(), ToolError> {
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

    fn mark_in_use(&self, skill: &Arc<Skill>, text: &str, cx: &Cx) -> Result<bool, ToolError> {
        // Checked again, since another call of the batch may have been faster.
        self.check_active_limit(skill, cx)?;
        let mut state = self.state();
        let used = state.contexts.entry(context_id(cx)).or_default();
        used.active.insert(skill.name().to_owned(), skill.clone());
        let digest = digest(text);
        Ok(used.delivered.insert(skill.name().to_owned(), digest) != Some(digest))
    }

    /// Restores the texts that a stored conversation contains. Skills of an interrupted run are in use again,
    /// as the run may continue.
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
                let used = state.contexts.entry(context_id(cx)).or_default();
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

    /// Ends the use of all skills by the agent of `cx`.
    pub(crate) async fn deactivate(&self, reason: DeactivatedBecause, cx: &Cx) -> Result<(), EmitError> {
        let names: Vec<String> = {
            let mut state = self.state();
            let used = state.contexts.get_mut(&context_id(cx));
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

    /// Makes the next use of each skill deliver its text again, since the conversation of `cx` may not
    /// contain it any more.
    pub(crate) fn forget_delivered(&self, cx: &Cx) {
        if let Some(used) = self.state().contexts.get_mut(&context_id(cx)) {
            used.delivered.clear();
        }
    }

    /// Forgets the agent of `cx`, which has ended or begun another conversation.
    pub(crate) fn forget(&self, cx: &Cx) {
        self.state().contexts.remove(&context_id(cx));
    }

    /// Skill that the agent of `cx` uses in this run and that was allowed only once.
    pub(crate) fn allowed_once(&self, cx: &Cx) -> Option<String> {
        self.state().contexts.get(&context_id(cx))?.allowed_once.clone()
    }

    /// Highest thinking level that the skills in use request.
    pub(crate) fn requested_thinking(&self, cx: &Cx) -> Option<ThinkingLevel> {
        let state = self.state();
        let used = state.contexts.get(&context_id(cx))?;
        used.active.values().filter_map(|skill| skill.manifest.thinking.as_ref()?.parse().ok()).max()
    }

    /// Model that the skills in use request: that of the first one by name.
    pub(crate) fn requested_model(&self, cx: &Cx) -> Option<String> {
        let state = self.state();
        let used = state.contexts.get(&context_id(cx))?;
        used.active.values().find_map(|skill| skill.manifest.model.clone())
    }
}

/// Key of an agent.
fn context_id(cx: &Cx) -> Option<ContextId> {
    cx.service::<ContextId>().map(|id| (*id).clone())
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Reads the text and files of a skill. All files of a project's skill must be as approved.
fn read_approved(
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

fn unknown_skill_error(name: &str, set: &SkillSet) -> ToolError {
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
