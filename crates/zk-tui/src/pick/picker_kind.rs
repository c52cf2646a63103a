use super::Asked;

/// Entries that a picker chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PickerKind {
    Commands,
    Models,
    Sessions,
    /// Prompts and answers of this session, at which the conversation can branch.
    Tree,
    Files,
    Agents,
    Jobs,
    Themes,
}

/// Keys that all pickers have.
pub(super) const KEYS: [(&str, &str); 7] = [
    ("letters", "find what has them, in this order"),
    ("↑ ↓ Ctrl-P Ctrl-N", "another one"),
    ("PgUp PgDn", "a page of them"),
    ("Tab Shift-Tab", "another list"),
    ("Ctrl-U Ctrl-W", "clear the letters"),
    ("Esc Ctrl-C Ctrl-D Ctrl-O", "close it"),
    ("Ctrl-Z", "stop zk itself; `fg` goes on"),
];

impl PickerKind {
    pub(super) const ALL: [Self; 8] = [
        Self::Commands,
        Self::Models,
        Self::Sessions,
        Self::Tree,
        Self::Files,
        Self::Agents,
        Self::Jobs,
        Self::Themes,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Models => "models",
            Self::Sessions => "sessions",
            Self::Tree => "prompts",
            Self::Files => "files",
            Self::Agents => "sub-agents",
            Self::Jobs => "jobs",
            Self::Themes => "themes",
        }
    }

    /// Effect of Enter, for the hint row.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Commands => "Enter runs",
            Self::Files => "Enter takes it",
            Self::Models | Self::Themes => "Enter changes to it",
            Self::Sessions => "Enter resumes",
            Self::Tree => "Enter goes on from here (files stay as they are)",
            Self::Agents => "Enter opens it",
            Self::Jobs => "Enter shows its output",
        }
    }

    /// Effect of Enter, for the table of keys.
    pub(super) fn enter_key(self) -> &'static str {
        match self {
            Self::Commands => "run it, or put it in where it takes more",
            Self::Files => "take it",
            Self::Models | Self::Themes => "change to it",
            Self::Sessions => "resume it",
            Self::Tree => "go on from here, before a prompt (files stay as they are)",
            Self::Agents => "open it",
            Self::Jobs => "show its output",
        }
    }

    /// Keys that only this picker has, for the hint row.
    pub(super) fn more_keys(self) -> &'static str {
        match self {
            Self::Sessions => " · Ctrl-R renames · Ctrl-K removes",
            Self::Jobs => " · Ctrl-K ends it",
            Self::Tree => " · Ctrl-S with a summary · Ctrl-T filters · Ctrl-B folds",
            Self::Agents => " · Ctrl-K stops it · Ctrl-S steers it",
            Self::Commands | Self::Models | Self::Files | Self::Themes => "",
        }
    }

    /// Keys that only this picker has, for the table of keys.
    pub(super) fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Models => &[("← →", "less or more thinking, where the model has levels")],
            Self::Sessions => &[("Ctrl-R", "give it another title"), ("Ctrl-K twice", "remove it for good")],
            Self::Jobs => &[("Ctrl-K", "end it")],
            Self::Tree => &[
                ("Ctrl-S", "go on from here, with a summary of the branch that is left"),
                ("Ctrl-T", "prompts alone, labelled ones alone, or all"),
                ("Ctrl-B", "fold the other branches, or unfold them"),
            ],
            Self::Agents => {
                &[("Ctrl-K", "stop it"), ("Ctrl-S", "write to it: it reads the line after its current call")]
            }
            Self::Commands | Self::Files | Self::Themes => &[],
        }
    }

    /// Message for an empty list.
    pub(super) fn empty(self) -> &'static str {
        match self {
            Self::Commands => "no command yet: the conversation is being opened",
            Self::Models => "loading models… a name can be typed",
            Self::Sessions => "no session of this directory is stored yet",
            Self::Tree => "no earlier prompt of this session is stored",
            Self::Files => "no file found so far",
            Self::Agents => "no sub-agent has worked yet",
            Self::Jobs => "no command runs in the background: `/jobs start COMMAND` starts one",
            Self::Themes => "no theme yet: the conversation is being opened",
        }
    }

    pub(super) fn completion_request(self) -> Option<Asked> {
        let argument = |command: &str| Some(Asked::Argument(command.to_owned()));
        match self {
            Self::Commands => Some(Asked::Command),
            Self::Files => Some(Asked::File),
            Self::Models => argument("model"),
            Self::Sessions => argument("resume"),
            Self::Tree => argument("tree"),
            Self::Themes => argument("theme"),
            Self::Agents | Self::Jobs => None,
        }
    }

    /// Whether a typed value outside of the list can be chosen.
    pub(super) fn takes_typed(self) -> bool {
        matches!(self, Self::Models | Self::Files)
    }

    /// Kind of picker that a command without arguments opens.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        match line {
            "/" => Some(Self::Commands),
            "/model" => Some(Self::Models),
            "/resume" | "/sessions" => Some(Self::Sessions),
            "/tree" => Some(Self::Tree),
            "/agents" => Some(Self::Agents),
            "/jobs" => Some(Self::Jobs),
            "/theme" => Some(Self::Themes),
            _ => None,
        }
    }
}

/// Whether a line on a drawn screen opens a picker instead of running a command.
#[must_use]
pub fn opens_picker(line: &str) -> bool {
    PickerKind::of_line(line.trim()).is_some()
}
