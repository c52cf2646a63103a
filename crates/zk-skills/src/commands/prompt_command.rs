use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ArgumentChoice, Command, CommandOutcome};

use super::command_files::COMMAND_FILES_SOURCE;

/// Command that is sent to the agent as typed, and expanded on the way to the model.
pub(crate) struct PromptCommand {
    pub(crate) name: String,
    pub(crate) help: String,
    /// Hint for the arguments.
    pub(crate) hint: Option<String>,
    /// Arguments to choose from.
    pub(crate) choices: Vec<String>,
}

#[async_trait]
impl Command for PromptCommand {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    fn argument_hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    async fn complete(&self, before: &str, _: &Cx) -> Vec<ArgumentChoice> {
        let choices = self.choices.iter().filter(|_| before.is_empty());
        choices.map(|choice| ArgumentChoice::new(choice, "")).collect()
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        Ok(CommandOutcome::Prompt(format!("/{} {args}", self.name).trim_end().to_owned()))
    }
}

/// Finds the command that a person typed. `/BUNDLE:SKILL` also finds the skill `/skill:BUNDLE:SKILL`.
#[must_use]
pub fn typed_command(name: &str, cx: &Cx) -> Option<Arc<dyn Command>> {
    let skill = || name.contains(':').then(|| cx.item::<dyn Command>(&format!("skill:{name}"))).flatten();
    cx.item::<dyn Command>(name).or_else(skill)
}

/// Whether the command of this name is a text, from a file or built in.
#[must_use]
pub fn is_command_file(name: &str, cx: &Cx) -> bool {
    let mut commands = cx.items::<dyn Command>().into_iter();
    commands.any(|command| &*command.name == name && command.source.as_str() == COMMAND_FILES_SOURCE)
}
