use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_chat::{EditorEnv, edit_file};
use zk_core::service::{StateFiles as _, make_private_dir};
use zk_exec::{Environment, LocalStateFiles, ProcessExec};
use zk_tui::term::print_stderr;

use super::UNAPPROVED;
use super::file::{SettingsFile, name_of, text_of};
use crate::additions::Additions;
use crate::app::Machine;
use crate::commands::print_words as print;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

/// Draft of a settings file: its edited text, and the text that the edit started from.
struct Draft {
    text: PathBuf,
    base: PathBuf,
}

impl Draft {
    /// Creates the draft of the settings file `of`.
    fn of(machine: &Machine, of: &Path) -> Outcome<Self> {
        let dir = machine.dirs.settings_drafts();
        let dir = dir.ok_or_else(|| Failure::usage("there is no place for a draft: set HOME or ZK_HOME"))?;
        make_private_dir(&dir)
            .map_err(|error| Failure::failed(format!("cannot make {}: {error}", dir.display())))?;
        let name = name_of(of);
        Ok(Self { text: dir.join(format!("{name}.toml")), base: dir.join(format!("{name}.base")) })
    }

    /// Fills the draft with the text `now`, or keeps a rejected draft that started from the same text.
    fn open(&self, now: &str) -> Outcome<()> {
        let kept = text_of(&self.text)?;
        let base = text_of(&self.base)?;
        let is_changed = !kept.is_empty() && kept != base;
        if is_changed && base == now {
            print_stderr("zk: this continues with your text of before, which does not count yet");
            return Ok(());
        }
        let files = LocalStateFiles::default();
        if is_changed {
            let old = self.text.with_extension("old.toml");
            files.replace(&old, kept.as_bytes()).map_err(Failure::failed)?;
            let old = old.display();
            print_stderr(&format!("zk: the settings changed since your text of before, which is in {old}"));
        }
        files.replace(&self.base, now.as_bytes()).map_err(Failure::failed)?;
        files.replace(&self.text, now.as_bytes()).map_err(Failure::failed)
    }

    fn remove(&self) {
        // If removing fails, the next edit only offers the draft again.
        for file in [&self.text, &self.base] {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Opens a settings file in the person's editor. Invalid text is not saved; the next call continues with it.
pub(crate) fn config_edit(
    machine: &Machine,
    project: &Path,
    is_project: bool,
    additions: Additions,
) -> Outcome<Exit> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "this opens an editor on a terminal; without one, `zk config set KEY VALUE` changes a setting",
        ));
    }
    let file = SettingsFile::new(machine, project, is_project)?;
    let (layer, path) = (file.layer(), file.path());
    let before = file.text()?;
    let draft = Draft::of(machine, path)?;
    draft.open(&before)?;
    let editor = EditorEnv::new(|name| machine.env.get(name).map(OsStr::to_owned));
    let exec = ProcessExec::new(Environment::filtered(machine.env.without_secrets()));
    edit_file(&editor, &exec, Arc::new(machine.host_files.clone()), &draft.text).map_err(Failure::failed)?;
    let after = text_of(&draft.text)?;
    let warnings =
        Settings::check_file(additions, &machine.host_files, layer, &draft.text).map_err(|failure| {
            Failure::usage(format!(
                "{failure}\nnothing was changed; `zk config edit` continues with this text"
            ))
        })?;
    let locked = file.lock()?;
    if file.text()? != before {
        return Err(Failure::failed(format!(
            "{} was changed meanwhile and stays as it is; your text is in {}",
            path.display(),
            draft.text.display()
        )));
    }
    if after != before {
        file.replace(&after)?;
    }
    drop(locked);
    draft.remove();
    let mut lines = vec![match after == before {
        true => format!("{} is as it was", path.display()),
        false => format!("{} is changed", path.display()),
    }];
    let (read, meant) = (draft.text.display().to_string(), path.display().to_string());
    lines.extend(warnings.iter().map(|warning| format!("warning: {}", warning.replace(&read, &meant))));
    if layer.is_project() && after != before {
        lines.push(UNAPPROVED.to_owned());
    }
    print(machine, &lines)
}
