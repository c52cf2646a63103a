use std::fs;

use super::{compose, unlisted};
use crate::workspace::Workspace;

fn checkout(files: &[(&str, &str)]) -> (tempfile::TempDir, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ("Cargo.toml", "[workspace.package]\nrepository = \"https://example.com/zk\"\n");
    for (path, text) in files.iter().chain([&manifest]) {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let workspace = Workspace::at(dir.path());
    (dir, workspace)
}

#[test]
fn links_of_a_page_lead_to_pages_of_the_site_or_into_the_repository() {
    let page = "[b](b.md#h) [c](../crates/c) [d](reference/d.json) `[e](f.md)` [g](../README.md)\n\n```\n[h](b.md)\n```\n";
    let (_dir, workspace) = checkout(&[
        ("README.md", "# zk\n\n![it](docs/p.svg) [a](docs/a.md)\n"),
        ("docs/SUMMARY.md", "# Summary\n\n[zk](../README.md)\n\n- [A](a.md)\n- [B](b.md)\n"),
        ("docs/a.md", page),
        ("docs/b.md", "# B\n\n## H\n\n~/a or `~/b`, such as ~/c\n"),
        ("docs/p.svg", "<svg/>"),
        ("docs/adr/0001-one.md", "# One\n\n[a](../a.md)\n"),
        ("docs/reference/d.json", "{}"),
        ("crates/c/x", ""),
    ]);
    let files = compose::files(&workspace, &workspace.texts().unwrap()).unwrap();
    let text = |path: &str| {
        let (_, bytes) = files.iter().find(|(name, _)| name == path).unwrap();
        String::from_utf8(bytes.clone()).unwrap()
    };
    assert_eq!(
        text("src/a.md").lines().next().unwrap(),
        "[b](b.md#h) [c](https://example.com/zk/tree/main/crates/c) [d](reference/d.json) `[e](f.md)` [g](index.md)"
    );
    assert!(text("src/a.md").contains("\n[h](b.md)\n"));
    assert!(text("src/b.md").ends_with("\n\\~/a or `~/b`, such as \\~/c\n"));
    assert!(text("src/index.md").contains("![it](p.svg) [a](a.md)"));
    assert!(text("src/adr/0001-one.md").contains("[a](../a.md)"));
    assert!(text("src/SUMMARY.md").ends_with("\n# Decisions\n\n- [One](adr/0001-one.md)\n"));
    assert_eq!(text("src/p.svg"), "<svg/>");
}

#[test]
fn a_page_that_the_summary_does_not_list_is_found() {
    let (_dir, workspace) = checkout(&[
        ("docs/SUMMARY.md", "- [A](a.md)\n"),
        ("docs/a.md", ""),
        ("docs/b.md", ""),
        ("docs/adr/0001-one.md", ""),
    ]);
    assert_eq!(unlisted(&workspace.texts().unwrap()), ["docs/b.md"]);
}
