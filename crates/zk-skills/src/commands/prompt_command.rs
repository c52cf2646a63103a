use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome};

/// Command that is sent to the agent as typed, and expanded on the way to the model.
pub(crate) struct PromptCommand {
    pub(crate) name: String,
    pub(crate) help: String,
}

#[async_trait]
impl Command for PromptCommand {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        Ok(CommandOutcome::Prompt(format!("/{} {args}", self.name).trim_end().to_owned()))
    }
}
