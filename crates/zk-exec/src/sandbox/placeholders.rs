//! Placeholders: empty files and directories at guarded names, since a mount can protect only an existing
//! path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use zk_core::service::{HostFiles, HostRead, make_private_dir};

use super::places::Placeholder;
use crate::LocalHostFiles;

/// Prefix of the names of the list files.
const LIST_PREFIX: &str = "placeholders-";
/// Names and contents of the files that are made so that the sandbox can cover their paths.
const FILES: [(&str, &str); 4] =
    [("commondir", ".\n"), ("config.worktree", ""), ("config.toml", ""), ("env", "")];

/// Placeholders that this process made, or that a killed process left.
///
/// They are recorded in a list file before they are made, one list for each directory, so that sandboxes over
/// parts of one project share them. Each process with such a sandbox holds a shared lock on the list; the
/// last process removes the placeholders.
#[derive(Debug)]
pub(crate) struct Placeholders {
    made: Mutex<Vec<Made>>,
}

/// Placeholders in one directory.
#[derive(Debug)]
struct Made {
    placeholders: Vec<Placeholder>,
    journal: Option<File>,
}

impl Placeholders {
    /// Makes the missing placeholders. A name that cannot be made, as on a read-only disk, needs no
    /// protection.
    pub(crate) fn make(wanted: Vec<Placeholder>, state: Option<&Path>) -> Self {
        let mut wanted_in: BTreeMap<PathBuf, Vec<Placeholder>> = BTreeMap::new();
        for placeholder in wanted.into_iter().filter(|one| !matches!(one, Placeholder::Name(_))) {
            let dir = placeholder.path().parent().map(Path::to_owned).unwrap_or_default();
            wanted_in.entry(dir).or_default().push(placeholder);
        }
        let made = wanted_in.into_iter().map(|(dir, wanted)| Made::make(&dir, wanted, state)).collect();
        Self { made: Mutex::new(made) }
    }

    /// Removes the placeholders, unless another process still has a sandbox over them.
    pub(crate) fn remove(&self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        // The entries of a directory are removed before the directory.
        made.iter().rev().for_each(Made::remove);
    }

    /// Removes placeholders that killed processes listed in `state`, unless another sandbox still uses them.
    pub(crate) fn remove_left(state: &Path) {
        for entry in fs::read_dir(state.join("sandbox")).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with(LIST_PREFIX) {
                continue;
            }
            let Ok(journal) = File::options().read(true).append(true).open(entry.path()) else { continue };
            if flock(&journal, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let listed = read_list(&journal);
            // The directory's disk may be mounted again later.
            if listed.iter().any(|path| path.parent().is_none_or(|dir| !dir.is_dir())) {
                continue;
            }
            for path in listed.iter().rev() {
                let is_own_file = || {
                    let text = FILES.iter().find(|(name, _)| path.ends_with(name)).map(|(_, text)| *text);
                    let found = LocalHostFiles::new().read(path, &HostRead::whole(2));
                    found.ok().is_some_and(|found| text.is_some_and(|text| found.bytes == text.as_bytes()))
                };
                if fs::remove_dir(path).is_err() && is_own_file() {
                    let _ = fs::remove_file(path);
                }
            }
            let _ = journal.set_len(0);
        }
    }
}

impl Made {
    fn make(dir: &Path, wanted: Vec<Placeholder>, state: Option<&Path>) -> Self {
        let journal = state.and_then(|state| open_journal(state, dir));
        let listed = journal.as_ref().map(read_list).unwrap_or_default();
        let missing = |placeholder: &Placeholder| {
            fs::symlink_metadata(placeholder.path()).is_err() || listed.contains(placeholder.path())
        };
        let placeholders: Vec<Placeholder> = wanted.into_iter().filter(missing).collect();
        if let Some(journal) = &journal {
            append_to_list(
                journal,
                placeholders.iter().filter(|placeholder| !listed.contains(placeholder.path())),
            );
        }
        for placeholder in &placeholders {
            let _ = match placeholder {
                Placeholder::Directory(path) => fs::create_dir(path),
                Placeholder::Name(_) => Ok(()),
                Placeholder::File(path, text) => {
                    File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()))
                }
            };
        }
        Self { placeholders, journal }
    }

    fn remove(&self) {
        if self.placeholders.is_empty() {
            return;
        }
        if let Some(journal) = &self.journal
            && flock(journal, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return;
        }
        for placeholder in &self.placeholders {
            // A placeholder with content belongs to another program, and is kept.
            match placeholder {
                Placeholder::Directory(path) => {
                    let _ = fs::remove_dir(path);
                }
                Placeholder::Name(_) => {}
                Placeholder::File(path, text) => {
                    // The file may have been replaced by a pipe or an endless device.
                    let found = LocalHostFiles::new().read(path, &HostRead::whole(text.len()));
                    if found.is_ok_and(|found| found.bytes == text.as_bytes()) {
                        let _ = fs::remove_file(path);
                    }
                }
            }
        }
        if let Some(journal) = &self.journal {
            let _ = journal.set_len(0);
        }
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Opens the list file for placeholders in `dir`, with a shared lock on it.
fn open_journal(state: &Path, dir: &Path) -> Option<File> {
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    let lists = state.join("sandbox");
    make_private_dir(&lists).ok()?;
    let path = lists.join(format!("{LIST_PREFIX}{:016x}", hasher.finish()));
    let file = File::options().read(true).append(true).create(true).open(path).ok()?;
    flock(&file, FlockOperation::LockShared).ok()?;
    Some(file)
}

fn read_list(journal: &File) -> BTreeSet<PathBuf> {
    let mut text = String::new();
    let mut journal = journal;
    let _ = journal.rewind();
    let _ = journal.read_to_string(&mut text);
    text.lines().map(PathBuf::from).collect()
}

fn append_to_list<'a>(journal: &File, made: impl Iterator<Item = &'a Placeholder>) {
    let lines: String = made.map(|placeholder| format!("{}\n", placeholder.path().display())).collect();
    let mut journal = journal;
    let _ = journal.write_all(lines.as_bytes()).and_then(|()| journal.sync_data());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_took_the_place_of_a_placeholder_holds_nobody_up_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let wanted = ["own", "pipe", "endless", "longer"].map(|name| Placeholder::File(at(name), ".\n"));
        let made = Placeholders::make(wanted.to_vec(), None);
        for name in ["pipe", "endless"] {
            fs::remove_file(at(name)).unwrap();
        }
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        fs::write(at("longer"), ".\n.\n").unwrap();
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            made.remove();
            done.send(())
        });
        is_done.recv_timeout(Duration::from_secs(20)).unwrap();
        let left: Vec<bool> =
            ["own", "pipe", "endless", "longer"].map(|name| at(name).symlink_metadata().is_ok()).into();
        assert_eq!(left, [false, true, true, true]);
    }
}
