use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{
    ArgumentChoice, CallPlace, Command, CommandOutcome, TurnCwd, visible_line, visible_lines,
};

use crate::kept::{Keeper, describe};
use crate::patch::APPLY_TOOL;
use crate::tool::ApplyChanges;

/// The command `/changes`: patches of sub-agents that wait for a review.
pub(crate) struct ChangesCommand {
    pub(crate) tool: Arc<ApplyChanges>,
    pub(crate) keeper: Arc<Keeper>,
}

#[async_trait]
impl Command for ChangesCommand {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn help(&self) -> &'static str {
        "changes that sub-agents made in copies: /changes [AGENT | apply AGENT | discard AGENT]"
    }

    async fn complete(&self, _: &str, cx: &Cx) -> Vec<ArgumentChoice> {
        self.keeper.restore_from_log(cx).await;
        let state = self.keeper.patches.lock();
        let choices = |(agent, patch): (&String, &Arc<_>)| {
            let about = describe(agent, patch);
            ["", "apply ", "discard "]
                .map(|verb| ArgumentChoice::new(format!("{verb}{agent}"), about.clone()))
        };
        state.waiting.iter().flat_map(choices).collect()
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        self.keeper.restore_from_log(cx).await;
        let (verb, rest) = args.trim().split_once(char::is_whitespace).unwrap_or(("", args));
        let agent = rest.trim();
        if agent.is_empty() {
            return Ok(CommandOutcome::Show(self.list()));
        }
        let patch = self.keeper.patches.find_pending(agent).ok_or_else(|| {
            format!("no changes of `{}` wait for a review\n{}", visible_line(agent), self.list())
        })?;
        match verb {
            "" => {
                let place =
                    CallPlace { cx: cx.clone(), cwd: TurnCwd::of(cx).unwrap_or_else(|| PathBuf::from("/")) };
                let shown = self.tool.show(agent, &patch, &place).await?;
                Ok(CommandOutcome::Show(format!(
                    "{}\n/changes apply {agent} has them applied, /changes discard {agent} forgets them",
                    visible_lines(&shown).join("\n")
                )))
            }
            "apply" => Ok(CommandOutcome::Prompt(format!(
                "Apply the changes of {agent} to the project with `{APPLY_TOOL}`, and do nothing else."
            ))),
            "discard" => {
                self.keeper.settle(agent, &patch, cx).await;
                Ok(CommandOutcome::Show(format!("{} are discarded", describe(agent, &patch))))
            }
            other => {
                let why = format!("`{}` is no part of /changes: apply or discard", visible_line(other));
                Err(why.into())
            }
        }
    }
}

impl ChangesCommand {
    /// Lines about the patches that wait.
    fn list(&self) -> String {
        let state = self.keeper.patches.lock();
        let lines = state.waiting.iter().map(|(agent, patch)| visible_line(&describe(agent, patch)));
        let mut lines: Vec<String> = lines.collect();
        lines.push(match lines.len() {
            0 => "no changes of a sub-agent's copy wait for a review".to_owned(),
            _ => "/changes AGENT shows them; /changes apply AGENT, /changes discard AGENT".to_owned(),
        });
        lines.join("\n")
    }
}
