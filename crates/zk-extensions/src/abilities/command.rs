use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use zk_core::kernel::{BoxError, Cx, Scope};
use zk_core::service::{ArgumentChoice, Command, CommandOutcome, TurnCwd, visible_line};

use crate::extension::Shared;
use crate::protocol::{ArgumentNote, CommandCompletion, CommandRegistration, CommandReply, CommandRun};

/// Most arguments of a completion.
const MAX_CHOICES: usize = 200;

/// Command that runs in the extension.
pub(crate) struct ExtensionCommand {
    shared: Arc<Shared>,
    command: CommandRegistration,
}

impl ExtensionCommand {
    pub(crate) fn provide(
        scope: &Scope,
        shared: &Arc<Shared>,
        mut command: CommandRegistration,
    ) -> Result<(), String> {
        if command.name.starts_with('/') || command.name.chars().any(char::is_whitespace) {
            return Err("the name of a command has no slash and no blanks".to_owned());
        }
        command.help = visible_line(&command.help);
        command.arguments = command.arguments.map(|hint| visible_line(&hint));
        let name = command.name.clone();
        let item = Self { shared: shared.clone(), command };
        scope.provide::<dyn Command>(&name, Arc::new(item)).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Command for ExtensionCommand {
    fn name(&self) -> &str {
        &self.command.name
    }

    fn help(&self) -> &str {
        &self.command.help
    }

    fn argument_hint(&self) -> Option<&str> {
        self.command.arguments.as_deref()
    }

    async fn complete(&self, before: &str, cx: &Cx) -> Vec<ArgumentChoice> {
        if !self.command.completes {
            return Vec::new();
        }
        let params = CommandCompletion { name: &self.command.name, before };
        let limit = self.shared.config.limits.answer;
        let answer = self.shared.request("command/complete", params, limit, cx).await;
        let notes = answer.and_then(|value| self.shared.read::<Vec<ArgumentNote>>("command/complete", value));
        let notes = notes.unwrap_or_default().into_iter().take(MAX_CHOICES);
        notes.map(|note| ArgumentChoice::new(visible_line(&note.value), visible_line(&note.note))).collect()
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let cwd = TurnCwd::of(cx);
        let params = CommandRun { name: &self.command.name, args, run: cx.run_id(), cwd };
        let limit = self.shared.config.limits.call;
        Ok(match self.shared.request("command/run", params, limit, cx).await? {
            Value::Null => CommandOutcome::Done,
            reply => match self.shared.read("command/run", reply)? {
                CommandReply::Show(text) => CommandOutcome::Show(text),
                CommandReply::Prompt(text) => CommandOutcome::Prompt(text),
            },
        })
    }
}
