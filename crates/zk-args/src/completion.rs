//! Completion of command lines: scripts for shells, and the words that they ask for.

use std::io;
use std::string::FromUtf8Error;

use clap::Command;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, EnvCompleter, Fish, Powershell, Zsh};
use clap_complete_nushell::Nushell;

use crate::candidates::{self, KnownWords, Shell};
use crate::help;
use thiserror::Error;

/// Variable with which a shell's script requests completions.
const ASKED_BY: &str = "ZK_COMPLETE";

/// Date in the heading of manual pages. Without a date, the library moves the next word into its place.
const MANUAL_DAY: &str = "2026-11-27";

/// Failure of a library to write a completion script or a manual page.
#[derive(Debug, Error)]
pub enum CompletionError {
    /// The text could not be written.
    #[error("the page cannot be written: {0}")]
    Write(#[from] io::Error),
    /// The text is not UTF-8.
    #[error("the page is not text: {0}")]
    NotText(#[from] FromUtf8Error),
}

/// Answers a shell that requests completions, and then ends the process. Words that only the program knows are of
/// `known`.
pub fn answer_shell(known: KnownWords) {
    candidates::know(known);
    CompleteEnv::with_factory(help::command).var(ASKED_BY).bin("zk").complete();
}

/// End of the script of zsh. As the file `_zk` in a directory of `fpath`, the script is run by the first Tab in the
/// place of a function, which has to complete as well.
const ZSH_FIRST_TAB: &str =
    "\nif [[ ${funcstack[1]-} == _zk ]]; then\n    _clap_dynamic_completer_zk \"$@\"\nfi\n";

/// Returns the completion script of a shell.
pub fn script(shell: Shell) -> Result<String, CompletionError> {
    let mut script = Vec::new();
    let asking: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Nushell => {
            clap_complete::generate(Nushell, &mut help::command(), "zk", &mut script);
            return Ok(String::from_utf8(script)?);
        }
    };
    asking.write_registration(ASKED_BY, "zk", "zk", "zk", &mut script)?;
    let mut script = String::from_utf8(script)?;
    if matches!(shell, Shell::Zsh) {
        script.push_str(ZSH_FIRST_TAB);
    }
    Ok(script)
}

/// Returns the manual pages, as file name and text: one for the program and one for each command.
pub fn manual_pages() -> Result<Vec<(String, Vec<u8>)>, CompletionError> {
    let mut pages = Vec::new();
    add_page(&help::command(), "zk", &mut pages)?;
    Ok(pages)
}

fn add_page(
    command: &Command,
    name: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), CompletionError> {
    let mut page = Vec::new();
    // The library requires names of static lifetime.
    let titled = command.clone().name(name.to_owned().leak() as &'static str).display_name(name.to_owned());
    let man = clap_mangen::Man::new(titled).title(name.to_uppercase()).date(MANUAL_DAY).manual("zk");
    let man = man.source(concat!("zk ", env!("CARGO_PKG_VERSION")));
    man.render(&mut page)?;
    // The library adds line breaks around blank lines, which manual page readers warn about.
    let page = String::from_utf8(page)?.replace("\n.br\n\n.br\n", "\n.sp\n");
    pages.push((format!("{name}.1"), page.into_bytes()));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        add_page(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}
