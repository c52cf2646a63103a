//! Messages of the protocol, as data.

/// First request, and who is attached.
pub mod attach;
/// Requests about one conversation.
pub mod conversation;
/// Notifications.
pub mod notes;
/// Errors by their codes.
pub mod refusal;
/// Requests about stored sessions.
pub mod sessions;
