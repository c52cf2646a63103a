//! Files that no bundle may have.

use std::os::unix::fs::symlink;

use zk_bundles::{Tree, TreeFile};

use crate::support::{Place, files, run};

fn refusal(place: &Place, below: &str) -> String {
    match Tree::read_dir(&place.path(below), &files()) {
        Ok(_) => panic!("it was read"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_link_that_leads_out_is_refused_and_one_inside_counts_as_what_it_leads_to() {
    let place = Place::new();
    let secret = place.write("home/.ssh/id", "a key");
    let dir = place.demo("demo");
    symlink("one.md", dir.join("commands/same.md")).unwrap();
    symlink("commands", dir.join("prompts")).unwrap();
    let tree = Tree::read_dir(&dir, &files()).unwrap();
    assert_eq!(tree.get("prompts/same.md").unwrap().bytes, b"Do one.\n");
    for (name, target) in [
        ("file", secret.to_str().unwrap()),
        ("dir", place.path("home").to_str().unwrap()),
        ("up", "../home/.ssh/id"),
        ("gone", "nowhere"),
        ("circle", "."),
    ] {
        symlink(target, dir.join(name)).unwrap();
        let said = refusal(&place, "demo");
        assert!(said.contains("leads out of the plugin"), "{name}: {said}");
        std::fs::remove_file(dir.join(name)).unwrap();
    }
}

#[test]
fn a_pipe_is_refused_without_waiting_for_it() {
    let place = Place::new();
    let dir = place.demo("demo");
    if run(&dir, "mkfifo", &["hooks.json"]).is_none() {
        return;
    }
    assert!(refusal(&place, "demo").contains("not a regular file"));
}

#[test]
fn files_that_are_too_large_are_refused_before_they_are_in_memory() {
    let place = Place::new();
    let dir = place.demo("demo");
    // Without a byte on the disk.
    let file = std::fs::File::create(dir.join("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let said = refusal(&place, "demo");
    assert!(said.contains("64 MiB") && said.contains("huge"), "{said}");
}

#[test]
fn names_that_steer_a_terminal_or_lead_out_are_refused() {
    let mut tree = Tree::default();
    for (path, why) in [
        ("a\u{1b}[2J", "control characters"),
        ("a\nb", "control characters"),
        ("a\\b", "control characters"),
        ("../a", "leads out"),
        ("/etc/passwd", "leads out"),
        ("a/./b", "leads out"),
        ("a//b", "leads out"),
        ("", "leads out"),
    ] {
        let error = tree.insert(path, TreeFile::default()).unwrap_err().to_string();
        assert!(
            error.contains(why) && !error.contains('\u{1b}') && !error.contains('\n'),
            "{path:?}: {error}"
        );
    }
    let deep = "a/".repeat(40) + "b";
    assert!(tree.insert(&deep, TreeFile::default()).is_err());
    tree.insert("a", TreeFile::default()).unwrap();
    assert!(tree.insert("a", TreeFile::default()).unwrap_err().to_string().contains("twice"));
    let place = Place::new();
    let dir = place.demo("demo");
    std::fs::write(dir.join("a\u{1b}[31m.md"), "").unwrap();
    assert!(refusal(&place, "demo").contains("control characters"));
}

#[test]
fn one_byte_one_name_and_one_mode_change_the_digest() {
    let file = |text: &str, is_executable| TreeFile { bytes: text.into(), is_executable };
    let of = |files: &[(&str, TreeFile)]| {
        let mut tree = Tree::default();
        files.iter().for_each(|(path, file)| tree.insert(path, file.clone()).unwrap());
        tree.digest()
    };
    let digests = [
        of(&[("a", file("x", false))]),
        of(&[("a", file("y", false))]),
        of(&[("b", file("x", false))]),
        of(&[("a", file("x", true))]),
        of(&[("a", file("", false)), ("x", file("", false))]),
        of(&[]),
    ];
    let different: std::collections::BTreeSet<&String> = digests.iter().collect();
    assert_eq!(different.len(), digests.len());
}
