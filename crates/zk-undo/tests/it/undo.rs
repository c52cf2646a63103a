use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use zk_undo::{CallScope, UndoError, UndoSettings};

use crate::fixtures::Place;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_command_is_taken_back_and_done_again() {
    let mut place = Place::new();
    let root = place.root.clone();
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::write(root.join("src/a.rs"), "fn a() {}\n").unwrap();
    fs::write(root.join("src/deep/b.bin"), [0_u8, 159, 146, 150]).unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    symlink("a.rs", root.join("src/link")).unwrap();
    let before = place.tree();
    place.command(|root| {
        fs::remove_dir_all(root.join("src/deep")).unwrap();
        fs::rename(root.join("src/a.rs"), root.join("src/c.rs")).unwrap();
        chmod(&root.join("run.sh"), 0o755);
        fs::remove_file(root.join("src/link")).unwrap();
        symlink("c.rs", root.join("src/link")).unwrap();
        fs::create_dir_all(root.join("made/here")).unwrap();
        fs::write(root.join("made/here/new.txt"), "new").unwrap();
        fs::write(root.join("src/deep"), "a file in place of a directory").unwrap();
    });
    let after = place.tree();
    let outcome = place.undo(1);
    assert_eq!(outcome.refused, Vec::<String>::new());
    assert_eq!(place.tree(), before);
    assert_eq!(place.redo().refused, Vec::<String>::new());
    assert_eq!(place.tree(), after);
    place.undo(1);
    assert_eq!(place.tree(), before);
    assert!(matches!(place.journal.plan_undo(1), Err(UndoError::NothingToUndo)));
}

#[test]
fn what_the_person_changed_since_stays() {
    let mut place = Place::new();
    let root = place.root.clone();
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), "old").unwrap();
    }
    place.command(|root| {
        fs::write(root.join("a"), "by zk").unwrap();
        fs::remove_file(root.join("b")).unwrap();
        fs::create_dir(root.join("dir")).unwrap();
        fs::write(root.join("dir/x"), "by zk").unwrap();
    });
    fs::write(root.join("a"), "by the person").unwrap();
    fs::write(root.join("b"), "anew").unwrap();
    fs::write(root.join("dir/y"), "by the person").unwrap();
    let outcome = place.undo(1);
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "by the person");
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "anew");
    assert_eq!(fs::read_to_string(root.join("dir/y")).unwrap(), "by the person");
    assert!(!root.join("dir/x").exists());
    assert_eq!(outcome.refused.len(), 3, "{:?}", outcome.refused);
}

#[test]
fn several_prompts_and_edits_in_between() {
    let mut place = Place::new();
    let root = place.root.clone();
    place.tool("new/dir/a.txt", b"one");
    place.tool("new/dir/a.txt", b"two");
    place.command(|root| fs::write(root.join("b.txt"), "b").unwrap());
    place.undo(3);
    assert!(place.tree().is_empty(), "{:?}", place.tree());
    place.redo();
    assert_eq!(fs::read_to_string(root.join("new/dir/a.txt")).unwrap(), "two");
    place.tool("c.txt", b"1");
    fs::write(root.join("c.txt"), "2 by the person").unwrap();
    place.tool("c.txt", b"3");
    let outcome = place.undo(2);
    assert_eq!(outcome.refused.len(), 1);
    assert_eq!(fs::read_to_string(root.join("c.txt")).unwrap(), "3");
    assert!(matches!(place.journal.plan_redo(), Err(UndoError::NothingToRedo)), "nothing was undone");
    let turns = place.journal.turns().unwrap();
    assert_eq!(turns.len(), 5);
    assert!(turns.iter().all(|turn| !turn.is_undone));
}

#[test]
fn what_is_not_kept_is_said_once_and_stays() {
    let mut place = Place::with(UndoSettings { max_file_bytes: 10, ..UndoSettings::default() });
    let root = place.root.clone();
    fs::write(root.join("large"), "more than ten bytes").unwrap();
    let turn = place.turn();
    let line = place.journal.begin(&turn, "one", &CallScope::Workspace).unwrap().unwrap();
    assert!(line.contains("1 file larger than") && line.contains("large"), "{line}");
    fs::remove_file(root.join("large")).unwrap();
    fs::write(root.join("grown"), "more than ten bytes again").unwrap();
    place.journal.end("one").unwrap();
    let plan = place.journal.plan_undo(1).unwrap();
    assert!(plan.is_empty());
    assert_eq!(plan.refusals().count(), 2);
    fs::write(root.join("large"), "more than ten bytes").unwrap();
    let turn = place.turn();
    place.journal.begin(&turn, "two", &CallScope::Workspace).unwrap();
    place.journal.end("two").unwrap();
}

