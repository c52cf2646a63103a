use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use zk_chat::{EditorEnv, edit_file};
use zk_core::service::StateFiles as _;
use zk_exec::{Environment, LocalStateFiles, ProcessExec};
use zk_tui::term::print_stderr;

use super::{UNAPPROVED, lock_of, make_directory_of, settings_file, text_of};
use crate::additions::Additions;
use crate::app::Machine;
use crate::commands::print_words as print;
use crate::exit::{Exit, Failure, Outcome};
use crate::own_files;
use crate::settings::Settings;
use crate::stdin;

/// Has the person change a settings file in their editor. A text with faults counts for nothing and is kept beside the
/// file, where the next call goes on with it.
pub(crate) fn config_edit(
    machine: &Machine,
    project: &Path,
    is_project: bool,
    additions: Additions,
) -> Outcome<Exit> {
    if !stdin::is_terminal() {
        return Err(Failure::usage(
            "this opens an editor on a terminal; without one, `zk config set KEY VALUE` changes a setting",
        ));
    }
    let (layer, path) = settings_file(machine, project, is_project)?;
    make_directory_of(&path, layer)?;
    let files = LocalStateFiles::default();
    let before = text_of(&path)?;
    let draft = path.with_extension("draft.toml");
    match own_files::read_text(&draft, own_files::RECORD) {
        Ok(_) => print_stderr(&format!("zk: going on with {}, which did not count yet", draft.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            files.replace(&draft, before.as_bytes()).map_err(Failure::failed)?;
        }
        Err(error) => return Err(Failure::failed(format!("{}: {error}", draft.display()))),
    }
    let editor = EditorEnv::new(|name| machine.env.get(name).map(OsStr::to_owned));
    let exec = ProcessExec::new(Environment::filtered(machine.env.without_secrets()));
    edit_file(&editor, &exec, Arc::new(machine.host_files.clone()), &draft).map_err(Failure::failed)?;
    let after = text_of(&draft)?;
    let warnings =
        Settings::check_file(additions, &machine.host_files, layer, &draft).map_err(|failure| {
            Failure::usage(format!("{failure}\nnothing was changed; `zk config edit` goes on with this text"))
        })?;
    let locked = files.lock(&lock_of(&path)).map_err(Failure::failed)?;
    if text_of(&path)? != before {
        return Err(Failure::failed(format!(
            "{} was changed meanwhile and stays as it is; your text is in {}",
            path.display(),
            draft.display()
        )));
    }
    if after != before {
        files.replace(&path, after.as_bytes()).map_err(Failure::failed)?;
    }
    drop(locked);
    // A draft that stays would only be opened again.
    let _ = std::fs::remove_file(&draft);
    let mut lines = vec![match after == before {
        true => format!("{} is as it was", path.display()),
        false => format!("{} is changed", path.display()),
    }];
    lines.extend(warnings.into_iter().map(|warning| format!("warning: {warning}")));
    if layer.is_project() && after != before {
        lines.push(UNAPPROVED.to_owned());
    }
    print(machine, &lines)
}
