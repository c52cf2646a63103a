use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use zk_core::events::{
    AgentBeforeStart, AgentDone, BeforeStart, ContextReduced, Input, InputReply, ProviderRequest,
    RequestPatch, Ruling, SessionLoaded, SessionStart, SessionSwitch, ToolGate,
};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::{Message, ModelRef, Role, ThinkingRequest, ToolContent};
use zk_core::service::{
    Command, Entry, EntryKind, PresetParts, PresetSkill, PromptSection, Tool, ToolCx, TurnEnv, section_order,
};

use crate::active::skill_text::TAG;
use crate::active::skills::{Skills, SkillsOptions};
use crate::active::suspicious_text::ask_after_single_consent;
use crate::active::{relevant_skills, tools};
use crate::commands::prompt_command::PromptCommand;
use crate::discovery::catalog::description;
use crate::discovery::discover::SkillSet;
use crate::discovery::watch;
use crate::events::SkillsResolved;
use crate::events::{ActivatedBy, DeactivatedBecause};
use crate::skill::Skill;

/// Maximum number of characters of a description in a list of commands.
const MAX_HELP_CHARS: usize = 100;

/// Prefix by which a person uses a skill: `/skill:NAME arguments`.
pub const PREFIX: &str = "/skill:";

/// Plugin for Agent Skills: a section of the system prompt that lists them, three tools to use them, and a
/// command for each. Without skills it only registers handlers.
///
/// The plugin reads files through `dyn HostFiles` and checks the project's skills with `dyn Trust`; both are
/// services of the bus.
#[derive(Debug)]
pub struct SkillsPlugin {
    skills: Skills,
}

impl SkillsPlugin {
    /// Plugin with these options.
    #[must_use]
    pub fn new(options: SkillsOptions) -> Self {
        Self { skills: Skills::new(options) }
    }

    /// Skills of the plugin, for a host that uses them directly.
    #[must_use]
    pub fn skills(&self) -> Skills {
        self.skills.clone()
    }
}

impl Plugin for SkillsPlugin {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let skills = self.skills.clone();
        skills.declare(skills_of_presets(scope)?);
        scope.provide_service(Arc::new(skills.clone()));
        scope.provide::<dyn PromptSection>("skills", Arc::new(Catalog(skills.clone())))?;
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        let offered = Offered { scope: scope.clone(), commands: Mutex::default() };
        let resolved = skills.clone();
        scope.on_sync_at(everywhere, move |_: &SkillsResolved, _: &Cx| offered.update_commands(&resolved));
        // Searched in advance, so that a person can complete their names.
        let early = (skills.clone(), scope.clone());
        scope.spawn(async move {
            if let Some(bus) = early.1.bus() {
                // A failing handler is reported by the bus.
                let _ = early.0.resolve(&bus.cx()).await;
            }
        });
        scope.on_async_with_at(
            Stage::Early,
            skills.clone(),
            async |skills: &Skills, _: &SessionStart, cx: &Cx| {
                skills.set_running(true);
                // A run keeps the skills with which it began.
                skills.begin_run(cx).await?;
                Ok::<_, BoxError>(())
            },
        );
        scope.on_async_with(skills.clone(), async |skills: &Skills, loaded: &SessionLoaded, cx: &Cx| {
            skills.forget(cx);
            skills.restore(skills_used_in(&loaded.entries), is_interrupted(&loaded.entries), cx).await?;
            Ok::<_, BoxError>(())
        });
        scope.on_async_with(skills.clone(), async |skills: &Skills, switch: &SessionSwitch, cx: &Cx| {
            if !switch.is_same_session() {
                skills.deactivate(DeactivatedBecause::Reset, cx).await?;
            }
            Ok::<_, BoxError>(())
        });
        scope.on_async_with(skills.clone(), deliver_with_prompt);
        scope.on_async_with(skills.clone(), deliver_with_steering);
        scope.on_async_with_at(
            everywhere,
            skills.clone(),
            async |skills: &Skills, _: &AgentDone, cx: &Cx| {
                skills.deactivate(DeactivatedBecause::RunEnd, cx).await?;
                if cx.origin().depth > 0 {
                    skills.forget(cx);
                } else {
                    skills.set_running(false);
                }
                Ok::<_, BoxError>(())
            },
        );
        let reduced = skills.clone();
        scope.on_sync_at(everywhere, move |_: &ContextReduced, cx: &Cx| reduced.forget_delivered(cx));
        relevant_skills::register(scope, &skills);
        if skills.is_watched() {
            watch::register(scope, &skills);
        }
        let gate = skills.clone();
        scope.on_sync_at(Stage::Framework, move |gate_event: &ToolGate, cx: &Cx| {
            if gate_event.is_decided() {
                return None;
            }
            gate.forbids(&gate_event.call.name, &gate_event.args, cx).map(Ruling::refuse)
        });
        scope.on_async_with_at(Stage::Framework, skills.clone(), ask_after_single_consent);
        scope.on_sync_at(everywhere, move |request: &ProviderRequest, cx: &Cx| {
            let level = skills.requested_thinking(cx).filter(|level| *level != request.thinking.level);
            let thinking = level.map(|level| ThinkingRequest { level, budget: None });
            let model =
                skills.requested_model(cx).map(|model| ModelRef::new(&*request.model.provider, model));
            let asks = thinking.is_some() || model.is_some();
            asks.then(|| RequestPatch { thinking, model, ..RequestPatch::default() })
        });
        Ok(())
    }
}

