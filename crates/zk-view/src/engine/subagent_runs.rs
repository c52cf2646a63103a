use zk_core::kernel::Origin;
use zk_core::model::Usage;

use super::Engine;
use crate::Text;

/// Approximate number of bytes of text in a token.
const BYTES_PER_TOKEN: u64 = 4;

/// Step in tokens of an estimate, so that the status does not change with each piece of text.
const ESTIMATE_STEP_TOKENS: u64 = 16;

/// Tokens of `bytes` of text that is still arriving, estimated.
pub(super) fn estimated_tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN / ESTIMATE_STEP_TOKENS * ESTIMATE_STEP_TOKENS
}

/// Time and tokens of a sub-agent's run.
#[derive(Debug)]
pub(super) struct SubagentRun {
    pub(super) began: u64,
    /// Tokens that were counted by the provider.
    counted: u64,
    /// Bytes of the arriving response, whose tokens are estimated.
    arriving: u64,
    /// Whether the run was stopped.
    pub(super) is_stopped: bool,
}

impl SubagentRun {
    pub(super) fn begin(now: u64) -> Self {
        Self { began: now, counted: 0, arriving: 0, is_stopped: false }
    }

    fn tokens(&self) -> u64 {
        self.counted + estimated_tokens(self.arriving)
    }
}

impl Engine {
    /// Counts the text of a sub-agent's arriving response.
    pub(super) fn count_agent_text(&mut self, origin: &Origin, bytes: u64) {
        self.change_agent_tokens(origin, |run| run.arriving += bytes);
    }

    /// Discards the count of a sub-agent's response that broke off.
    pub(super) fn discard_agent_text(&mut self, origin: &Origin) {
        self.change_agent_tokens(origin, |run| run.arriving = 0);
    }

    /// Counts a turn of a sub-agent, whose calls may still run.
    pub(super) fn count_agent_turn(&mut self, origin: &Origin, usage: &Usage) {
        self.change_agent_tokens(origin, |run| {
            (run.counted, run.arriving) = (run.counted + usage.read() + usage.output, 0);
        });
        let name = Text::line(&origin.agent);
        self.change_agents(|agents| {
            let row = agents.iter_mut().rev().find(|row| row.name == name);
            if let Some(row) = row.filter(|_| origin.depth > 0) {
                row.turns += 1;
            }
        });
    }

    /// Sets the tokens of a sub-agent's run, including those of its own sub-agents.
    pub(super) fn set_agent_tokens(&mut self, origin: &Origin, tokens: u64) {
        self.change_agent_tokens(origin, |run| (run.counted, run.arriving) = (tokens, 0));
    }

    fn change_agent_tokens(&mut self, origin: &Origin, change: impl FnOnce(&mut SubagentRun)) {
        let Some(run) = self.subagents.get_mut(&*origin.agent).filter(|_| origin.depth > 0) else { return };
        let before = run.tokens();
        change(run);
        let tokens = run.tokens();
        if tokens == before {
            return;
        }
        let name = Text::line(&origin.agent);
        self.change_agents(|agents| {
            if let Some(row) = agents.iter_mut().rev().find(|row| row.name == name) {
                row.tokens = tokens;
            }
        });
    }
}
