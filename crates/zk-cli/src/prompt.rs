use std::path::Path;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{FixedSection, PromptSection, section_order};
use zk_skills::{Instruction, Instructions};

use crate::settings::Settings;

/// What zk tells a model about its work. It stays the same for a whole session, so that providers can cache
/// it: no date, no listing of files, nothing random.
const GUIDE: &str = "\
You are zk, an agent that works in a person's directory with the tools you are given.
Look before you act: find and read what matters, then make the smallest change that does the job, in the style \
that is there. Prefer the file tools over shell commands for reading and editing. Use several tools at once when \
they do not depend on each other. When you changed something, check that it works: run the tests or the program.
A refused or failed call tells you why: change your approach instead of repeating it. Ask when the goal is \
unclear, not for permission. Never print, store or send secrets.
Answer briefly and plainly, and say what you did not do or could not check.";

/// What the agent is told first: the person's own prompt, or zk's guide.
pub(crate) fn own(settings: &Settings) -> String {
    settings.text("system").unwrap_or(GUIDE).to_owned()
}

/// What follows it: the directory, the project's instructions and what the person wants added.
pub(crate) struct Sections {
    named: Vec<(&'static str, FixedSection)>,
}

impl Sections {
    pub(crate) fn new(settings: &Settings, cwd: &Path, instructions: &Instructions) -> Self {
        let place = format!("Working directory: {}", cwd.display());
        let files: Vec<String> = instructions.files.iter().map(instructions_of).collect();
        let appended = settings.text("append_system").unwrap_or_default();
        Self {
            named: vec![
                ("directory", FixedSection::new(section_order::PLACE, place)),
                ("instructions", FixedSection::new(section_order::PROJECT, files.join("\n\n"))),
                ("appended", FixedSection::new(section_order::LAST, appended)),
            ],
        }
    }
}

impl Plugin for Sections {
    fn name(&self) -> &'static str {
        "system-prompt"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        for (id, section) in &self.named {
            scope.provide::<dyn PromptSection>(id, Arc::new(section.clone()))?;
        }
        Ok(())
    }
}

fn instructions_of(file: &Instruction) -> String {
    let cut = if file.cut { "\n(The rest is left out: it is too long.)" } else { "" };
    format!("Instructions of the project, from {}:\n{}{cut}", file.path.display(), file.text)
}