#[test]
fn a_link_in_the_way_is_never_followed() {
    let mut place = Place::new();
    let root = place.root.clone();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("dir/a"), "old").unwrap();
    place.command(|root| fs::remove_file(root.join("dir/a")).unwrap());
    let outside = place.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir(root.join("dir")).unwrap();
    symlink(&outside, root.join("dir")).unwrap();
    let plan = place.journal.plan_undo(1).unwrap();
    assert!(plan.is_empty(), "{plan:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn another_workspace_at_the_path_is_refused() {
    let mut place = Place::new();
    let root = place.root.clone();
    fs::write(root.join("a"), "old").unwrap();
    place.command(|root| fs::write(root.join("a"), "new").unwrap());
    fs::rename(&root, root.with_extension("moved")).unwrap();
    let moved = place.journal.plan_undo(1).unwrap_err().to_string();
    assert!(moved.contains("gone or was moved"), "{moved}");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), "new").unwrap();
    let other = place.journal.plan_undo(1).unwrap_err().to_string();
    assert!(other.contains("another directory"), "{other}");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "new");
}

#[test]
fn two_processes_do_not_undo_into_a_running_call() {
    let mut place = Place::new();
    fs::write(place.root.join("a"), "old").unwrap();
    place.command(|root| fs::write(root.join("a"), "new").unwrap());
    let turn = place.turn();
    place.journal.begin(&turn, "long", &CallScope::Workspace).unwrap();
    let other = place.again();
    assert!(matches!(other.plan_undo(1), Err(UndoError::Running)));
    assert_eq!(other.recover().unwrap(), Vec::<String>::new(), "the call is alive");
    place.journal.end("long").unwrap();
    other.apply(&other.plan_undo(1).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("a")).unwrap(), "old");
}

#[test]
fn a_call_that_was_cut_off_is_in_the_journal_at_the_next_start() {
    let mut place = Place::new();
    let root = place.root.clone();
    fs::write(root.join("a"), "old").unwrap();
    let turn = place.turn();
    place.journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
    fs::remove_file(root.join("a")).unwrap();
    // The process ends here: only its lock goes with it.
    let Place { dir, root, journal, .. } = place;
    drop(journal);
    let files = std::sync::Arc::new(zk_exec::LocalStateFiles::default());
    let next = zk_undo::Journal::new(
        dir.path().join("state/undo"),
        std::slice::from_ref(&root),
        UndoSettings::default(),
        files,
    );
    let lines = next.recover().unwrap();
    assert!(lines[0].contains("1 paths changed"), "{lines:?}");
    let plan = next.plan_undo(1).unwrap();
    assert!(plan.is_interrupted);
    next.apply(&plan).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old");
}

#[test]
fn the_journal_is_private() {
    let mut place = Place::new();
    fs::write(place.root.join("a"), "secret").unwrap();
    place.command(|root| fs::write(root.join("a"), "b").unwrap());
    place.undo(1);
    let state = place.dir.path().join("state");
    for (path, text) in crate::fixtures::tree(&state) {
        assert!(text.starts_with("dir 700") || text.starts_with("file 600"), "{}: {text}", path.display());
    }
}

