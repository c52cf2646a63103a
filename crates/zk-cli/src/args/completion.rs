//! Completion of command lines: scripts for shells, and the words that they ask for.

use std::ffi::OsStr;

use clap::{Command, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Powershell, Zsh};
use clap_complete::{CompleteEnv, CompletionCandidate};
use clap_complete_nushell::Nushell;
use zk_core::service::{SessionFilter, SessionStore};

use super::help;
use crate::app::runtime;
use crate::dirs::Dirs;
use crate::env::Env;
use crate::exit::{Failure, Outcome};
use zk_permission::Mode;
use zk_providers::select::ProviderMap;
use zk_session::SqliteStore;

/// Variable by which the script of a shell asks for words.
const ASKED_BY: &str = "ZK_COMPLETE";

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

/// Answers a shell that asks for words, and ends the process then.
pub(crate) fn answer_shell() {
    if std::env::var_os(ASKED_BY).is_some() {
        CompleteEnv::with_factory(help::command).var(ASKED_BY).bin("zk").complete();
    }
}

/// The script that a shell reads at its start.
pub(crate) fn script(shell: Shell) -> Outcome<String> {
    let mut script = Vec::new();
    let asking: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Nushell => {
            clap_complete::generate(Nushell, &mut help::command(), "zk", &mut script);
            return String::from_utf8(script).map_err(Failure::failed);
        }
    };
    asking.write_registration(ASKED_BY, "zk", "zk", "zk", &mut script).map_err(Failure::failed)?;
    String::from_utf8(script).map_err(Failure::failed)
}

/// The sessions whose ids begin with what is typed, newest first. What cannot be read is not offered.
pub(super) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let list = || {
        let store = SqliteStore::new(Dirs::new(&Env::read()).sessions()?);
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
pub(super) fn providers() -> Vec<CompletionCandidate> {
    ProviderMap::default().names().into_iter().map(CompletionCandidate::new).collect()
}

/// Manual pages: a name and a text each, one for the program and one for each command.
pub(crate) fn manual_pages() -> Outcome<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    add_page(&help::command(), "zk".to_owned(), &mut pages)?;
    Ok(pages)
}

fn add_page(command: &Command, name: String, pages: &mut Vec<(String, Vec<u8>)>) -> Outcome<()> {
    let mut page = Vec::new();
    // The library takes names that live as long as the program.
    let titled = command.clone().name(name.clone().leak() as &'static str).display_name(name.clone());
    clap_mangen::Man::new(titled).render(&mut page).map_err(Failure::failed)?;
    pages.push((format!("{name}.1"), page));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        add_page(inner, format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}
