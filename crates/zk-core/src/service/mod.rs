//! The object-safe traits behind which the crates of zk meet.
//!
//! Tools, providers and commands are registry items ([`Scope::provide`](crate::kernel::Scope::provide));
//! the rest are services ([`Scope::provide_service`](crate::kernel::Scope::provide_service)), one of each.

mod blobs;
mod call;
mod call_judge;
mod clock;
mod command;
mod context_id;
mod context_producer;
mod conversation;
mod debug_dump;
mod entry_data;
mod exec;
mod files;
#[cfg(feature = "typed")]
mod fn_tool;
mod guarded_paths;
mod host_files;
mod plugin_settings;
mod prompt_section;
mod provider;
mod questions;
mod redact;
mod run_control;
mod run_tools;
mod session_log;
mod state_files;
mod store;
mod stored_conversation;
mod tool;
mod trust;
mod ui;
mod window;

pub use blobs::{BlobError, BlobId, Blobs};
pub use call::{BegunCall, CallEnd, CallSteps, Gated, NotRun, STOPPED_BEFORE_CALL, Validated, validate};
pub use call_judge::{CallDecision, CallGuard, CallJudge, CallJudgement, CallOffer};
pub use clock::{Clock, SystemClock};
pub use command::{Command, CommandOutcome, match_command};
pub use context_id::ContextId;
pub use context_producer::{
    ContextMode, ContextProducer, DYNAMIC_CONTEXT, QUERY_CONTEXT, is_dynamic_context,
};
pub use conversation::{
    Conversation, ConversationError, ConversationState, CurrentCwd, Delivery, OpenedSession, SessionOpener,
    Submitted, SwitchTarget, TurnCwd, TurnEnv,
};
pub use debug_dump::DebugDump;
pub use entry_data::EntryData;
pub use exec::{
    Connections, Denial, DeniedAct, EnvPolicy, Exec, ExecError, ExecOutcome, ExecRequest, Exit, Input,
    KillSignal, OutputSink, OutputStream, OutsideExec, Process, ProcessEvent, ReadExec, TerminalSize,
};
pub use files::{
    CachedFile, FileIdentity, FileKind, FileStat, FileWatch, Files, OnChange, PathError, Resolved,
    SearchFound, SearchMode, SearchQuery, WalkEntry, WalkOptions, WalkReport, WriteReceipt,
};
#[cfg(feature = "typed")]
pub use fn_tool::FnTool;
pub use guarded_paths::{GuardedPath, PathGuard, RunBy};
pub use host_files::{FileOwner, HostFile, HostFileError, HostFiles, HostRead, Overflow};
pub use plugin_settings::{PluginSettings, PluginSettingsError, settings_of};
pub use prompt_section::{FixedSection, PromptSection, drop_section, section_order};
pub use provider::{EventStream, OutputFormat, Provider, Request, RetryNotice, StreamEvent, ToolChoice};
pub use questions::{
    Answer as UiAnswer, AnswerError, Approval, FrontEnd, MAX_MARKS, PendingQuestion, Question,
    QuestionDigest, QuestionId, Questions, Section, SectionKind, Wider, WiderKind, is_combining_mark,
    text_of_visible_lines, visible_line, visible_lines,
};
pub use redact::{REDACTED, RedactedPieces, Redactor};
pub use run_control::{RunControl, RunEnded, RunState, SideAnswer, SideCall};
pub use run_tools::{RunTool, RunTools, UnknownTool};
pub use session_log::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CompactionMark, CustomEntry, CutMark, MessageVisitor,
    NewEntry, SKILL_TAG, SKILL_TOOL, SessionLog, WINDOW_OWNER, asks_to_remember, has_skill_text,
};
pub use state_files::{StateFileError, StateFiles, StateLock};
pub use store::{
    Durability, ENTRY_VERSION, Entry, EntryKind, Lock, NewSession, OpenSession, RunStatus, SessionFilter,
    SessionInfo, SessionStore, SideCallOf, StoreError, Unreadable,
};
pub use stored_conversation::{EntryVisitor, LiveEntries, SessionScan, SessionSnapshot, StoredConversation};
pub use tool::{CallPlace, Progress, Tool, ToolCx};
pub use trust::{Trust, TrustError, TrustItem};
pub use ui::Ui;
pub use window::{
    Compacted, ContextWindow, PinnedContext, Reduction, WindowCause, WindowFill, WindowLevel, WindowPlan,
    WindowStrategy, WindowView,
};
