//! Bounds of copies: what of a repository comes into one, and what of one comes back.

use std::fs;

use crate::copies::{Rig, is_there, put};

#[tokio::test]
async fn a_work_tree_elsewhere_is_not_copied() {
    let rig = Rig::with_commit(&[("a.txt", "a\n")]).await;
    let other = rig.dir.path().join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("secret"), "key").unwrap();
    rig.git(&format!("config core.worktree {}", other.display())).await;
    let error = rig.try_copy("main.1").await.map(drop).unwrap_err();
    assert!(error.contains("unset `core.worktree`"), "{error}");
}

#[tokio::test]
async fn only_files_below_the_roots_of_the_work_are_copied() {
    let mut rig = Rig::with_commit(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]).await;
    let below = rig.root().join("sub");
    rig.again(|worktrees| worktrees.below([below]));
    let copy = rig.copy("main.1").await;
    assert!(!is_there(&copy.cwd().join("a.txt")) && is_there(&copy.cwd().join("sub/b.txt")));
    put(&copy, "sub/b.txt", "c\n");
    assert_eq!(copy.finish().await.unwrap().files, ["sub/b.txt"]);
}
