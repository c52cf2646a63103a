//! Sessions: their store, their entries, and the conversation loaded from a session.

mod debug_dump;
mod entry_data;
mod entry_parts;
mod left_session;
mod log;
mod store;
mod stored_conversation;

pub use debug_dump::DebugDump;
pub use entry_data::EntryData;
pub use left_session::LeftSession;
pub use log::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CompactionMark, CustomEntry, CutMark, MessageVisitor,
    NewEntry, SKILL_TAG, SKILL_TOOL, SessionLog, WINDOW_OWNER, has_skill_text, is_remember_line,
};
pub use store::{
    Durability, ENTRY_VERSION, Entry, EntryKind, Lock, NewSession, OpenSession, RunStatus, SessionFilter,
    SessionInfo, SessionStore, SideCallOf, StoreError, Unreadable,
};
pub use stored_conversation::{EntryVisitor, LiveEntries, SessionScan, SessionSnapshot, StoredConversation};
