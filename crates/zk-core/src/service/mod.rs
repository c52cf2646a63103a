//! Object-safe traits through which the crates of zk use each other.
//!
//! Tools, providers and commands are registry items ([`Scope::provide`](crate::kernel::Scope::provide)). The
//! other traits are services ([`Scope::provide_service`](crate::kernel::Scope::provide_service)), of which a
//! bus has one each.

mod backend;
mod clock;
mod conversation;
mod engine;
mod exec;
mod files;
mod permission;
mod plugin_settings;
mod prompt;
mod provider;
mod redact;
mod session;
mod tool;
mod trace;
mod ui;

pub use backend::{BUILT_IN_BACKEND, Backend, BuiltInBackend};
pub use clock::{Clock, SystemClock};
pub use conversation::{
    AgentPart, BranchPath, BranchSummary, COMPRESS_PART, Conversation, ConversationError, ConversationState,
    CurrentCwd, Delivery, EMBEDDINGS_PART, EXPLORE_PART, ExpandedPrompts, KNOWN_PARTS, KnownPart,
    MessageDelivery, OpenedSession, PartFallback, PartModel, PartModels, PresetParts, PresetServer,
    PresetSkill, RunControl, RunEnded, RunState, RunningAgents, SUBGOAL_PART, SUMMARY_PART, SUPERVISOR_PART,
    SessionOpener, SideAnswer, SideCall, Submitted, SwitchTarget, TITLE_PART, TreeMove, TurnCwd, TurnEnv,
    part_fallback,
};
pub use engine::{
    CronError, CronLine, Engine, EngineError, EngineHealth, EngineName, EngineRun, HandoverCause, JOB_FORMAT,
    Job, JobParent, Lease, LegEnd, LegFailure, Legs, MAX_CALL_ID_BYTES, MAX_ENGINE_NAME_BYTES, MAX_JOB_BYTES,
    MAX_WAITED_CHILDREN, MIN_SCHEDULE_INTERVAL, RunFilter, RunPhase, Schedule, ScheduleTimes, ScheduledJob,
    Take, UnreadableEntry, UnreadableKind, Wait, WorkerHealth,
};
pub use exec::{
    Attendance, Connections, Denial, DeniedAct, EnvPolicy, Exec, ExecError, ExecOutcome, ExecRequest, Exit,
    Input, KillSignal, LineSplitter, LineTooLong, OutputSink, OutputStream, OutsideExec, Process,
    ProcessEvent, ReadExec, TerminalSize, attend, shell_word,
};
pub use files::{
    BlobError, BlobId, Blobs, CachedFile, Checkpoint, CheckpointOf, CopyChanges, FileIdentity, FileKind,
    FileOwner, FileStat, FileWatch, Files, GuardedPath, HostFile, HostFileError, HostFiles, HostRead,
    IsolatedCopy, Isolation, IsolationError, MAX_WORKSPACE_REF_BYTES, OnChange, OutsideFiles, Overflow,
    PathError, PathGuard, Resolved, RunBy, SearchFound, SearchMode, SearchQuery, StateFileError, StateFiles,
    StateLock, WalkEntry, WalkOptions, WalkReport, WorkspaceError, WorkspaceRef, Workspaces, WriteReceipt,
    make_private_dir, open_regular, read_regular,
};
pub use permission::{
    CallDecision, CallGuard, CallJudge, CallJudgement, CallOffer, Trust, TrustError, TrustItem,
};
pub use plugin_settings::{PluginSettings, PluginSettingsError, settings_of};
pub use prompt::{
    Compacted, ContextId, ContextMode, ContextProducer, ContextWindow, DYNAMIC_CONTEXT, FixedSection,
    PinnedContext, PromptSection, QUERY_CONTEXT, Reduction, SharedReads, WindowCause, WindowFill,
    WindowLevel, WindowPlan, WindowStrategy, WindowView, drop_section, is_dynamic_context, is_said,
    section_order,
};
pub use provider::{
    BlockWriter, EventStream, OutputFormat, Provider, Request, RetryNotice, StreamEvent, ToolChoice,
};
pub use redact::{REDACTED, RedactedPieces, Redactor, looks_like_key};
pub use session::{
    ANSWER_ENTRY, Audience, COMPACTION_ENTRY, COMPACTION_VERSION, ChildBudget, ChildRun, ChildRuns,
    ChildRunsError, ChildState, CompactionMark, CustomEntry, CutMark, DebugDump, Durability, ENTRY_VERSION,
    Entry, EntryData, EntryKind, EntryVisitor, LeftSession, Leg, LegAnswer, LiveEntries, Lock,
    MAX_MAIL_BYTES, Mail, MailKind, Mailbox, MessageVisitor, NewEntry, NewSession, OpenSession, OpenTurn,
    OutlineKind, OutlineRow, ParkedCall, ParkedQuestion, ParkedWait, QUESTION_ENTRY, RUN_BUDGET_ENTRY, Relay,
    RelayListener, RelayPiece, RelaySide, RelaySignal, RunBudget, RunStatus, SKILL_TAG, SKILL_TOOL,
    SessionFilter, SessionInfo, SessionLog, SessionOutline, SessionScan, SessionSnapshot, SessionStore,
    SideCallOf, StoreError, StoredCall, StoredCallState, StoredConversation, StoredQuestion, StoredRunBudget,
    StoredWait, SubAgentEntry, SubAgentStep, SubAgentTexts, UnfinishedRun, Unreadable, WAIT_ENTRY,
    WINDOW_OWNER, WithinLeg, check_leaf, count_branches, entry_labels, first_line, has_skill_text,
    is_remember_line, present_branch, spent_in,
};
#[cfg(feature = "typed")]
pub use tool::FnTool;
pub use tool::{
    BegunCall, CallEnd, CallPlace, CallSteps, Gated, NotRun, Progress, RunTool, RunTools, SERVER_TOOL_PREFIX,
    STOPPED_BEFORE_CALL, Tool, ToolCx, UNCHANGED_READ, UnknownTool, Validated, call_line,
    foreign_server_names, main_argument, validate,
};
pub use trace::{TraceContext, trace_variables};
pub use ui::{
    AnswerError, Approval, ApprovalCard, ArgumentChoice, AskedKind, CardChoice, CardPart, Command,
    CommandOutcome, FrontEnd, HunkHead, MAX_MARKS, PartKind, PendingQuestion, Question, QuestionDigest,
    QuestionId, Questions, RenderInput, RenderedRow, RenderedSpan, Renderer, Section, SectionKind, Selection,
    SpanRole, TrustRequest, Ui, UiAnswer, WORDS_KEY, Wider, WiderKind, is_combining_mark, match_command,
    text_of_visible_lines, visible_diff, visible_line, visible_lines,
};
