//! Sessions: their store, their entries, and the conversation loaded from a session.

mod debug_dump;
mod entry;
mod entry_data;
mod entry_parts;
mod left_session;
mod leg;
mod listing;
mod log;
mod outline;
mod restore;
mod store;
mod store_error;
mod stored_conversation;
mod sub_agent;
mod tree;

pub use debug_dump::DebugDump;
pub use entry::{ENTRY_VERSION, Entry, EntryKind, RunStatus, SideCallOf};
pub use entry_data::EntryData;
pub use left_session::LeftSession;
pub use leg::{
    ANSWER_ENTRY, ChildBudget, ChildRun, ChildRuns, ChildRunsError, ChildState, Leg, LegAnswer,
    MAX_MAIL_BYTES, Mail, MailKind, Mailbox, OpenTurn, ParkedCall, ParkedQuestion, ParkedWait,
    QUESTION_ENTRY, RUN_BUDGET_ENTRY, Relay, RelayListener, RelayPiece, RelaySide, RelaySignal, RunBudget,
    StoredCall, StoredCallState, StoredQuestion, StoredRunBudget, StoredWait, UnfinishedRun, WAIT_ENTRY,
    WithinLeg, spent_in,
};
pub use listing::{Lock, SessionFilter, SessionInfo, Unreadable};
pub use log::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CompactionMark, CustomEntry, CutMark, MessageVisitor,
    NewEntry, SKILL_TAG, SKILL_TOOL, SessionLog, WINDOW_OWNER, has_skill_text, is_remember_line,
};
pub use outline::{OutlineKind, OutlineRow, SessionOutline, first_line};
pub use store::{Durability, NewSession, OpenSession, SessionStore};
pub use store_error::StoreError;
pub use stored_conversation::{EntryVisitor, LiveEntries, SessionScan, SessionSnapshot, StoredConversation};
pub use sub_agent::{SubAgentEntry, SubAgentStep, SubAgentTexts};
pub use tree::{check_leaf, count_branches, entry_labels, present_branch};
