use zk_core::model::{RunId, SessionId};
use zk_core::service::Lease;

use super::{ConversationSession, OpeningError, SessionPlace};
use crate::history::{leg_recorder, take_unfinished};
use crate::load_live;

impl SessionPlace {
    /// Opens a session for the leg of a run, under its lease. A turn that an earlier leg left open stays open:
    /// [`ConversationSession::unfinished`] has it, and the agent settles it. The open turn of another run is completed as for
    /// any conversation.
    ///
    /// # Errors
    /// [`OpeningError`], such as that of a store without leases, or of an older token.
    pub async fn begin_leg(
        &self,
        id: &SessionId,
        run: &RunId,
        lease: &Lease,
    ) -> Result<ConversationSession, OpeningError> {
        let store = self.store()?;
        let open = store.open_leased(id, lease).await?;
        let live = open.live().await?;
        let mut loaded = load_live(&live);
        let Some(unfinished) = take_unfinished(run, &live, &mut loaded) else {
            return self.reopen(store, open).await;
        };
        let recorder = leg_recorder(open.clone(), &loaded, &unfinished);
        let recorder = self.noting_branch(recorder, &*open);
        let mut session = ConversationSession::of(self, store, open).resuming(recorder, loaded, live);
        session.unfinished = Some(unfinished);
        Ok(session)
    }
}
