//! Limits of copies: the files of a repository that get into a copy, and those that return from it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use zk_core::kernel::Cx;
use zk_core::model::{Display, Effects};
use zk_core::service::{Isolation, ToolCx};

use crate::copies::{Rig, has_entries, put};

#[tokio::test]
async fn a_work_tree_outside_the_repository_is_not_copied() {
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
    rig.restart_plugin(|worktrees| worktrees.below([below]));
    let copy = rig.copy("main.1").await;
    assert!(!has_entries(&copy.cwd().join("a.txt")) && has_entries(&copy.cwd().join("sub/b.txt")));
    put(&copy, "sub/b.txt", "c\n");
    let isolation = rig.bus.service::<dyn Isolation>().unwrap();
    let nested = isolation.isolate("main.1.1", &copy.cwd(), &rig.bus.cx()).await.unwrap();
    assert_eq!(fs::read_to_string(nested.cwd().join("sub/b.txt")).unwrap(), "c\n", "a copy of a copy");
    drop(nested);
    assert_eq!(copy.finish().await.unwrap().files, ["sub/b.txt"]);
}

#[tokio::test]
async fn files_that_are_tracked_and_ignored_come_back() {
    let rig = Rig::with_commit(&[("out/kept", "1\n")]).await;
    rig.write(".gitignore", "out\n");
    let copy = rig.copy("main.1").await;
    put(&copy, "out/kept", "2\n");
    put(&copy, "out/built", "x\n");
    assert_eq!(copy.finish().await.unwrap().files, ["out/kept"]);
    rig.apply("main.1").await.unwrap();
    assert_eq!((rig.read("out/kept"), rig.read("out/built")), ("2\n".into(), "(none)".into()));
}

#[tokio::test]
async fn changes_are_applied_and_discarded_by_those_above_their_agent_alone() {
    let rig = Rig::with_commit(&[("a.txt", "1\n")]).await;
    let copy = rig.copy("main.1").await;
    put(&copy, "a.txt", "2\n");
    let file = copy.finish().await.unwrap().file.unwrap();
    let sibling = rig.bus.child("main.2");
    let call = async |cx: Cx, args| {
        let cx = ToolCx::new(cx, rig.root());
        let approved = cx.approve(rig.tool(), args).await.unwrap();
        rig.tool().call(&approved, &cx).await
    };
    for args in [json!({"agent": "main.1"}), json!({"agent": "main.1", "discard": true})] {
        let place = ToolCx::new(sibling.cx(), rig.root()).place();
        assert_eq!(rig.tool().effects(&args, &place), Effects::Unknown);
        let error = call(sibling.cx(), args).await.unwrap_err();
        assert!(error.message.contains("no changes wait"), "{error:?}");
    }
    call(rig.bus.cx(), json!({"agent": "main.1", "discard": true})).await.unwrap();
    assert!(!has_entries(&file), "nothing is left behind");
    assert!(rig.apply("main.1").await.is_err());
}

#[tokio::test]
async fn changes_without_a_review_are_not_applied() {
    let rig = Rig::with_commit(&[("a.txt", "1\n")]).await;
    let place = ToolCx::new(rig.bus.cx(), rig.root()).place();
    assert!(rig.tool().preview(&json!({"agent": "main.1"}), &place).await.is_none());
    let copy = rig.copy("main.1").await;
    put(&copy, "a.txt", "2\n");
    copy.finish().await.unwrap();
    let error = rig.apply("main.1").await.unwrap_err().message;
    assert!(error.contains("could not be shown"), "{error}");
    rig.apply("main.1").await.unwrap();
}

#[tokio::test]
async fn copies_of_a_live_process_stay_and_a_lock_that_cannot_be_had_is_left() {
    let mut rig = Rig::with_commit(&[("a.txt", "a\n")]).await;
    let first = rig.copy("main.1").await;
    let before = rig.bus.clone();
    let odd = rig.dir.path().join("state/odd");
    fs::create_dir_all(&odd).unwrap();
    std::os::unix::fs::symlink("/dev/null", rig.dir.path().join("state/odd.lock")).unwrap();
    rig.restart_plugin(|worktrees| worktrees);
    let second = rig.copy("main.2").await;
    assert!(has_entries(&first.cwd()) && has_entries(&second.cwd()) && has_entries(&odd));
    drop(before);
}

#[tokio::test]
async fn a_changed_mode_is_shown_and_other_modes_stay_as_the_person_has_them() {
    let rig = Rig::with_commit(&[("a.sh", "1\n"), ("b.sh", "1\n")]).await;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let copy = rig.copy("main.1").await;
    fs::set_permissions(copy.cwd().join("a.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    put(&copy, "b.sh", "2\n");
    copy.finish().await.unwrap();
    fs::set_permissions(rig.root().join("b.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let place = ToolCx::new(rig.bus.cx(), rig.root()).place();
    let shown = rig.tool().preview(&json!({"agent": "main.1"}), &place).await;
    let Some(Display::Diff { diff, .. }) = shown else { panic!("no diff") };
    assert!(diff.contains("b/a.sh\nold mode 100644\nnew mode 100755\n"), "{diff}");
    assert!(diff.contains("+2\n") && !diff.contains("b/b.sh\nold mode"), "{diff}");
    rig.apply("main.1").await.unwrap();
    let modes = ["a.sh", "b.sh"].map(|name| mode(&rig.root().join(name)) & 0o100);
    assert_eq!((modes, rig.read("b.sh")), ([0o100, 0o100], "2\n".into()));
}
