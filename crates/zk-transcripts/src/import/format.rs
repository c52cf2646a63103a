use std::fmt;
use std::path::PathBuf;

/// Format of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TranscriptFormat {
    /// Claude Code: `~/.claude/projects/*/*.jsonl`.
    Claude,
    /// codex: `~/.codex/sessions/**/rollout-*.jsonl`.
    Codex,
    /// pi: `~/.pi/agent/sessions/*/*.jsonl`.
    Pi,
    /// opencode: its database, or what `opencode export` writes.
    Opencode,
    /// zk: what `zk sessions export --format jsonl` writes.
    Zk,
}

impl TranscriptFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Pi, Self::Opencode, Self::Zk];

    /// Name of the format, as it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::Opencode => "opencode",
            Self::Zk => "zk",
        }
    }
}

impl fmt::Display for TranscriptFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claude => "Claude Code",
            Self::Codex | Self::Pi | Self::Opencode | Self::Zk => self.name(),
        })
    }
}

/// Transcript that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptRef {
    /// Format of the file.
    pub format: TranscriptFormat,
    /// Path of the file.
    pub path: PathBuf,
    /// Session in the file, if it holds several.
    pub session: Option<String>,
}
