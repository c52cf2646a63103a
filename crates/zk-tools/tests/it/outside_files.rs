//! Reads outside of the workspace, which a judge decided on.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use zk_core::service::OutsideFiles;
use zk_exec::WorkspaceFiles;

use crate::support::Desk;

/// Directory outside of the workspace, with a home in it.
fn outside() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("home/.ssh")).unwrap();
    std::fs::write(root.join("home/.ssh/id_rsa"), "key").unwrap();
    std::fs::write(root.join("notes.md"), "a needle\n").unwrap();
    symlink(root.join("notes.md"), root.join("link.md")).unwrap();
    (dir, root)
}

fn desk(beside: &std::path::Path) -> Desk {
    let desk = Desk::new();
    let files = WorkspaceFiles::new([&desk.root]).unwrap().home(beside.join("home"));
    let files = files.hidden("/proc").read_only("/").unwrap();
    desk.bus.scope("outside").provide_service(Arc::new(OutsideFiles(Arc::new(files))));
    desk
}

#[tokio::test]
async fn the_tools_that_read_come_to_a_path_outside_by_its_own_name() {
    let (_dir, beside) = outside();
    let desk = desk(&beside);
    let place = beside.display().to_string();
    let read = desk.ok("read_file", json!({"path": format!("{place}/notes.md")})).await;
    assert!(read.contains("1\ta needle"), "{read}");
    assert!(desk.ok("list_files", json!({"path": place})).await.contains("notes.md"));
    let found = desk.ok("grep", json!({"pattern": "needle", "path": place})).await;
    assert!(found.contains("notes.md"), "{found}");
    assert!(desk.ok("glob", json!({"pattern": "*.md", "path": place})).await.contains("notes.md"));
}

#[tokio::test]
async fn what_nobody_was_asked_about_is_refused_as_ever() {
    let (_dir, beside) = outside();
    let desk = desk(&beside);
    let place = beside.display().to_string();
    symlink(&beside, desk.root.join("way-out")).unwrap();
    for (tool, args) in [
        // Each of these names another file than the judge saw, or one that no tool reads.
        ("read_file", json!({"path": "way-out/notes.md"})),
        ("read_file", json!({"path": format!("@{place}/notes.md")})),
        ("read_file", json!({"path": "~/notes.md"})),
        ("read_file", json!({"path": format!("{place}/home/.ssh/id_rsa")})),
        ("read_file", json!({"path": "/proc/self/environ"})),
        ("glob", json!({"pattern": format!("{place}/*.md")})),
        ("glob", json!({"pattern": "../../*.md", "path": place.clone()})),
        ("write_file", json!({"path": format!("{place}/new.md"), "content": "x"})),
    ] {
        let error = desk.err(tool, args.clone()).await;
        assert!(!error.message.contains("needle"), "{tool} {args}: {}", error.message);
    }
    let error = desk.err("read_file", json!({"path": format!("{place}/link.md")})).await;
    assert!(error.message.contains("it leads to") && error.message.contains("notes.md"), "{}", error.message);
    let unasked = Desk::new();
    let error = unasked.err("read_file", json!({"path": format!("{place}/notes.md")})).await;
    assert!(error.message.contains("is outside the allowed directories"), "{}", error.message);
}

#[tokio::test]
async fn an_agent_whose_files_outside_are_its_own_workspace_reads_nothing_outside() {
    let (_dir, beside) = outside();
    let desk = desk(&beside);
    // The host of a copy replaces the files of the conversation like this.
    let own = WorkspaceFiles::new([&desk.root]).unwrap();
    desk.bus.scope("reads").provide_service(Arc::new(OutsideFiles(Arc::new(own))));
    let place = beside.display().to_string();
    for (tool, args) in [
        ("read_file", json!({"path": format!("{place}/notes.md")})),
        ("list_files", json!({"path": place})),
        ("grep", json!({"pattern": "needle", "path": place})),
    ] {
        let error = desk.err(tool, args).await;
        assert!(error.message.contains("is outside the allowed directories"), "{tool}: {}", error.message);
    }
}
