use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use zk_exec::LocalStateFiles;

use super::*;
use crate::{CallScope, UndoSettings};

fn journal(dir: &TempDir) -> (Journal, PathBuf) {
    let root = dir.path().canonicalize().unwrap().join("project");
    fs::create_dir_all(&root).unwrap();
    let files = Arc::new(LocalStateFiles::default());
    let place = dir.path().join("state/undo");
    (Journal::new(place, std::slice::from_ref(&root), UndoSettings::default(), files), root)
}

/// A prompt that changed `a` and `b` and made `new`, with the plan to take it back.
fn changed(dir: &TempDir) -> (Journal, PathBuf, Plan) {
    let (journal, root) = journal(dir);
    fs::write(root.join("a"), "old a").unwrap();
    fs::write(root.join("b"), "old b").unwrap();
    let turn = TurnLabel { run: "r".into(), turn: "t".into(), prompt: "p".into() };
    journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
    for name in ["a", "b", "new"] {
        fs::write(root.join(name), format!("zk's {name}")).unwrap();
    }
    journal.end("call").unwrap();
    let plan = journal.plan_undo(1).unwrap();
    (journal, root, plan)
}

fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_undo_that_was_killed_is_finished_and_leaves_nothing_behind() {
    for done in 0..=3 {
        let dir = tempfile::tempdir().unwrap();
        let (journal, root, plan) = changed(&dir);
        let changes: Vec<Change> = plan
            .items
            .iter()
            .map(|item| Change {
                path: item.path.clone(),
                before: item.now.clone(),
                after: item.target.clone(),
            })
            .collect();
        let temporary: Vec<_> =
            changes.iter().enumerate().map(|(at, change)| temporary_path(7, at, change)).collect();
        let workspaces = plan.steps[0].workspaces.clone();
        let (kind, title) = (plan.kind.clone(), plan.title.clone());
        let pending =
            Pending { number: 2, kind, title, workspaces, changes, temporary, stayed: BTreeSet::new() };
        journal.write_pending(&pending).unwrap();
        journal.stage(&pending).unwrap();
        // The process ends after `done` of the changes.
        for (change, temporary) in pending.changes.iter().zip(&pending.temporary).take(done) {
            journal.remove_present(change).unwrap();
            journal.create_wanted(change, temporary.as_ref().map(|SavedPath(path)| path.as_path())).unwrap();
        }
        // The person goes on with a file that was not back yet.
        let is_edited = done < 2;
        if is_edited {
            fs::write(root.join("b"), "of the person").unwrap();
        }
        let lines = journal.recover().unwrap();
        assert!(lines[0].contains("cut off is finished"), "{lines:?}");
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old a");
        let b = if is_edited { "of the person" } else { "old b" };
        assert_eq!(fs::read_to_string(root.join("b")).unwrap(), b);
        assert_eq!(names(&root), ["a", "b"]);
        assert!(journal.recover().unwrap().is_empty());
        let turn = &journal.turns().unwrap()[0];
        assert_eq!((turn.is_undone, turn.is_partly_undone), (!is_edited, is_edited));
    }
}

/// Record of a plan, with contents staged.
fn staged(journal: &Journal, plan: &Plan) -> Pending {
    let change = |item: &crate::PlanItem| Change {
        path: item.path.clone(),
        before: item.now.clone(),
        after: item.target.clone(),
    };
    let changes: Vec<Change> = plan.items.iter().map(change).collect();
    let temporary = changes.iter().enumerate().map(|(at, change)| temporary_path(7, at, change)).collect();
    let workspaces = plan.steps[0].workspaces.clone();
    let (kind, title) = (plan.kind.clone(), plan.title.clone());
    let pending = Pending { number: 2, kind, title, workspaces, changes, temporary, stayed: BTreeSet::new() };
    journal.stage(&pending).unwrap();
    pending
}

#[test]
fn a_link_below_removed_directories_leaves_no_temporary_name_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root) = journal(&dir);
    fs::create_dir_all(root.join("d/e")).unwrap();
    std::os::unix::fs::symlink("x", root.join("d/e/link")).unwrap();
    let turn = TurnLabel { run: "r".into(), turn: "t".into(), prompt: "p".into() };
    journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
    fs::remove_dir_all(root.join("d")).unwrap();
    journal.end("call").unwrap();
    let pending = staged(&journal, &journal.plan_undo(1).unwrap());
    let link = pending.changes.iter().position(|change| change.path.ends_with("link")).unwrap();
    let SavedPath(temporary) = pending.temporary[link].clone().unwrap();
    assert_eq!(fs::read_link(&temporary).unwrap(), Path::new("x"));
    journal.write_pending(&pending).unwrap();
    // Killed once the directories were back.
    fs::create_dir_all(root.join("d/e")).unwrap();
    journal.recover().unwrap();
    assert_eq!((names(&root), names(&root.join("d/e"))), (vec!["d".to_owned()], vec!["link".to_owned()]));
}

#[test]
fn what_is_saved_while_contents_are_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root, plan) = changed(&dir);
    let pending = staged(&journal, &plan);
    fs::write(root.join("a"), "of the person").unwrap();
    let done = journal.apply_changes(&pending);
    assert_eq!(done, [Err(Errno::BUSY), Ok(()), Ok(())]);
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "of the person");
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "old b");
    assert!(!root.join("new").exists());
}

#[test]
fn a_file_that_appears_at_the_last_moment_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root, plan) = changed(&dir);
    let mut pending = staged(&journal, &plan);
    pending.changes[0].before = FileState::Absent;
    let SavedPath(temporary) = pending.temporary[0].clone().unwrap();
    assert_eq!(journal.create_wanted(&pending.changes[0], Some(&temporary)), Err(Errno::BUSY));
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "zk's a");
}

#[test]
fn a_record_with_foreign_paths_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root, plan) = changed(&dir);
    let mut pending = staged(&journal, &plan);
    let victim = root.join("victim");
    fs::write(&victim, "of the person").unwrap();
    let own = pending.temporary[0].replace(SavedPath(victim.clone()));
    journal.write_pending(&pending).unwrap();
    assert!(journal.recover().unwrap_err().to_string().contains("that no undo makes"));
    assert!(victim.exists());
    pending.temporary[0] = own;
    pending.workspaces.clear();
    journal.write_pending(&pending).unwrap();
    assert!(journal.recover().unwrap_err().to_string().contains("names no workspace"));
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "zk's a");
}

#[test]
fn a_failure_to_write_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root, plan) = changed(&dir);
    // The second content cannot be written, as on a full disk.
    let hash = crate::objects::hash_of(b"old b");
    fs::write(journal.objects.path(&hash), "damaged").unwrap();
    let error = journal.apply(&plan).unwrap_err().to_string();
    assert!(error.contains("not those that were kept"), "{error}");
    assert_eq!(names(&root), ["a", "b", "new"]);
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "zk's a");
    assert!(journal.recover().unwrap().is_empty(), "nothing is left to finish");
}

#[tokio::test]
async fn a_command_that_finishes_an_undo_says_so_before_the_person_agrees_to_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, root, plan) = changed(&dir);
    let pending = staged(&journal, &plan);
    journal.write_pending(&pending).unwrap();
    let bus = zk_core::kernel::Bus::new();
    let _installed = bus.install(&crate::Undo::new(journal)).unwrap();
    let undo = bus.item::<dyn zk_core::service::Command>("undo").unwrap();
    let error = undo.run("", &bus.cx()).await.unwrap_err().to_string();
    assert!(error.contains("cut off is finished") && error.contains("nothing to undo"), "{error}");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old a");
}
