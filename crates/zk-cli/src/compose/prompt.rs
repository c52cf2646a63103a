use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::{GUIDE_SECTION, IDENTITY_SECTION};
use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope};
use zk_core::service::{ContextProducer, FixedSection, PromptSection, Questions, section_order};
use zk_skills::{
    BUILTIN_COMMANDS, BudgetPart, CommandFilesPlugin, ContextStreams, EnvironmentPart, GitPart,
    InstructionsPlugin,
};

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use zk_chat::OWN_COMMANDS;

/// Identity of the agent. The whole prompt stays the same within a session, so that providers can cache it:
/// it has no date, no list of files and nothing random.
const IDENTITY: &str =
    "You are zk, an agent that works in a person's directory with the tools you are given.";

/// Guide to the agent's way of work.
const GUIDE: &str = "\
Look before you act: find and read what matters, then make the smallest change that does the job, in the style \
that is there. Prefer the file tools over shell commands for reading and editing. Use several tools at once when \
they do not depend on each other. When you changed something, check that it works: run the tests or the program.
A refused or failed call tells you why: change your approach instead of repeating it. Ask when the goal is \
unclear, not for permission. Never print, store or send secrets.
Answer briefly and plainly, and say what you did not do or could not check.";

/// Notes on the display of answers, with a person and without.
const ATTENDED: &str = "A person reads along in a terminal that shows Markdown, and can answer questions. Of results of tools they \
see little: repeat what matters.";
const UNATTENDED: &str = "Nobody reads along, and no question is answered: decide what is open yourself and say so. Your last message \
is all that is read.";

/// Positions of zk's own sections, before all others.
const IDENTITY_ORDER: i32 = 0;
const FRONTEND_ORDER: i32 = 20;
const GUIDE_ORDER: i32 = 40;

/// Returns the person's own prompt, which replaces zk's sections.
pub(crate) fn own_prompt(settings: &Settings) -> String {
    settings.program.system.clone().unwrap_or_default()
}

/// Section on the display of answers. Absent for a sub-agent, whose reader is an agent.
struct Frontend;

#[async_trait]
impl PromptSection for Frontend {
    fn order(&self) -> i32 {
        FRONTEND_ORDER
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        Ok(match (cx.origin().depth, cx.service::<Questions>()) {
            (0, Some(_)) => ATTENDED.to_owned(),
            (0, None) => UNATTENDED.to_owned(),
            (_, _) => String::new(),
        })
    }
}

/// Installs zk's own sections on identity, display and way of work, unless the person's own prompt replaces
/// them.
pub(crate) fn install_own(settings: &Settings, bus: &Bus) -> Outcome<()> {
    if settings.program.system.is_some() {
        return Ok(());
    }
    let scope = bus.scope("zk");
    let sections: [(&str, Arc<dyn PromptSection>); 3] = [
        (IDENTITY_SECTION, Arc::new(FixedSection::new(IDENTITY_ORDER, IDENTITY))),
        ("frontend", Arc::new(Frontend)),
        (GUIDE_SECTION, Arc::new(FixedSection::new(GUIDE_ORDER, GUIDE))),
    ];
    for (id, section) in sections {
        scope.provide::<dyn PromptSection>(id, section).map_err(Failure::failed)?;
    }
    Ok(())
}

/// Section with the preset's and the person's text at the end of the prompt.
pub(crate) struct Appended(FixedSection);

impl Appended {
    pub(crate) fn new(settings: &Settings) -> Self {
        let texts = [&settings.program.preset_system, &settings.program.append_system];
        let text = texts.into_iter().filter_map(Option::as_deref).collect::<Vec<_>>().join("\n\n");
        Self(FixedSection::new(section_order::AT_END, text))
    }
}

impl Plugin for Appended {
    fn name(&self) -> &'static str {
        "settings"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn PromptSection>("appended", Arc::new(self.0.clone()))?;
        Ok(())
    }
}

/// The instructions of the person and of the project.
pub(crate) fn instructions(work: &Workplace) -> InstructionsPlugin {
    let config = work.machine.dirs.config.as_ref().filter(|_| work.scope.has_own_parts());
    let own = config.map(|config| config.join("AGENTS.md"));
    let plugin = InstructionsPlugin::new(&work.cwd, &work.project, own);
    if work.scope.has_project() { plugin } else { plugin.without_project() }
}

/// Installs the context before a prompt, and the commands in files.
pub(crate) fn install_context(work: &Workplace, settings: &Settings, bus: &Bus) -> Outcome<()> {
    bus.install(&ContextStreams::new()).map_err(Failure::failed)?;
    let scope = bus.scope("environment");
    let here = Arc::new(EnvironmentPart::new(&work.cwd));
    scope.provide::<dyn ContextProducer>("environment", here).map_err(Failure::failed)?;
    let git = Arc::new(GitPart::new(&work.project));
    scope.provide::<dyn ContextProducer>("git", git).map_err(Failure::failed)?;
    bus.install(&BudgetPart::default()).map_err(Failure::failed)?;
    let user = crate::skills::command_dirs(work);
    let files = CommandFilesPlugin::new(&work.cwd, &work.project, user);
    let files = if work.scope.has_project() { files } else { files.without_project() };
    let of_bundles = crate::bundles::commands(settings, &work.project);
    let files = files.reserving(OWN_COMMANDS).offering(&BUILTIN_COMMANDS).with_bundles(of_bundles);
    bus.install(&files).map_err(Failure::failed)?;
    Ok(())
}
