//! Words that shells offer for arguments.

use std::ffi::OsStr;

use clap::ValueEnum;
use clap_complete::CompletionCandidate;
use zk_core::service::{SessionFilter, SessionStore};
use zk_permission::Mode;
use zk_providers::select::ProviderMap;
use zk_session::SqliteStore;

use crate::app::runtime;
use crate::host;

/// Sessions that are offered.
const MAX_SESSIONS: usize = 50;

/// Shell that completes command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Nushell,
}

/// Sessions whose ids begin with `typed`, newest first; empty if the store cannot be read.
pub(super) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let list = || {
        let store = SqliteStore::new(host::zk_dirs(&host::program_env()).sessions()?);
        let filter = SessionFilter { limit: Some(MAX_SESSIONS), ..SessionFilter::default() };
        runtime().ok()?.block_on(store.list(&filter)).ok()
    };
    let found = list().unwrap_or_default().into_iter().filter(|info| info.id.as_str().starts_with(&*typed));
    found.map(|info| CompletionCandidate::new(info.id.as_str()).help(Some(info.title.into()))).collect()
}

/// The permission modes, the strictest first.
pub(super) fn modes() -> Vec<CompletionCandidate> {
    let mode = |mode: Mode| CompletionCandidate::new(mode.name()).help(Some(mode.describe().into()));
    Mode::ALL.into_iter().map(mode).collect()
}

/// The levels of thinking, the least first.
pub(super) fn levels() -> Vec<CompletionCandidate> {
    ["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]
        .map(CompletionCandidate::new)
        .into()
}

/// The providers that zk knows without settings.
pub(super) fn pages() -> Vec<CompletionCandidate> {
    crate::commands::page_names().into_iter().map(CompletionCandidate::new).collect()
}

pub(super) fn providers() -> Vec<CompletionCandidate> {
    ProviderMap::default().names().into_iter().map(CompletionCandidate::new).collect()
}
