use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream};
use zk_exec::{Environment, ProcessExec};
use zk_undo::GitSettings;

use crate::fixtures::Place;

async fn git(root: &Path, line: &str) {
    let environment = Environment::filtered([("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent")]);
    let line = format!("git -c user.name=a -c user.email=a@b -c init.defaultBranch=main {line}");
    let request = ExecRequest::shell(&line, root);
    let done = ProcessExec::new(environment)
        .run(request, &mut |_: OutputStream, _: &[u8]| {}, &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(done.exit, Exit::Code(0), "{line}");
}

/// Every file of git with its bytes and its time of change.
fn of_git(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.join(".git")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let modified = path.metadata().unwrap().modified().unwrap();
                found.insert(path.clone(), (fs::read(&path).unwrap(), modified));
            }
        }
    }
    found
}

#[tokio::test]
async fn tracked_files_come_back_from_gits_objects_and_git_is_not_written() {
    let mut place = Place::new();
    let root = place.root.clone();
    git(&root, "init -q").await;
    fs::create_dir(root.join("src")).unwrap();
    for name in ["src/a.rs", "src/b.rs", "c.txt", "dirty"] {
        fs::write(root.join(name), format!("{name} as committed\n")).unwrap();
    }
    fs::write(root.join(".gitignore"), "target/\n").unwrap();
    git(&root, "add . && git -c user.name=a -c user.email=a@b commit -qm one && git gc -q").await;
    fs::write(root.join("dirty"), "not committed").unwrap();
    fs::write(root.join("untracked"), "of the person").unwrap();
    fs::create_dir(root.join("target")).unwrap();
    fs::write(root.join("target/out"), "ignored").unwrap();
    let (before, git_before) = (place.tree(), of_git(&root));
    place.command(|root| {
        fs::remove_dir_all(root.join("src")).unwrap();
        fs::write(root.join("c.txt"), "changed").unwrap();
        fs::write(root.join("dirty"), "changed").unwrap();
        fs::remove_file(root.join("untracked")).unwrap();
        fs::write(root.join("target/out"), "built").unwrap();
        fs::write(root.join(".gitignore"), "").unwrap();
    });
    let plan = place.journal.plan_undo(1).unwrap();
    assert!(plan.items.iter().all(|item| !item.path.starts_with(root.join(".git/"))), "{plan:?}");
    let refused = place.journal.apply(&plan).unwrap().refused;
    assert_eq!(refused, Vec::<String>::new());
    fs::write(root.join("target/out"), "ignored").unwrap();
    assert_eq!(place.tree(), before);
    assert_eq!(of_git(&root), git_before, "no byte and no time of git's files changed");
}

#[tokio::test]
async fn nothing_that_a_repository_names_is_run_and_converted_files_come_back_as_they_were() {
    let mut place = Place::new();
    let root = place.root.clone();
    git(&root, "init -q").await;
    fs::write(root.join("text.txt"), "upper\n").unwrap();
    fs::write(root.join(".gitattributes"), "*.txt filter=case\n").unwrap();
    git(&root, "config filter.case.clean 'tr a-z A-Z' && git config filter.case.smudge 'tr A-Z a-z'").await;
    git(&root, "add . && git -c user.name=a -c user.email=a@b commit -qm one").await;
    let trap = root.join(".git/trap");
    fs::write(&trap, "#!/bin/sh\ntouch \"$(dirname \"$0\")/sprung\"\n").unwrap();
    let mut mode = fs::metadata(&trap).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&trap, mode).unwrap();
    let named = trap.display().to_string();
    for key in ["core.fsmonitor", "filter.case.smudge", "filter.case.clean", "filter.case.process"] {
        git(&root, &format!("config {key} {named}")).await;
    }
    fs::copy(&trap, root.join(".git/hooks/post-checkout")).unwrap();
    let (before, git_before) = (place.tree(), of_git(&root));
    place.command(|root| fs::remove_file(root.join("text.txt")).unwrap());
    place.undo(1);
    assert_eq!(fs::read_to_string(root.join("text.txt")).unwrap(), "upper\n");
    assert_eq!(place.tree(), before);
    assert_eq!(of_git(&root), git_before);
    assert!(!root.join(".git/sprung").exists());
}

#[tokio::test]
async fn line_ends_that_git_converts_come_back_as_they_were() {
    for (attributes, setting, of_person) in [
        ("* text=auto\n", "", ""),
        ("*.txt text\n", "", ""),
        ("*.txt eol=lf\n", "", ""),
        ("", "core.autocrlf input", ""),
        ("", "core.autocrlf true", ""),
        ("", "", "[core]\n\tautocrlf = input\n"),
        ("", "", "[Include]\n\tpath = more\n"),
        ("", "", "[core] attributesFile = ~/attributes\n"),
    ] {
        let place = Place::new();
        let root = place.root.clone();
        let home = place.dir.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".gitconfig"), of_person).unwrap();
        fs::write(home.join("more"), "[core]\nautocrlf = input\n").unwrap();
        fs::write(home.join("attributes"), "* text=auto\n").unwrap();
        let settings = GitSettings::of_person(Some(home.clone()), None);
        let mut place = place.map_journal(|journal| journal.reading_git_settings(settings));
        git(&root, "init -q").await;
        if !attributes.is_empty() {
            fs::write(root.join(".gitattributes"), attributes).unwrap();
        }
        if !setting.is_empty() {
            git(&root, &format!("config {setting}")).await;
        }
        fs::write(root.join("crlf.txt"), "one\r\ntwo\r\n").unwrap();
        fs::write(root.join("lf.txt"), "one\ntwo\n").unwrap();
        let of_home = format!("HOME={} git", home.display());
        git(
            &root,
            &format!(
                "version && {of_home} add -A && {of_home} -c user.name=a -c user.email=a@b commit -qm one"
            ),
        )
        .await;
        // An index that is no newer than a file says nothing about the file.
        std::thread::sleep(std::time::Duration::from_millis(20));
        git(&root, "update-index --force-write-index").await;
        let before = place.tree();
        place.command(|root| {
            fs::remove_file(root.join("crlf.txt")).unwrap();
            fs::remove_file(root.join("lf.txt")).unwrap();
        });
        let refused = place.undo(1).refused;
        assert_eq!(refused, Vec::<String>::new(), "{attributes}{setting}{of_person}");
        assert_eq!(place.tree(), before, "{attributes}{setting}{of_person}");
    }
}

#[tokio::test]
async fn a_commit_by_a_command_is_no_change_of_files() {
    let mut place = Place::new();
    let root = place.root.clone();
    git(&root, "init -q").await;
    fs::write(root.join("a"), "one").unwrap();
    let turn = place.turn();
    place.journal.begin(&turn, "call", &zk_undo::CallScope::Workspace).unwrap();
    git(&root, "add . && git -c user.name=a -c user.email=a@b commit -qm one").await;
    place.journal.end("call").unwrap();
    assert!(place.journal.turns().unwrap().is_empty());
}