/// Skills that presets of the agent declare.
fn skills_of_presets(scope: &Scope) -> Result<Vec<Skill>, BoxError> {
    let declared = scope.bus().and_then(|bus| bus.service::<PresetParts>());
    let declared = declared.map(|parts| parts.take_skills()).unwrap_or_default();
    let skill = |PresetSkill { name, description, text }: &PresetSkill| {
        Skill::of_parts(name, description, text).map_err(|fault| -> BoxError {
            format!("a preset's skill `{name}` cannot be used: {}", fault.message).into()
        })
    };
    declared.iter().map(skill).collect()
}

/// Section of the system prompt.
struct Catalog(Skills);

#[async_trait]
impl PromptSection for Catalog {
    fn order(&self) -> i32 {
        section_order::SKILLS
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        let set = self.0.resolve(cx).await?;
        Ok(self.0.catalog_of(&set).as_ref().to_owned())
    }
}

/// Tools and commands that are registered while there are skills.
struct Offered {
    scope: Scope,
    /// Scope of the current commands; `None` before the first. Not a guard, as this is dropped inside of the
    /// bus, whose lock a guard would take again.
    commands: Mutex<Option<Scope>>,
}

impl Offered {
    fn update_commands(&self, skills: &Skills) -> Result<(), BoxError> {
        let (Some(set), Some(bus)) = (skills.found(), self.scope.bus()) else { return Ok(()) };
        if set.skills.is_empty() && self.lock().is_none() {
            return Ok(());
        }
        // Once registered, the tools stay: removing them would change the beginning of every request.
        if self.lock().is_none() {
            for (name, tool) in tools::skill_tools(skills) {
                self.scope.provide::<dyn Tool>(name, tool)?;
            }
        }
        let scope = bus.scope(self.scope.source().as_str());
        for command in skill_commands(&set) {
            scope.provide_replacing::<dyn Command>(&command.name.clone(), Arc::new(command));
        }
        let before = self.lock().replace(scope);
        drop(before.map(Scope::close_on_drop));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Scope>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn skill_commands(set: &SkillSet) -> impl Iterator<Item = PromptCommand> {
    let offered = set.skills.iter().filter(|skill| skill.manifest.user_invocable);
    offered.map(|skill| {
        // A person may always write the purpose of the use after the name of a skill.
        let hint = skill.manifest.argument_hint.clone().unwrap_or_else(|| "[WORDS]".to_owned());
        PromptCommand {
            name: format!("skill:{}", skill.name()),
            help: description(skill).chars().take(MAX_HELP_CHARS).collect(),
            hint: Some(hint),
            choices: skill.manifest.argument_choices.clone(),
        }
    })
}

/// Delivers the skill that a prompt begins with; its text follows the prompt.
async fn deliver_with_prompt(
    skills: &Skills,
    start: &AgentBeforeStart,
    cx: &Cx,
) -> Result<Option<BeforeStart>, BoxError> {
    let Some(prompt) = &start.prompt else { return Ok(None) };
    let message = requested_skill_text(skills, &prompt.text(), cx).await;
    Ok(message.map(|message| BeforeStart { messages: vec![message], system: None }))
}

/// Delivers the skill that a steering input begins with; it takes effect when the input is delivered.
async fn deliver_with_steering(
    skills: &Skills,
    input: &Input,
    cx: &Cx,
) -> Result<Option<InputReply>, BoxError> {
    if !skills.is_running() {
        return Ok(None);
    }
    let message = requested_skill_text(skills, &input.text, cx).await;
    Ok(message.map(|message| InputReply::Add { messages: vec![message] }))
}

/// Text of the skill at the beginning of a prompt, or of the error; `None` if the conversation has the text
/// already.
async fn requested_skill_text(skills: &Skills, text: &str, cx: &Cx) -> Option<Message> {
    let rest = text.strip_prefix(PREFIX)?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let tool_cx = ToolCx::new(cx.with_service(Arc::new(TurnEnv::default())), skills.cwd(cx));
    let given = skills.activate(name, arguments, ActivatedBy::Explicit, &tool_cx).await;
    let text = match given {
        Ok(Some(text)) => text,
        Ok(None) => return None,
        // The person sees the error, and the model gets it too, so that it need not guess.
        Err(error) => {
            format!("The user asked for the skill `{name}`, which cannot be used: {}", error.message)
        }
    };
    Some(Message::injected(text, format!("skill:{name}")))
}

/// Whether the last run of a stored conversation ended without a final answer.
fn is_interrupted(entries: &[Entry]) -> bool {
    let last = entries.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::Message { message, .. } => Some(message),
        _ => None,
    });
    last.is_some_and(|last| last.role == Role::User || last.calls().next().is_some())
}

