//! Files of runs in a shared directory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use zk_core::service::{CheckpointOf, WorkspaceError, Workspaces};
use zk_testkit::{WorkspaceOptions, check_workspaces};
use zk_undo::FileWorkspaces;

fn start() -> CheckpointOf {
    CheckpointOf { run: "r_1".into(), moment: "start".to_owned(), base: None }
}

fn store(place: &Path) -> FileWorkspaces {
    fs::create_dir_all(place).unwrap();
    FileWorkspaces::new(place, [])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_by_their_hash_meet_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let make = |place: u32| {
        let made: Arc<dyn Workspaces> = Arc::new(store(&root.join("store").join(place.to_string())));
        async move { made }
    };
    let options =
        WorkspaceOptions { dir: root.join("checks"), prepare: Arc::new(|_| ()), carries_permissions: true };
    let conformance = check_workspaces(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
}

#[tokio::test]
async fn empty_directories_are_carried_and_other_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (project, there) = (root.join("project"), root.join("there"));
    fs::create_dir_all(project.join("empty/dir")).unwrap();
    fs::create_dir_all(project.join(".git")).unwrap();
    fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(project.join("socket")).unwrap();
    let store = store(&root.join("store"));
    let kept = store.checkpoint(&project, &start()).await.unwrap();
    assert_eq!(kept.left_out, ["socket (neither a file nor a link)"]);
    store.materialise(&kept.reference, &there).await.unwrap();
    assert!(there.join("empty/dir").is_dir() && !there.join("socket").exists());
    assert!(!there.join(".git").exists());
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let project = root.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("a"), "some text").unwrap();
    let away = FileWorkspaces::new(root.join("missing"), []);
    let error = away.checkpoint(&project, &start()).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Unreachable { .. }) && error.is_temporary(), "{error}");
    assert!(!root.join("missing").exists(), "a missing mount is not made");
    let within = FileWorkspaces::new(project.clone(), []);
    let error = within.checkpoint(&project, &start()).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Unsuitable { .. }), "{error}");
    // Contents cannot be written, as on a full disk.
    let blocked = store(&root.join("blocked"));
    fs::write(root.join("blocked/objects"), "").unwrap();
    let error = blocked.checkpoint(&project, &start()).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Unreachable { .. }), "{error}");
    // A content that was changed is not brought back.
    let store = store(&root.join("store"));
    let kept = store.checkpoint(&project, &start()).await.unwrap();
    for first in fs::read_dir(root.join("store/objects")).unwrap() {
        for content in fs::read_dir(first.unwrap().path()).unwrap() {
            let content = content.unwrap().path();
            if fs::read(&content).unwrap() == b"some text" {
                fs::write(&content, "other text").unwrap();
            }
        }
    }
    let error = store.materialise(&kept.reference, &root.join("there")).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Damaged { .. }), "{error}");
}
