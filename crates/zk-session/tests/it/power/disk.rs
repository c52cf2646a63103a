//! Model of a disk whose machine stops: what was not synced is there in part, or not at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::trace::Call;

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Share of what was not synced that survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// Each write is there, gone, or torn between sectors.
    Random(u64),
}

#[derive(Clone, Debug)]
enum DataChange {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(PathBuf, usize),
    Remove(PathBuf),
    Move(PathBuf, PathBuf),
}

#[derive(Debug, Default)]
struct File {
    synced: Vec<u8>,
    since: Vec<DataChange>,
}

/// Files below one directory.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    root: PathBuf,
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    since: Vec<NameChange>,
    dirs: Vec<PathBuf>,
}

impl Disk {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    pub(crate) fn apply(&mut self, call: &Call) {
        match call {
            Call::Create(path) => {
                if self.is_own(path) && !self.names.contains_key(path) {
                    self.files.push(File::default());
                    self.change_names(NameChange::Add(path.clone(), self.files.len() - 1));
                }
            }
            Call::Mkdir(path) => self.dirs.extend(self.is_own(path).then(|| path.clone())),
            Call::Write { path, offset, bytes } => {
                self.change_data(path, DataChange::Write { offset: *offset, bytes: bytes.clone() });
            }
            Call::Truncate { path, bytes } => self.change_data(path, DataChange::Truncate(*bytes)),
            Call::Sync(path) => self.sync(path),
            Call::Rename { from, to } => {
                if self.is_own(from) {
                    self.change_names(NameChange::Move(from.clone(), to.clone()));
                }
            }
            Call::Link { from, to } => {
                if let Some(file) = self.names.get(from) {
                    self.change_names(NameChange::Add(to.clone(), *file));
                }
            }
            Call::Unlink(path) => {
                if self.is_own(path) {
                    self.change_names(NameChange::Remove(path.clone()));
                }
            }
            Call::Says(_) => {}
        }
    }

    fn is_own(&self, path: &Path) -> bool {
        // Shared memory is made anew by whoever opens the database first.
        path.starts_with(&self.root) && !path.to_string_lossy().ends_with("-shm")
    }

    fn change_data(&mut self, path: &Path, change: DataChange) {
        if self.is_own(path) {
            self.files[self.names[path]].since.push(change);
        }
    }

    fn change_names(&mut self, change: NameChange) {
        rename(&mut self.names, &change);
        self.since.push(change);
    }

    /// Makes the data of a file durable, or the names in a directory.
    fn sync(&mut self, path: &Path) {
        if let Some(file) = self.names.get(path) {
            let file = &mut self.files[*file];
            for change in std::mem::take(&mut file.since) {
                write(&mut file.synced, &change, |_| true);
            }
        } else {
            let is_in = |name: &PathBuf| name.parent() == Some(path);
            let (now, later) = std::mem::take(&mut self.since).into_iter().partition(|change| match change {
                NameChange::Add(name, _) | NameChange::Remove(name) => is_in(name),
                NameChange::Move(from, to) => is_in(from) || is_in(to),
            });
            self.since = later;
            let now: Vec<NameChange> = now;
            now.iter().for_each(|change| rename(&mut self.synced_names, change));
        }
    }

    /// Writes the files that the machine finds when it is started again, below `to`.
    pub(crate) fn restart(&self, survival: Survival, to: &Path) {
        let mut random = fastrand::Rng::with_seed(match survival {
            Survival::Random(seed) => seed,
            Survival::Nothing | Survival::Everything => 0,
        });
        let survives = |random: &mut fastrand::Rng| match survival {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Random(_) => random.bool(),
        };
        let mut names = self.synced_names.clone();
        // Names change in the order of the file system's journal.
        let kept = match survival {
            Survival::Nothing => 0,
            Survival::Everything => self.since.len(),
            Survival::Random(_) => random.usize(..=self.since.len()),
        };
        self.since.iter().take(kept).for_each(|change| rename(&mut names, change));
        for dir in &self.dirs {
            std::fs::create_dir_all(to.join(dir.strip_prefix(&self.root).unwrap())).unwrap();
        }
        for (name, file) in names {
            let File { synced, since } = &self.files[file];
            let mut bytes = synced.clone();
            for change in since {
                let is_torn = matches!(survival, Survival::Random(_)) && random.u8(..3) == 0;
                if is_torn {
                    write(&mut bytes, change, |_| random.bool());
                } else if survives(&mut random) {
                    write(&mut bytes, change, |_| true);
                }
            }
            let path = to.join(name.strip_prefix(&self.root).unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, change: &NameChange) {
    match change {
        NameChange::Add(path, file) => drop(names.insert(path.clone(), *file)),
        NameChange::Remove(path) => drop(names.remove(path)),
        NameChange::Move(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

/// Applies a change to those sectors that `is_kept` chooses.
fn write(file: &mut Vec<u8>, change: &DataChange, mut is_kept: impl FnMut(usize) -> bool) {
    match change {
        DataChange::Truncate(bytes) => {
            if is_kept(0) {
                file.resize(*bytes, 0);
            }
        }
        DataChange::Write { offset, bytes } => {
            let mut at = *offset;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (sector, after) = rest.split_at(rest.len().min(SECTOR_BYTES - at % SECTOR_BYTES));
                if is_kept(at / SECTOR_BYTES) {
                    if file.len() < at + sector.len() {
                        file.resize(at + sector.len(), 0);
                    }
                    file[at..at + sector.len()].copy_from_slice(sector);
                }
                at += sector.len();
                rest = after;
            }
        }
    }
}

#[test]
fn only_synced_bytes_and_names_survive_for_sure() {
    let (root, dir) = (PathBuf::from("/s"), tempfile::tempdir().unwrap());
    let (a, b) = (root.join("a"), root.join("b"));
    let mut disk = Disk::new(&root);
    let text = |offset, text: &str| Call::Write { path: a.clone(), offset, bytes: text.into() };
    let calls = [
        Call::Create(a.clone()),
        text(0, "one"),
        Call::Sync(a.clone()),
        Call::Sync(root),
        text(3, "two"),
        Call::Rename { from: a.clone(), to: b },
    ];
    calls.iter().for_each(|call| disk.apply(call));
    for (survival, name, bytes) in [(Survival::Nothing, "a", "one"), (Survival::Everything, "b", "onetwo")] {
        let to = dir.path().join(name);
        std::fs::create_dir(&to).unwrap();
        disk.restart(survival, &to);
        assert_eq!(std::fs::read_to_string(to.join(name)).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
    }
}
