use std::sync::Arc;

use zk_core::events::{MessagesCause, SessionMessages, ToolResultsAfter};
use zk_core::model::{AgentError, Message, TurnId, TurnUsage};

use super::commit::Commit;
use super::state::RunState;

impl RunState {
    pub(crate) fn messages_commit(&self, messages: Vec<Arc<Message>>, cause: MessagesCause) -> Commit {
        Commit::Turns(SessionMessages { run_id: self.shared.id.clone(), messages, usage: None, cause })
    }

    pub(crate) fn answer_commit(&self, message: Arc<Message>, usage: Option<TurnUsage>) -> Commit {
        Commit::Turns(SessionMessages {
            run_id: self.shared.id.clone(),
            messages: vec![message],
            usage,
            cause: MessagesCause::Answer,
        })
    }

    /// Creates a commit of usage alone, for a turn that left no message.
    pub(crate) fn usage_commit(&self, usage: TurnUsage) -> Commit {
        let (messages, cause) = (Vec::new(), MessagesCause::Answer);
        Commit::Turns(SessionMessages { run_id: self.shared.id.clone(), messages, usage: Some(usage), cause })
    }

    pub(crate) fn pair_commit(
        &self,
        turn_id: TurnId,
        assistant: Arc<Message>,
        results: Arc<Message>,
        usage: TurnUsage,
    ) -> Commit {
        Commit::Pair(ToolResultsAfter { run_id: self.shared.id.clone(), turn_id, assistant, results, usage })
    }

    /// Appends a commit to the history, and has it stored. If storing fails, it stays in the history, the run
    /// stops, and the next run stores it first.
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

    /// Announces the commits that could not be stored again, oldest first.
    pub(crate) async fn store_pending(&self) -> Result<(), AgentError> {
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
