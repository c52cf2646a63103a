use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ContextMode, ContextProducer, PinnedContext};

use super::subagents::{Handle, Subagents};

/// Maximum number of background sub-agents that a request names.
const MAX_NAMED: usize = 8;

/// Heading of the list of running sub-agents that is sent after a compaction.
const RUNNING: &str = "Sub-agents that were at work when earlier messages left this context. Of those that are done by now, what they \
     gave comes later:";

/// Running sub-agents of one agent: listed after a compaction, and with each request.
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

/// Names the background sub-agents and the number of unread messages in each request. The messages are read
/// on request.
#[async_trait]
impl ContextProducer for RunningChildren {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        let running: Vec<_> = self.running().into_iter().filter(|handle| handle.is_background).collect();
        let mut parts = Vec::new();
        if !running.is_empty() {
            // Angle brackets in a task must not be read as tags.
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
