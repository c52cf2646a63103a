//! Names that a mount can protect only if something has them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use super::plan::Placeholder;

/// Empty directories and files that this process made, or another one that did not live to remove them.
///
/// They are listed in a file before they are made. Whoever has a sandbox over them holds a shared lock on that file; the
/// last one removes them.
#[derive(Debug)]
pub(super) struct Placeholders {
    made: Mutex<Vec<Placeholder>>,
    journal: Option<Mutex<File>>,
}

impl Placeholders {
    /// Makes those that are missing. One that cannot be made, as on a read-only disk, needs no protection.
    pub(super) fn make(wanted: Vec<Placeholder>, roots: &[PathBuf], state: Option<&Path>) -> Self {
        let journal = state.and_then(|state| open_journal(state, roots));
        let listed = journal.as_ref().map(read_list).unwrap_or_default();
        let missing = |placeholder: &Placeholder| {
            fs::symlink_metadata(placeholder.path()).is_err() || listed.contains(placeholder.path())
        };
        let made: Vec<Placeholder> = wanted.into_iter().filter(missing).collect();
        if let Some(journal) = &journal {
            list(journal, made.iter().filter(|placeholder| !listed.contains(placeholder.path())));
        }
        for placeholder in &made {
            let _ = match placeholder {
                Placeholder::Directory(path) => fs::create_dir(path),
                Placeholder::File(path, text) => {
                    File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()))
                }
            };
        }
        Self { made: Mutex::new(made), journal: journal.map(Mutex::new) }
    }

    /// Removes them, unless somebody else still has a sandbox over them.
    pub(super) fn remove(&self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        if made.is_empty() {
            return;
        }
        let journal =
            self.journal.as_ref().map(|journal| journal.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(journal) = &journal
            && flock(&**journal, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return;
        }
        for placeholder in &made {
            // What somebody put something into meanwhile is not a placeholder any more.
            match placeholder {
                Placeholder::Directory(path) => {
                    let _ = fs::remove_dir(path);
                }
                Placeholder::File(path, text) => {
                    if fs::read_to_string(path).is_ok_and(|found| found == *text) {
                        let _ = fs::remove_file(path);
                    }
                }
            }
        }
        if let Some(journal) = &journal {
            let _ = journal.set_len(0);
        }
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The list for these writable directories, with a shared lock on it.
fn open_journal(state: &Path, roots: &[PathBuf]) -> Option<File> {
    let mut hasher = DefaultHasher::new();
    roots.hash(&mut hasher);
    let dir = state.join("sandbox");
    fs::create_dir_all(&dir).ok()?;
    let path = dir.join(format!("placeholders-{:016x}", hasher.finish()));
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

fn list<'a>(journal: &File, made: impl Iterator<Item = &'a Placeholder>) {
    let lines: String = made.map(|placeholder| format!("{}\n", placeholder.path().display())).collect();
    let mut journal = journal;
    let _ = journal.write_all(lines.as_bytes()).and_then(|()| journal.sync_data());
}
