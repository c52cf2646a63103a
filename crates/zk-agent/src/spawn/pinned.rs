use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ContextMode, ContextProducer, PinnedContext};

use super::subagents::{Handle, Subagents};

/// Maximum number of sub-agents that are named with a request.
const MAX_NAMED: usize = 8;

/// Text that the model reads about sub-agents after a compaction, also when they are done.
const RUNNING: &str = "Sub-agents that were at work when earlier messages left this context. Of those that are done by now, what they \
     gave comes later:";

/// Running sub-agents of one agent, which it is reminded of after a compaction.
pub(super) struct RunningChildren {
    pub(super) subagents: Arc<Subagents>,
    pub(super) agent: String,
}

impl RunningChildren {
    fn running(&self) -> Vec<Arc<Handle>> {
        self.subagents.children_of(&self.agent).into_iter().filter(|handle| !handle.is_over()).collect()
    }
}

#[async_trait]
impl PinnedContext for RunningChildren {
    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        let rows: Vec<String> =
            self.running().iter().map(|handle| format!("- {}: {}", handle.name, handle.task)).collect();
        Ok((!rows.is_empty()).then(|| format!("{RUNNING}\n{}", rows.join("\n"))))
    }
}

/// Tells a model with each request which sub-agents work in the background, and that messages wait for it.
/// The messages themselves are read on request.
#[async_trait]
impl ContextProducer for RunningChildren {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        let running: Vec<_> = self.running().into_iter().filter(|handle| handle.is_background).collect();
        let mut parts = Vec::new();
        if !running.is_empty() {
            // A task is read as text, not as a tag.
            let plain =
                |text: &str| text.chars().take(80).collect::<String>().replace('<', "‹").replace('>', "›");
            let named = running.iter().take(MAX_NAMED);
            let named: Vec<String> =
                named.map(|handle| format!("{}: {}", handle.name, plain(&handle.task))).collect();
            let more = running.len().saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            parts.push(format!("sub-agents in the background: {}{more}", named.join("; ")));
        }
        match self.subagents.mail.unread(&self.agent) {
            0 => {}
            unread => {
                parts.push(format!("unread messages of agents: {unread}; `agents` with `inbox` reads them"))
            }
        }
        Ok((!parts.is_empty()).then(|| parts.join("\n")))
    }
}
