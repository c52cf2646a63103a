use zk_core::events::{SessionBeforeReply, SessionBeforeTree, SessionTree};
use zk_core::kernel::{BoxError, Scope};
use zk_core::model::EntryId;
use zk_core::service::{
    BranchPath, Conversation as _, ConversationError, ConversationState, OpenedSession, SwitchTarget,
    TreeMove,
};

use super::{AgentConversation, check_reply, close_all};
use crate::agent::branch_summary::summarise_branch;

impl AgentConversation {
    /// Moves the leaf of the present session, and continues from there.
    pub(super) async fn move_leaf(
        &self,
        scopes: &mut Vec<Scope>,
        wanted: TreeMove,
    ) -> Result<ConversationState, ConversationError> {
        let cx = self.inner.agent.bus().cx();
        let target = || SwitchTarget::Tree(wanted.clone()).to_string();
        let session_id = self.state().session.ok_or_else(|| ConversationError::Unsupported {
            what: target(),
            reason: "this conversation is not stored, so it has no entries".into(),
        })?;
        let TreeMove { to, summary } = wanted.clone();
        let BranchPath { from, left } = self.inner.opener.find_path(to.as_ref()).await?;
        let ask = SessionBeforeTree { session_id: session_id.clone(), from: from.clone(), to: to.clone() };
        let reply = cx.emit(ask).await?;
        check_reply(reply.as_ref(), target)?;
        let given =
            reply.as_ref().map(SessionBeforeReply::summary).transpose().map_err(|error| {
                ConversationError::Unsupported { what: target(), reason: error.to_string() }
            })?;
        let summary = match (given.flatten(), summary) {
            (Some(given), _) => Some(given.to_owned()),
            (None, Some(wish)) if !left.is_empty() => {
                Some(summarise_branch(&self.inner.agent, &left, wish.instructions.as_deref()).await?)
            }
            (None, Some(_) | None) => None,
        };
        let has_summary = summary.is_some();
        let opened = self.inner.opener.move_leaf(to.as_ref(), summary).await?;
        close_all(scopes).await;
        let told = cx.emit(SessionTree { session_id, from: from.clone(), to, has_summary }).await;
        let installed = match told {
            Ok(_) => self.add_plugins(scopes, &opened.plugins),
            Err(error) => Err(error.into()),
        };
        match installed {
            Ok(()) => {
                self.begin_session(opened).await?;
                Ok(self.state())
            }
            Err(error) => Err(self.put_leaf_back(scopes, from.as_ref(), error).await),
        }
    }

    /// Moves the leaf back to `from` after a plugin failed, and returns the error that says so.
    async fn put_leaf_back(
        &self,
        scopes: &mut Vec<Scope>,
        from: Option<&EntryId>,
        error: ConversationError,
    ) -> ConversationError {
        close_all(scopes).await;
        let error: BoxError = match error {
            ConversationError::Install(error) => error,
            error => error.into(),
        };
        let without_session = match self.inner.opener.move_leaf(from, None).await {
            Ok(opened) => match self.add_plugins(scopes, &opened.plugins) {
                Ok(()) => {
                    return match self.begin_session(opened).await {
                        Ok(()) => ConversationError::LeafPutBack(error),
                        Err(error) => error,
                    };
                }
                Err(_) => format!("{error}; the leaf is back where it was"),
            },
            Err(second) => format!("{error}; the leaf stays where it was moved to: {second}"),
        };
        close_all(scopes).await;
        match self.begin_session(OpenedSession::default()).await {
            Ok(()) => ConversationError::Install(without_session.into()),
            Err(error) => error,
        }
    }
}
