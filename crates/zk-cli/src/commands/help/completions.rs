use std::path::Path;

use crate::app::Machine;
use crate::args::candidates::Shell;
use crate::args::completion;
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};

/// Prints the script by which a shell completes command lines of zk.
pub(crate) fn completions(machine: &Machine, shell: Shell) -> Outcome<Exit> {
    let script = completion::script(shell)?;
    print(machine, &script.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Writes the manual pages of the program and its commands into a directory, which is made where it is absent.
pub(crate) fn manual_pages(dir: &Path) -> Outcome<Exit> {
    let cannot =
        |error| Failure::failed(format!("cannot write manual pages into {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    for (name, page) in completion::manual_pages()? {
        std::fs::write(dir.join(name), page).map_err(cannot)?;
    }
    Ok(Exit::Done)
}