#[test]
fn a_file_that_a_command_moved_in_stays_and_one_moved_within_goes_back() {
    let mut place = Place::new();
    let root = place.root.clone();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::write(root.join(".gitignore"), "ignored/\n").unwrap();
    fs::create_dir(root.join("ignored")).unwrap();
    for name in ["ignored/only", "covered"] {
        fs::write(root.join(name), format!("bytes of {name}")).unwrap();
        fs::File::options().write(true).open(root.join(name)).unwrap().set_modified(old).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    place.command(|root| {
        fs::rename(root.join("ignored/only"), root.join("here")).unwrap();
        fs::rename(root.join("covered"), root.join("there")).unwrap();
    });
    place.undo(1);
    assert_eq!(fs::read_to_string(root.join("here")).unwrap(), "bytes of ignored/only");
    assert_eq!(fs::read_to_string(root.join("covered")).unwrap(), "bytes of covered");
    assert!(!root.join("there").exists());
}

#[test]
fn a_repository_with_another_name_is_left_alone() {
    let mut place = Place::new();
    let root = place.root.clone();
    for dir in ["bare/objects", "bare/refs"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::write(root.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
    place.command(|root| {
        fs::write(root.join("bare/config"), "of a command").unwrap();
        fs::write(root.join("a"), "of a command").unwrap();
    });
    place.tool("bare/HEAD", b"of a tool");
    let outcome = place.undo(1);
    assert_eq!(outcome.refused, Vec::<String>::new());
    assert!(!root.join("a").exists());
    assert!(root.join("bare/config").exists());
    assert_eq!(fs::read(root.join("bare/HEAD")).unwrap(), b"of a tool");
}

#[test]
fn an_undo_that_was_refused_in_part_leaves_the_rest_to_be_undone() {
    let mut place = Place::new();
    let root = place.root.clone();
    for name in ["a", "b"] {
        fs::write(root.join(name), "old").unwrap();
    }
    place.tool("c", b"first prompt");
    place.command(|root| ["a", "b"].iter().for_each(|name| fs::write(root.join(name), "zk").unwrap()));
    fs::write(root.join("b"), "of the person").unwrap();
    let outcome = place.undo(1);
    assert_eq!((outcome.changes.len(), outcome.refused.len()), (1, 1), "{outcome:?}");
    let turns = place.journal.turns().unwrap();
    assert!(!turns[1].is_undone && turns[1].is_partly_undone, "{turns:?}");
    // The next undo is of the prompt before, and looks at the refused path again.
    let plan = place.journal.plan_undo(1).unwrap();
    let paths: Vec<_> = plan.items.iter().map(|item| (&item.path, item.refused.is_some())).collect();
    assert_eq!(paths, [(&root.join("b"), true), (&root.join("c"), false)]);
    fs::write(root.join("b"), "zk").unwrap();
    place.undo(1);
    let read = |name: &str| fs::read_to_string(root.join(name)).ok();
    assert_eq!([read("a"), read("b"), read("c")], [Some("old".into()), Some("old".into()), None]);
    assert!(place.journal.turns().unwrap().iter().all(|turn| turn.is_undone && !turn.is_partly_undone));
    // Both undos are taken back.
    place.redo();
    assert_eq!(
        [read("a"), read("b"), read("c")],
        [Some("old".into()), Some("zk".into()), Some("first prompt".into())]
    );
    place.redo();
    assert_eq!(read("a").as_deref(), Some("zk"));
    assert!(place.journal.turns().unwrap().iter().all(|turn| !turn.is_undone && !turn.is_partly_undone));
}

#[test]
fn a_call_that_was_noted_is_not_noted_again_at_the_next_start() {
    let mut place = Place::new();
    let root = place.root.clone();
    let turn = place.turn();
    place.journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
    fs::write(root.join("a"), "zk").unwrap();
    let open = place.dir.path().join("state/undo/open.json");
    let record = fs::read(&open).unwrap();
    place.journal.end("call").unwrap();
    // The process ends after the step was written, and before its record of open calls is gone.
    fs::write(&open, record).unwrap();
    let next = place.again();
    assert_eq!(next.recover().unwrap(), Vec::<String>::new());
    let plan = next.plan_undo(1).unwrap();
    assert_eq!(plan.refusals().count(), 0);
    next.apply(&plan).unwrap();
    assert!(!root.join("a").exists());
}

#[test]
fn every_call_that_was_cut_off_is_in_the_journal() {
    let mut place = Place::new();
    let root = place.root.clone();
    let turn = place.turn();
    for name in ["a", "b"] {
        place.journal.begin(&turn, name, &CallScope::Paths(vec![root.join(name)])).unwrap();
        fs::write(root.join(name), "zk").unwrap();
    }
    let next = place.again();
    let Place { journal, .. } = place;
    drop(journal);
    next.recover().unwrap();
    next.apply(&next.plan_undo(1).unwrap()).unwrap();
    assert!(!root.join("a").exists() && !root.join("b").exists());
}

#[test]
fn a_journal_of_a_newer_zk_is_not_called_damaged() {
    for (field, value) in [("kind", serde_json::json!({"is": "merge"})), ("version", 2.into())] {
        let mut place = Place::new();
        fs::write(place.root.join("a"), "old").unwrap();
        place.command(|root| fs::write(root.join("a"), "new").unwrap());
        let step = place.dir.path().join("state/undo/steps/00000001.json");
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&step).unwrap()).unwrap();
        record[field] = value;
        fs::write(&step, record.to_string()).unwrap();
        let refused = place.again().plan_undo(1).unwrap_err();
        assert!(matches!(refused, UndoError::Newer { .. }), "{field}: {refused}");
        assert!(refused.to_string().contains("written by a newer zk"), "{refused}");
        fs::write(&step, "{").unwrap();
        assert!(matches!(place.again().plan_undo(1), Err(UndoError::Damaged { .. })), "{field}");
    }
}

#[test]
fn a_session_without_changed_files_has_no_turn_to_show() {
    let mut place = Place::new();
    let none = place.journal.turn_changes(None).unwrap_err();
    assert_eq!(none.to_string(), "no turn of this session changed files");
    place.command(|root| fs::write(root.join("a"), "new").unwrap());
    assert_eq!(place.journal.turn_changes(None).unwrap().len(), 1);
    assert!(matches!(place.journal.turn_changes(Some(2)), Err(UndoError::NoTurn(2))));
}
