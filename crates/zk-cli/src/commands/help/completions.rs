use std::path::Path;

use zk_core::service::{SessionFilter, SessionStore};
use zk_session::SqliteStore;

use crate::app::{Machine, runtime};
use crate::args::{self, KnownWords, Shell};
use crate::commands::print_text;
use crate::exit::{Exit, Failure, Outcome};
use crate::host;

/// Most sessions that the completion offers.
const MAX_SESSIONS: usize = 50;

/// Prints the script by which a shell completes command lines of zk.
pub(crate) fn completions(machine: &Machine, shell: Shell) -> Outcome<Exit> {
    let script = args::script(shell)?;
    print_text(machine, &script)
}

/// Writes the manual pages of the program and its commands into a directory, which is made where it is absent.
pub(crate) fn manual_pages(dir: &Path) -> Outcome<Exit> {
    let cannot =
        |error| Failure::failed(format!("cannot write manual pages into {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    for (name, page) in args::manual_pages()? {
        std::fs::write(dir.join(name), page).map_err(cannot)?;
    }
    Ok(Exit::Done)
}

/// Returns the completion's word lists that need files of the person, such as sessions.
pub(crate) fn known_words() -> KnownWords {
    KnownWords { sessions, pages: super::page_names }
}

/// Sessions whose ids begin with `typed`, newest first, with their titles; empty if the store cannot be read.
fn sessions(typed: &str) -> Vec<(String, String)> {
    let list = || {
        let store = SqliteStore::new(host::zk_dirs(&host::program_env()).sessions()?);
        let filter = SessionFilter { limit: Some(MAX_SESSIONS), ..SessionFilter::default() };
        runtime().ok()?.block_on(store.list(&filter)).ok()
    };
    let found = list().unwrap_or_default().into_iter().filter(|info| info.id.as_str().starts_with(typed));
    found.map(|info| (info.id.as_str().to_owned(), info.title)).collect()
}
