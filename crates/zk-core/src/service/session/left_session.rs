use crate::model::SessionId;

/// Part of a session that is in the store after the conversation left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftSession {
    /// The whole conversation of the session with this id.
    All(SessionId),
    /// All but the last entries.
    Part {
        /// Id of the session with the stored entries.
        id: SessionId,
        /// Number of entries that are not stored.
        missing: usize,
    },
    /// Nothing is stored: there is no session, or it had no answer.
    Nothing,
}
