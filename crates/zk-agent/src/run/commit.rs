use std::sync::Arc;

use zk_core::events::{MessagesCause, SessionMessages, ToolResultsAfter};
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, Message, MessageId};

/// Messages that join the history and the store together.
pub(crate) enum Commit {
    /// An assistant message and the results of its calls, stored as one unit.
    Pair(ToolResultsAfter),
    /// Messages other than an answer with its results.
    Turns(SessionMessages),
}

/// Assigns ids to messages without one, which plugins and embedders created.
pub(crate) fn identified(mut messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    for message in messages.iter_mut().filter(|message| message.id.is_none()) {
        Arc::make_mut(message).id = Some(MessageId::fresh());
    }
    messages
}

impl Commit {
    /// Creates the commit of a message added outside of a run.
    pub(crate) fn injected(message: Arc<Message>) -> Self {
        Self::Turns(SessionMessages {
            run_id: "".into(),
            messages: vec![message],
            usage: None,
            cause: MessagesCause::Harness,
        })
    }

    /// Assigns ids to all messages of the commit.
    pub(crate) fn identified(self) -> Self {
        match self {
            // The agent created both messages with ids.
            Self::Pair(pair) => Self::Pair(pair),
            Self::Turns(turns) => {
                Self::Turns(SessionMessages { messages: identified(turns.messages), ..turns })
            }
        }
    }

    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        match self {
            Self::Pair(pair) => vec![pair.assistant.clone(), pair.results.clone()],
            Self::Turns(turns) => turns.messages.clone(),
        }
    }

    pub(crate) async fn announce(&self, cx: &Cx) -> Result<(), AgentError> {
        match self {
            Self::Pair(pair) => Ok(cx.emit(pair.clone()).await?),
            Self::Turns(turns) => Ok(cx.emit(turns.clone()).await?),
        }
    }
}
