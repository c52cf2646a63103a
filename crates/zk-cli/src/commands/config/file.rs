use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use zk_core::service::{StateFiles as _, StateLock, make_private_dir};
use zk_exec::{LocalStateFiles, own_files};
use zk_settings::Layer;

use crate::app::Machine;
use crate::exit::{Failure, Outcome};

/// The project's settings file, which is shared with others.
const PROJECT_FILE: &str = ".zk/settings.toml";
/// Mode of a new settings file of the person, which may contain keys.
const PERSON_FILE_MODE: u32 = 0o600;
/// Mode of a new settings file of a project, less the umask.
const PROJECT_FILE_MODE: u32 = 0o666;

/// A settings file that a command changes: the person's, or the project's.
pub(in crate::commands) struct SettingsFile {
    layer: Layer,
    path: PathBuf,
    /// File that is locked in its place, in zk's own directory: nothing is left in a project's tree.
    lock: PathBuf,
    /// Directory of the project, for its file.
    project: Option<PathBuf>,
}

impl SettingsFile {
    /// The person's settings, or those that the project shares.
    pub(in crate::commands) fn new(machine: &Machine, project: &Path, is_project: bool) -> Outcome<Self> {
        if !is_project {
            return Self::of_person(machine);
        }
        let path = project.join(PROJECT_FILE);
        Ok(Self {
            layer: Layer::Project,
            lock: lock_of(machine, &path)?,
            path,
            project: Some(project.to_owned()),
        })
    }

    pub(in crate::commands) fn of_person(machine: &Machine) -> Outcome<Self> {
        let path = machine.dirs.settings().ok_or_else(nowhere)?;
        Ok(Self { layer: Layer::User, lock: lock_of(machine, &path)?, path, project: None })
    }

    /// The person's settings at `path`, with the lock in `state`.
    #[cfg(test)]
    pub(in crate::commands) fn for_test(path: &Path, state: &Path) -> Self {
        Self { layer: Layer::User, path: path.to_owned(), lock: state.join("settings.lock"), project: None }
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::commands) fn layer(&self) -> Layer {
        self.layer
    }

    /// Text of the file; empty if it does not exist.
    pub(in crate::commands) fn text(&self) -> Outcome<String> {
        text_of(&self.path)
    }

    /// Changes the text under a lock, so that concurrent changes are not lost.
    pub(in crate::commands) fn change(&self, change: impl FnOnce(&str) -> Outcome<String>) -> Outcome<()> {
        let _locked = self.lock()?;
        let before = self.text()?;
        let after = change(&before)?;
        if after == before { Ok(()) } else { self.replace(&after) }
    }

    /// Locks the file against changes by other processes of the person.
    pub(super) fn lock(&self) -> Outcome<StateLock> {
        LocalStateFiles::default().lock(&self.lock).map_err(Failure::failed)
    }

    /// Replaces the text, through a link and with the mode that the file has.
    pub(super) fn replace(&self, text: &str) -> Outcome<()> {
        self.check_link()?;
        let mode = if self.layer.is_project() { PROJECT_FILE_MODE } else { PERSON_FILE_MODE };
        self.make_directory()?;
        let files = LocalStateFiles::default().follow_links().keep_modes(mode);
        files.replace(&self.path, text.as_bytes()).map_err(Failure::failed)
    }

    /// Checks that a link in the project leads to a file of the project: its authors made the link.
    fn check_link(&self) -> Outcome<()> {
        let project = self.project.as_ref().and_then(|project| project.canonicalize().ok());
        let (Ok(target), Some(project)) = (self.path.canonicalize(), project) else { return Ok(()) };
        if target.starts_with(project) {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "{} leads out of the project, to {}: nothing was changed; change that file itself",
            self.path.display(),
            target.display()
        )))
    }

    /// Creates the directory of the file; the person's own directory is private.
    fn make_directory(&self) -> Outcome<()> {
        let Some(dir) = self.path.parent() else { return Ok(()) };
        let made = if self.layer.is_project() { std::fs::create_dir_all(dir) } else { make_private_dir(dir) };
        made.map_err(|error| Failure::failed(format!("cannot make {}: {error}", dir.display())))
    }
}

fn nowhere() -> Failure {
    Failure::usage("there is no place for settings: set HOME or ZK_HOME")
}

fn lock_of(machine: &Machine, path: &Path) -> Outcome<PathBuf> {
    Ok(machine.dirs.locks().ok_or_else(nowhere)?.join(format!("{}.lock", name_of(path))))
}

/// Name for a file of zk that belongs to the settings file at `path`.
pub(super) fn name_of(path: &Path) -> String {
    let mut name = DefaultHasher::new();
    path.hash(&mut name);
    format!("settings-{:016x}", name.finish())
}

/// Returns the text of a settings file; empty if the file does not exist.
pub(super) fn text_of(path: &Path) -> Outcome<String> {
    match own_files::read_text(path, own_files::MAX_RECORD_BYTES) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::failed(format!("cannot read {}: {error}", path.display()))),
    }
}
