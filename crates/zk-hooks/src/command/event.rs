use std::fmt;

/// An event that command hooks take part in, by the name that settings have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// A call is about to be judged; it may be refused, or its input changed.
    PreToolUse,
    /// A call was made; its result may be replaced or added to.
    PostToolUse,
    /// All calls of an answer have their results; the run may be stopped, or words added.
    PostToolBatch,
    /// A person sent a prompt; it may be refused, or added to.
    UserPromptSubmit,
    /// The model is done; it may be told to go on.
    Stop,
    /// A [`HookEvent::Stop`] of a sub-agent.
    SubagentStop,
    /// A conversation begins or goes on.
    SessionStart,
    /// A conversation is left.
    SessionEnd,
    /// The conversation is about to be made shorter.
    PreCompact,
    /// A person is waited for.
    Notification,
    /// A person is about to be asked whether a call may run; the hook may answer instead.
    PermissionRequest,
}

impl HookEvent {
    /// All of them, in the order they are listed in.
    pub const ALL: [Self; 11] = [
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PostToolBatch,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStop,
        Self::SessionStart,
        Self::SessionEnd,
        Self::PreCompact,
        Self::Notification,
    ];

    /// The name in settings and in `hook_event_name`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolBatch => "PostToolBatch",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
            Self::PermissionRequest => "PermissionRequest",
        }
    }

    /// The event with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether a hook that fails means *no*.
    #[must_use]
    pub fn is_gate(self) -> bool {
        match self {
            Self::PreToolUse | Self::PermissionRequest | Self::UserPromptSubmit | Self::PreCompact => true,
            Self::PostToolUse
            | Self::PostToolBatch
            | Self::Stop
            | Self::SubagentStop
            | Self::SessionStart
            | Self::SessionEnd
            | Self::Notification => false,
        }
    }

    /// Whether what a hook prints is context for the model, if it is no JSON.
    pub(super) fn takes_text(self) -> bool {
        match self {
            Self::UserPromptSubmit | Self::SessionStart => true,
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::PostToolUse
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

/// Events that Claude Code has and zk does not: their hooks are left out, with a warning.
pub(super) const ELSEWHERE: [&str; 22] = [
    "ConfigChange",
    "CwdChanged",
    "DirectoryAdded",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "MessageDisplay",
    "PermissionDenied",
    "PostCompact",
    "PostModelSwitch",
    "PostToolUseFailure",
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
