use std::fs;

use tempfile::TempDir;
use zk_exec::LocalStateFiles;

use super::*;

fn journal_of(dir: &TempDir) -> (Journal, PathBuf) {
    let root = dir.path().canonicalize().unwrap().join("project");
    fs::create_dir_all(&root).unwrap();
    let files = Arc::new(LocalStateFiles::default());
    let place = dir.path().join("state/undo");
    (Journal::new(place, std::slice::from_ref(&root), UndoSettings::default(), files), root)
}

/// A prompt that changed `a`.
fn write_in_turn(journal: &Journal, root: &Path, text: &str) {
    let turn = TurnLabel { run: text.into(), turn: text.into(), prompt: text.into() };
    journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
    fs::write(root.join("a"), text).unwrap();
    journal.end("call").unwrap();
}

#[test]
fn turns_stand_between_the_files_and_a_point_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root) = journal_of(&dir);
    write_in_turn(&journal, &root, "one");
    write_in_turn(&journal, &root, "two");
    let (first, both) = (BTreeSet::from([1]), BTreeSet::from([1, 2]));
    let count = |branch: &BTreeSet<u64>| {
        let TurnsOfMove { beyond, missing } = journal.count_turns_of_move(branch).unwrap();
        (beyond, missing)
    };
    assert_eq!((count(&first), count(&both)), ((1, 0), (0, 0)));
    journal.apply(&journal.plan_move(&first).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "one");
    assert_eq!((count(&first), count(&both)), ((0, 0), (0, 1)));
    journal.apply(&journal.plan_move(&both).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "two");
    assert_eq!((count(&first), count(&both)), ((1, 0), (0, 0)));
    // Undone changes stay undone.
    journal.apply(&journal.plan_undo(1).unwrap()).unwrap();
    assert_eq!((count(&first), count(&both)), ((0, 0), (0, 0)));
}
