use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use zk_exec::LocalStateFiles;
use zk_undo::{CallScope, Journal, TurnLabel, UndoSettings};

/// A workspace and a journal elsewhere.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) journal: Journal,
    turns: u64,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(UndoSettings::default())
    }

    pub(crate) fn with(settings: UndoSettings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&root).unwrap();
        let journal = journal(dir.path(), &root, settings);
        Self { dir, root, journal, turns: 0 }
    }

    /// The place with a journal of other options.
    pub(crate) fn map_journal(self, map: impl FnOnce(Journal) -> Journal) -> Self {
        Self { journal: map(self.journal), ..self }
    }

    /// A second journal object on the same directory, as another process has it.
    pub(crate) fn again(&self) -> Journal {
        journal(self.dir.path(), &self.root, UndoSettings::default())
    }

    pub(crate) fn turn(&mut self) -> TurnLabel {
        self.turns += 1;
        let number = self.turns;
        TurnLabel {
            run: format!("r{number}"),
            turn: format!("t{number}"),
            prompt: format!("prompt {number}"),
        }
    }

    /// A prompt whose one command does `work`.
    pub(crate) fn command(&mut self, work: impl FnOnce(&Path)) {
        let turn = self.turn();
        self.journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
        work(&self.root);
        self.journal.end("call").unwrap();
    }

    /// A prompt whose one file tool writes a path.
    pub(crate) fn tool(&mut self, name: &str, bytes: &[u8]) {
        let turn = self.turn();
        let path = self.root.join(name);
        self.journal.begin(&turn, "call", &CallScope::Paths(vec![path.clone()])).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self.journal.end("call").unwrap();
    }

    pub(crate) fn undo(&self, count: usize) -> zk_undo::Outcome {
        self.journal.apply(&self.journal.plan_undo(count).unwrap()).unwrap()
    }

    pub(crate) fn redo(&self) -> zk_undo::Outcome {
        self.journal.apply(&self.journal.plan_redo().unwrap()).unwrap()
    }

    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, String> {
        tree(&self.root)
    }
}

pub(crate) fn journal(dir: &Path, root: &Path, settings: UndoSettings) -> Journal {
    let files = Arc::new(LocalStateFiles::default());
    Journal::new(dir.join("state/undo"), &[root.to_owned()], settings, files)
}

/// Every path below a directory with its kind, mode and content.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let text = if metadata.is_symlink() {
                format!("link {}", std::fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                dirs.push(path.clone());
                format!("dir {mode:o}")
            } else {
                format!("file {mode:o} {:?}", String::from_utf8_lossy(&std::fs::read(&path).unwrap()))
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), text);
        }
    }
    found
}
