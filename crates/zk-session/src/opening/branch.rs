use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::model::{EntryId, Message};
use zk_core::service::{BranchPath, Durability, Entry, EntryKind, SessionOutline, StoreError};

use super::{ConversationSession, OpeningError, SessionPlace};

/// Source of the messages that summarise a branch.
const BRANCH_SOURCE: &str = "branch";

impl ConversationSession {
    /// Finds the path from the present leaf to another entry, with the messages of the branch that is left.
    ///
    /// # Errors
    /// [`OpeningError::NotSaved`], and [`StoreError::NoEntry`] for an unknown entry.
    pub async fn find_path(&self, to: Option<&EntryId>) -> Result<BranchPath, OpeningError> {
        let open = self.open.as_ref().ok_or(OpeningError::NotSaved)?;
        if let Some(recorder) = &self.recorder {
            // Entries in flight belong to the branch that is left.
            let _ = recorder.saved().await;
        }
        let outline = SessionOutline::of_session(&**open).await?;
        if let Some(to) = to.filter(|to| !outline.contains(to)) {
            return Err(StoreError::NoEntry { session: open.id().clone(), entry: to.clone() }.into());
        }
        let left = outline.left_by(to);
        let messages = Arc::<Mutex<Vec<Arc<Message>>>>::default();
        let found = messages.clone();
        let visit = Box::new(move |entry: Entry, _: usize| {
            if let (EntryKind::Message { message, .. }, true) = (entry.kind, left.contains(&entry.id)) {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            }
            ControlFlow::Continue(())
        });
        open.scan(visit).await?;
        let left = std::mem::take(&mut *messages.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(BranchPath { from: outline.leaf().cloned(), left })
    }

    /// Moves the leaf after the entry `to`, and after the end of its run if it is the last answer of one, with a
    /// summary of the branch that is left, and returns the session that continues there. `self` then no longer closes
    /// the store's session.
    ///
    /// # Errors
    /// [`OpeningError`]; the leaf then stays where it was.
    pub async fn move_leaf(
        &self,
        place: &SessionPlace,
        to: Option<&EntryId>,
        summary: Option<String>,
    ) -> Result<Self, OpeningError> {
        self.move_leaf_from(place, to, summary).await.map(|(moved, _)| moved)
    }

    /// Moves the leaf as [`Self::move_leaf`] does. Returns the leaf before the move too.
    pub(super) async fn move_leaf_from(
        &self,
        place: &SessionPlace,
        to: Option<&EntryId>,
        summary: Option<String>,
    ) -> Result<(Self, Option<EntryId>), OpeningError> {
        let open = self.open.as_ref().ok_or(OpeningError::NotSaved)?;
        let outline = SessionOutline::of_session(&**open).await?;
        let left = outline.leaf().cloned();
        let to = to.map(|to| outline.end_of_run(to));
        let mut entries = vec![EntryKind::Leaf { to, left: left.clone() }];
        entries.extend(summary.map(|summary| EntryKind::Message {
            message: Message::injected(summary, BRANCH_SOURCE).shared(),
            usage: None,
        }));
        open.append(entries, Durability::Disk).await?;
        match place.reopen(place.store()?, open.clone()).await {
            Ok(moved) => {
                self.hand_over();
                Ok((moved, left))
            }
            Err(error) => {
                // The first error says more than one of moving back.
                let _ = self.take_leaf_back(left).await;
                Err(error)
            }
        }
    }

    /// Moves the leaf back to where it was before [`Self::move_leaf`], and continues in the store's session.
    pub(super) async fn take_leaf_back(&self, to: Option<EntryId>) -> Result<(), OpeningError> {
        let open = self.open.as_ref().ok_or(OpeningError::NotSaved)?;
        open.append(vec![EntryKind::Leaf { to, left: None }], Durability::Disk).await?;
        self.take_back();
        Ok(())
    }
}