/// Names and texts of skills that a stored conversation used, in order.
fn skills_used_in(entries: &[Entry]) -> Vec<(String, String)> {
    let mut used: Vec<(String, String)> = Vec::new();
    let mut note = |name: &str, text: String| {
        used.retain(|(other, _)| other != name);
        used.push((name.to_owned(), text));
    };
    let mut calls: Vec<(String, String)> = Vec::new();
    for entry in entries {
        let EntryKind::Message { message, .. } = &entry.kind else { continue };
        match message.role {
            Role::Assistant => {
                let asked = message.calls().filter(|call| call.name == "skills_use");
                let name = |value: &serde_json::Value| value.get("skill")?.as_str().map(str::to_owned);
                calls.extend(asked.filter_map(|call| Some((call.id.to_string(), name(&call.args)?))));
            }
            Role::User => {
                if let Some(name) = message.injected_by.as_deref().and_then(|by| by.strip_prefix("skill:"))
                    && message.text().starts_with(&format!("<{TAG}"))
                {
                    note(name, message.text());
                }
                for result in message.results().filter(|result| !result.is_error) {
                    let name = calls.iter().find(|(id, _)| *id == result.call_id.to_string());
                    let ToolContent::Text(text) = &result.content else { continue };
                    if let Some((_, name)) = name
                        && text.starts_with(&format!("<{TAG}"))
                    {
                        note(name, text.clone());
                    }
                }
            }
        }
    }
    used
}
