use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome};

use super::dir::FleetDir;
use super::lines::fleet_lines;

/// The command `/fleet`.
pub(super) struct FleetCommand(pub(super) FleetDir);

#[async_trait]
impl Command for FleetCommand {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn help(&self) -> &'static str {
        "list the conversations and goals of this machine, and what they wait for"
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        if !args.is_empty() {
            return Err("/fleet lists; `zk fleet` in a shell also stops, answers and attaches".into());
        }
        let dir = self.0.clone();
        let views = tokio::task::spawn_blocking(move || dir.list()).await??;
        Ok(CommandOutcome::Show(fleet_lines(&views, None).join("\n")))
    }
}
