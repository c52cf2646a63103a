//! A journal whose disk is full: an undo changes nothing, or is completed once there is room.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use zk_core::service::{StateFileError, StateFiles, StateLock};
use zk_exec::LocalStateFiles;
use zk_undo::{CallScope, Journal, TurnLabel, UndoError, UndoSettings};

use crate::fixtures::tree;

/// Files on a disk with room for a number of writes.
#[derive(Debug)]
struct FullDisk {
    inner: LocalStateFiles,
    room: AtomicI64,
}

impl FullDisk {
    fn take(&self, path: &Path) -> Result<(), StateFileError> {
        if self.room.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        let (path, source) = (path.to_owned(), std::io::ErrorKind::StorageFull.into());
        Err(StateFileError::Io { doing: "write", path, source })
    }
}

impl StateFiles for FullDisk {
    fn read(&self, path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>, StateFileError> {
        self.inner.read(path, max_bytes)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError> {
        self.take(path)?;
        self.inner.replace(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> Result<u64, StateFileError> {
        self.take(path)?;
        self.inner.append(path, bytes)
    }

    fn lock(&self, path: &Path) -> Result<StateLock, StateFileError> {
        self.inner.lock(path)
    }
}

fn room(disk: &FullDisk, writes: i64) {
    disk.room.store(writes, Ordering::SeqCst);
}

/// The disk is full at each write of an undo and of its redo in turn.
#[test]
fn an_undo_on_a_full_disk_changes_nothing_or_is_completed_later() {
    let (mut undone_at, mut is_unrecorded) = (None, false);
    for writes in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "old").unwrap();
        let disk = Arc::new(FullDisk { inner: LocalStateFiles::default(), room: AtomicI64::new(i64::MAX) });
        let open = || {
            let settings = UndoSettings::default();
            Journal::new(dir.path().join("undo"), std::slice::from_ref(&root), settings, disk.clone())
        };
        let journal = open();
        let before = tree(&root);
        let turn = TurnLabel { run: "r".into(), turn: "t".into(), prompt: "go".into() };
        journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
        fs::write(root.join("a"), "new").unwrap();
        fs::write(root.join("b"), "new").unwrap();
        journal.end("call").unwrap();
        let after = tree(&root);

        let plan = journal.plan_undo(1).unwrap();
        room(&disk, writes);
        let undone = journal.apply(&plan);
        match &undone {
            Ok(outcome) => assert_eq!(outcome.refused, Vec::<String>::new()),
            Err(error @ UndoError::Unrecorded(_)) => {
                is_unrecorded = true;
                assert_eq!(tree(&root), before, "{error}");
            }
            Err(error) => {
                assert!(error.to_string().contains("cannot write"), "{error}");
                assert_eq!(tree(&root), after, "{error}");
            }
        }
        // This process goes on, or another one starts, once there is room.
        room(&disk, i64::MAX);
        let journal = if writes % 2 == 0 {
            journal
        } else {
            drop(journal);
            let journal = open();
            journal.recover().unwrap();
            journal
        };
        if tree(&root) == after {
            journal.apply(&journal.plan_undo(1).unwrap()).unwrap();
        }
        assert!(matches!(journal.plan_undo(1), Err(UndoError::NothingToUndo)), "{writes}");
        assert_eq!(tree(&root), before, "{writes}");
        let redone = journal.apply(&journal.plan_redo().unwrap()).unwrap();
        assert_eq!(redone.refused, Vec::<String>::new());
        assert_eq!(tree(&root), after, "{writes}");
        if undone.is_ok() {
            undone_at = Some(writes);
            break;
        }
    }
    assert!(is_unrecorded && undone_at.is_some_and(|writes| writes > 1), "{undone_at:?}");
}
