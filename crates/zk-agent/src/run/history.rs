use std::sync::Arc;

use zk_core::events::{MessagesCause, SessionMessages, ToolResultsAfter};
use zk_core::model::{AgentError, Message, TurnId, TurnUsage};

use super::commit::Commit;
use super::state::RunState;

impl RunState {
    pub(crate) fn turns(&self, messages: Vec<Arc<Message>>, cause: MessagesCause) -> Commit {
        Commit::Turns(SessionMessages { run_id: self.shared.id.clone(), messages, usage: None, cause })
    }

    pub(crate) fn answer(&self, message: Arc<Message>, usage: Option<TurnUsage>) -> Commit {
        Commit::Turns(SessionMessages {
            run_id: self.shared.id.clone(),
            messages: vec![message],
            usage,
            cause: MessagesCause::Answer,
        })
    }

    /// Returns a commit of the cost of a turn that left no message.
    pub(crate) fn billed(&self, usage: TurnUsage) -> Commit {
        let (messages, cause) = (Vec::new(), MessagesCause::Answer);
        Commit::Turns(SessionMessages { run_id: self.shared.id.clone(), messages, usage: Some(usage), cause })
    }

    pub(crate) fn pair(
        &self,
        turn_id: TurnId,
        assistant: Arc<Message>,
        results: Arc<Message>,
        usage: TurnUsage,
    ) -> Commit {
        Commit::Pair(ToolResultsAfter { run_id: self.shared.id.clone(), turn_id, assistant, results, usage })
    }

    /// Adds to the history and has it stored. What happened stays in the history even if it cannot be
    /// stored: the run stops then, and the next one begins by storing it.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<(), AgentError> {
        let commit = commit.identified();
        self.agent.state().history.extend(commit.messages());
        match commit.announce(&self.cx).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.agent.state().unstored.push(commit);
                Err(error)
            }
        }
    }

    /// Announces again what could not be stored, oldest first.
    pub(crate) async fn store_what_is_owed(&self) -> Result<(), AgentError> {
        loop {
            let owed = {
                let mut state = self.agent.state();
                if state.unstored.is_empty() {
                    return Ok(());
                }
                state.unstored.remove(0)
            };
            if let Err(error) = owed.announce(&self.cx).await {
                self.agent.state().unstored.insert(0, owed);
                return Err(error);
            }
        }
    }
}
