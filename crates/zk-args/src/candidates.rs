//! Words that shells offer for arguments.

use std::ffi::OsStr;
use std::sync::OnceLock;

use clap::ValueEnum;
use clap_complete::CompletionCandidate;
use zk_permission::Mode;
use zk_providers::select::ProviderMap;

/// Shell that completes command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "a comment on a value would stand in the help")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Nushell,
}

/// Words for completion that need the program's files.
#[derive(Clone, Copy, Debug)]
pub struct KnownWords {
    /// Ids of sessions that begin with a text, newest first, each with its title.
    pub sessions: fn(&str) -> Vec<(String, String)>,
    /// Pages of the documentation.
    pub pages: fn() -> Vec<String>,
}

static KNOWN: OnceLock<KnownWords> = OnceLock::new();

/// Sets the words of the program, once a process.
pub(crate) fn know(words: KnownWords) {
    // A second set of words would be those of the same program.
    let _ = KNOWN.set(words);
}

/// Sessions whose ids begin with `typed`, newest first; none unless the program said which there are.
pub(crate) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = KNOWN.get().map(|known| (known.sessions)(&typed.to_string_lossy())).unwrap_or_default();
    found.into_iter().map(|(id, title)| CompletionCandidate::new(id).help(Some(title.into()))).collect()
}

/// The permission modes, the strictest first.
pub(crate) fn modes() -> Vec<CompletionCandidate> {
    let mode = |mode: Mode| CompletionCandidate::new(mode.name()).help(Some(mode.describe().into()));
    Mode::ALL.into_iter().map(mode).collect()
}

/// The levels of thinking, the least first.
pub(crate) fn levels() -> Vec<CompletionCandidate> {
    ["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]
        .map(CompletionCandidate::new)
        .into()
}

/// Pages of the documentation; none unless the program said which there are.
pub(crate) fn pages() -> Vec<CompletionCandidate> {
    let pages = KNOWN.get().map(|known| (known.pages)()).unwrap_or_default();
    pages.into_iter().map(CompletionCandidate::new).collect()
}

/// The providers that zk knows without settings.
pub(crate) fn providers() -> Vec<CompletionCandidate> {
    ProviderMap::default().names().into_iter().map(CompletionCandidate::new).collect()
}
