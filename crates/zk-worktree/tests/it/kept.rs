//! Files of runs in a bare repository: what is carried, and what becomes of the person's repository.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{CheckpointOf, WorkspaceError, Workspaces};
use zk_exec::LocalStateFiles;
use zk_testkit::{WorkspaceOptions, check_workspaces};
use zk_worktree::GitWorkspaces;

use crate::copies::Rig;

#[expect(clippy::disallowed_methods, reason = "the check prepares directories without a runtime")]
fn git_in(dir: &Path, args: &[&str]) -> String {
    let ran = std::process::Command::new("git").args(args).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn commit_all(dir: &Path) {
    git_in(dir, &["init", "-q", "-b", "main"]);
    git_in(dir, &["-c", "core.autocrlf=false", "add", "-A"]);
    git_in(dir, &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first"]);
}

fn bare(dir: &Path) -> String {
    git_in(dir, &["init", "-q", "--bare", "remote.git"]);
    dir.join("remote.git").display().to_string()
}

impl Rig {
    /// Store of one machine, with a directory of state of its own.
    fn workspaces(&self, address: &str, machine: &str) -> GitWorkspaces {
        let state = self.dir.path().join("machines").join(machine);
        GitWorkspaces::new(address, state, self.exec.clone(), Arc::new(LocalStateFiles::default()))
    }
}

fn start() -> CheckpointOf {
    CheckpointOf { run: "r_1".into(), moment: "start".to_owned(), base: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_on_hidden_refs_meet_the_contract() {
    let rig = Rig::new().await;
    let address = bare(rig.dir.path());
    let machines = std::sync::atomic::AtomicU32::new(0);
    let make = |_place: u32| {
        let machine = machines.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let made: Arc<dyn Workspaces> = Arc::new(rig.workspaces(&address, &machine.to_string()));
        async move { made }
    };
    let options = WorkspaceOptions {
        dir: rig.dir.path().join("checks"),
        prepare: Arc::new(commit_all),
        carries_permissions: false,
    };
    let conformance = check_workspaces(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

/// Nothing below `.git` changes, not even a date; no hook and no filter runs.
#[tokio::test]
async fn the_persons_repository_is_only_read() {
    let rig = Rig::with_commit(&[("a", "1"), ("tracked.log", "kept"), (".gitignore", "*.log\n")]).await;
    rig.git("add -f tracked.log").await;
    rig.git("-c user.name=x -c user.email=x@x commit -q -m second").await;
    rig.write("a", "2");
    rig.write("new", "3");
    rig.write("left.log", "ignored");
    rig.write(".gitattributes", "* filter=marks\n");
    let ran = rig.dir.path().join("ran");
    git_in(&rig.root(), &["config", "filter.marks.clean", &format!("touch {}", ran.display())]);
    for hook in [
        "pre-commit",
        "post-commit",
        "pre-push",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
    ] {
        let hook = rig.root().join(".git/hooks").join(hook);
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let address = bare(rig.dir.path());
    let before = rig.git_state();
    let store = rig.workspaces(&address, "here");
    let kept = store.checkpoint(&rig.root(), &start()).await.unwrap();
    assert_eq!(kept.left_out, Vec::<String>::new());
    assert_eq!(rig.git_state(), before, "the person's repository is as it was");
    assert!(!ran.exists(), "no hook and no filter runs");
    let refs = git_in(Path::new(&address), &["for-each-ref", "--format=%(refname)"]);
    assert!(refs.starts_with("refs/zk/runs/r_1/start-") && refs.lines().count() == 1, "{refs}");
    let to = rig.dir.path().join("there");
    rig.workspaces(&address, "there").materialise(&kept.reference, &to).await.unwrap();
    let read = |path: &str| fs::read_to_string(to.join(path)).unwrap_or_else(|_| "(none)".to_owned());
    assert_eq!([read("a"), read("new"), read("tracked.log"), read("left.log")], ["2", "3", "kept", "(none)"]);
    assert!(!to.join(".git").exists());
}

#[tokio::test]
async fn repositories_within_are_named_and_left_out() {
    let rig = Rig::with_commit(&[("a", "1")]).await;
    let address = bare(rig.dir.path());
    let store = rig.workspaces(&address, "here");
    let first = store.checkpoint(&rig.root(), &start()).await.unwrap();
    let to = rig.dir.path().join("there");
    store.materialise(&first.reference, &to).await.unwrap();
    for name in ["made", "empty"] {
        fs::create_dir(to.join(name)).unwrap();
        fs::write(to.join(name).join("x"), "x").unwrap();
        git_in(&to.join(name), &["init", "-q"]);
    }
    commit_all(&to.join("made"));
    let of = CheckpointOf { moment: "t_1".to_owned(), base: Some(first.reference.clone()), ..start() };
    let second = store.checkpoint(&to, &of).await.unwrap();
    assert_eq!(
        second.left_out,
        ["empty (a git repository of its own)", "made (a git repository of its own)"]
    );
    assert_eq!(second.reference, first.reference, "nothing else changed");
    fs::write(to.join("a"), "2").unwrap();
    let third = store.checkpoint(&to, &of).await.unwrap();
    assert_ne!(third.reference, first.reference);
    let back = rig.dir.path().join("back");
    rig.workspaces(&address, "there").materialise(&third.reference, &back).await.unwrap();
    assert_eq!(fs::read_to_string(back.join("a")).unwrap(), "2");
    assert!(!back.join("made").exists() && !back.join("empty").exists());
}

#[tokio::test]
async fn what_cannot_be_kept_is_an_error_with_its_place() {
    let rig = Rig::with_commit(&[("a", "1"), ("sub/b", "1")]).await;
    let missing = rig.dir.path().join("missing.git").display().to_string();
    let store = rig.workspaces(&missing, "here");
    let away = store.checkpoint(&rig.root(), &start()).await.unwrap_err();
    assert!(away.is_temporary() && away.to_string().contains("git init --bare"), "{away}");
    let plain = tempfile::tempdir().unwrap();
    let none = store.checkpoint(plain.path(), &start()).await.unwrap_err();
    assert!(matches!(&none, WorkspaceError::Unsuitable { why, .. } if why.contains("files:")), "{none}");
    let below = store.checkpoint(&rig.root().join("sub"), &start()).await.unwrap_err();
    assert!(
        matches!(&below, WorkspaceError::Unsuitable { why, .. } if why.contains("submit from there")),
        "{below}"
    );
    // Credentials of an address are in no message.
    let store = rig.workspaces("https://me:secret@127.0.0.1:1/x.git", "here");
    let refused = store.checkpoint(&rig.root(), &start()).await.unwrap_err().to_string();
    assert!(!refused.contains("secret") && refused.contains("127.0.0.1:1"), "{refused}");
    // A transport that runs programs is not used.
    let store = rig.workspaces(&format!("ext::touch {}", rig.dir.path().join("ran").display()), "here");
    store.checkpoint(&rig.root(), &start()).await.unwrap_err();
    assert!(!rig.dir.path().join("ran").exists());
}

/// A worker that is killed while git writes the index leaves its lock, which stops no later leg.
#[tokio::test]
async fn a_directory_goes_on_after_a_killed_git() {
    let rig = Rig::with_commit(&[("a", "1")]).await;
    let address = bare(rig.dir.path());
    let store = rig.workspaces(&address, "here");
    let first = store.checkpoint(&rig.root(), &start()).await.unwrap();
    let to = rig.dir.path().join("there");
    store.materialise(&first.reference, &to).await.unwrap();
    let state = rig.dir.path().join("machines/here");
    let repository: Vec<PathBuf> = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "git"))
        .collect();
    fs::write(repository[0].join("index.lock"), "").unwrap();
    fs::write(to.join("a"), "changed").unwrap();
    // A link in the place of a file is replaced, and not followed.
    let outside = rig.dir.path().join("outside");
    fs::write(&outside, "untouched").unwrap();
    fs::remove_file(to.join("a")).unwrap();
    symlink(&outside, to.join("a")).unwrap();
    store.materialise(&first.reference, &to).await.unwrap();
    assert_eq!(fs::read_to_string(to.join("a")).unwrap(), "1");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    store.forget(&to).await;
    assert!(!repository[0].exists());
}
