use std::fmt;

/// Event of command hooks, named as in settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// Before a call is judged; hooks may refuse it or change its input.
    PreToolUse,
    /// After a call; hooks may replace its result or add to it.
    PostToolUse,
    /// After a call failed; hooks may add text.
    PostToolUseFailure,
    /// After all calls of an answer have results; hooks may stop the run or add text.
    PostToolBatch,
    /// After a person sent a prompt; hooks may refuse it or add to it.
    UserPromptSubmit,
    /// After the model's final answer; hooks may make it continue.
    Stop,
    /// A [`HookEvent::Stop`] of a sub-agent.
    SubagentStop,
    /// A conversation begins or is resumed.
    SessionStart,
    /// A conversation ends.
    SessionEnd,
    /// Before a compaction of the conversation.
    PreCompact,
    /// The program waits for the person.
    Notification,
    /// Before the person is asked about a call; a hook may answer instead.
    PermissionRequest,
    /// A call was refused, wherever that was decided.
    PermissionDenied,
    /// Tools and commands work in another directory from the next turn on.
    CwdChanged,
    /// A file of the project was created, changed or removed.
    FileChanged,
}

impl HookEvent {
    /// All events, in listing order.
    pub const ALL: [Self; 15] = [
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PermissionDenied,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PostToolBatch,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStop,
        Self::SessionStart,
        Self::SessionEnd,
        Self::PreCompact,
        Self::CwdChanged,
        Self::FileChanged,
        Self::Notification,
    ];

    /// Name in settings and in `hook_event_name`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PostToolBatch => "PostToolBatch",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
            Self::PermissionRequest => "PermissionRequest",
            Self::PermissionDenied => "PermissionDenied",
            Self::CwdChanged => "CwdChanged",
            Self::FileChanged => "FileChanged",
        }
    }

    /// The event with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether a failing hook refuses.
    #[must_use]
    pub fn is_gate(self) -> bool {
        match self {
            Self::PreToolUse | Self::PermissionRequest | Self::UserPromptSubmit | Self::PreCompact => true,
            Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::PermissionDenied
            | Self::CwdChanged
            | Self::FileChanged
            | Self::PostToolBatch
            | Self::Stop
            | Self::SubagentStop
            | Self::SessionStart
            | Self::SessionEnd
            | Self::Notification => false,
        }
    }

    /// Whether a hook's output that is no JSON is context for the model.
    pub(super) fn takes_text(self) -> bool {
        match self {
            Self::UserPromptSubmit | Self::SessionStart => true,
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::PermissionDenied
            | Self::CwdChanged
            | Self::FileChanged
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::PostToolBatch
            | Self::Stop
            | Self::SubagentStop
            | Self::SessionEnd
            | Self::PreCompact
            | Self::Notification => false,
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Events of Claude Code that zk does not have; their hooks are skipped with a warning.
pub(super) const UNSUPPORTED_EVENTS: [&str; 18] = [
    "ConfigChange",
    "DirectoryAdded",
    "Elicitation",
    "ElicitationResult",
    "InstructionsLoaded",
    "MessageDisplay",
    "PostCompact",
    "PostModelSwitch",
    "PreModelSwitch",
    "Setup",
    "StopFailure",
    "SubagentStart",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
    "WorktreeCreate",
    "WorktreeRemove",
];
