use std::sync::Arc;

use zk_core::model::{AgentError, ErrorKind, Message, Phase, ProviderError, StopReason};

use crate::run::RunState;

/// Maximum number of times in a row that a provider may pause an answer.
const MAX_PAUSES: usize = 32;

impl RunState {
    /// Checks that a paused response may be continued: fails after too many pauses.
    pub(crate) fn check_pauses(&self) -> Result<(), AgentError> {
        let state = self.agent.state();
        let is_pause = |message: &&Arc<Message>| message.stop.as_ref().is_some_and(StopReason::is_pause);
        if state.history.iter().rev().take_while(is_pause).count() <= MAX_PAUSES {
            return Ok(());
        }
        let message = format!("the provider paused {} times in a row without an end", MAX_PAUSES + 1);
        let (provider, model) = (&*self.model.provider, &*self.model.id);
        let mut error = ProviderError::new(ErrorKind::Malformed, provider, model, Phase::Stream, message);
        error.hint = Some("Say `continue` to let it go on, or ask for less at once".to_owned());
        Err(error.into())
    }

    /// Returns the error for a stop reason after which the run cannot continue; `None` for other reasons.
    pub(crate) fn failure_of(&self, stop: StopReason) -> Option<AgentError> {
        let (kind, message, hint) = match stop {
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::StopSequence(_)
            | StopReason::PauseTurn
            | StopReason::Compaction
            | StopReason::Other(_) => return None,
            StopReason::Refusal(why) => (
                ErrorKind::Refused,
                why.unwrap_or_else(|| "the model refused to answer".to_owned()),
                "Ask differently, or use another model",
            ),
            StopReason::ContextExceeded => (
                ErrorKind::ContextExceeded,
                "the context window is full".to_owned(),
                "Start a new session, or use a model with a larger window",
            ),
            StopReason::Aborted | StopReason::Error => (
                ErrorKind::Malformed,
                format!("the provider calls a response complete that is not: it ended with `{stop}`"),
                "That is a bug in the provider; run it again, or use another one",
            ),
        };
        let model = &self.model;
        let mut error = ProviderError::new(kind, &*model.provider, &*model.id, Phase::Stream, message);
        error.hint = Some(hint.to_owned());
        Some(error.into())
    }
}
