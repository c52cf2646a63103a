//! A version is released as a whole or not at all, wherever the work is broken off.

#![expect(clippy::disallowed_methods, reason = "a variable sets the size of the campaign")]

use crate::scratch::Scratch;

/// Stand-ins for the docs, the list for the linker and the CI: the first writes a page and a new one, the last checks that
/// both are there.
const QUICK: [(&str, &str); 3] = [
    (
        "ZK_RELEASE_DOCS",
        "cd docs/reference && grep -m1 '^version' ../../Cargo.toml > page.md && mkdir -p new && cp page.md new/new.md",
    ),
    ("ZK_RELEASE_ORDER", "true"),
    (
        "ZK_RELEASE_CI",
        "grep -q 0.2.0 docs/reference/new/new.md && cargo metadata --locked --offline --format-version=1 >target/metadata",
    ),
];

/// Places at which the program dies.
const PLACES: [&str; 15] = [
    "before:bump",
    "inside:bump",
    "after:bump",
    "inside:changes",
    "after:changes",
    "before:docs",
    "after:docs",
    "after:order",
    "before:ci",
    "after:ci",
    "before:commit",
    "inside:commit",
    "after:commit",
    "before:tag",
    "after:tag",
];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    QUICK.iter().chain(more).copied().collect()
}

/// Everything of a checkout that a release may change.
fn state(scratch: &Scratch) -> (String, String, String) {
    let git = |args: &[&str]| scratch.run("git", args);
    (
        git(&["rev-parse", "HEAD"]),
        git(&["status", "--porcelain", "--untracked-files=all"]),
        git(&["tag", "--list"]),
    )
}

fn assert_released(scratch: &Scratch, place: &str) {
    let git = |args: &[&str]| scratch.run("git", args);
    assert_eq!(git(&["log", "--format=%s"]), "release: 0.2.0\nfirst\n", "{place}");
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=all"]), "", "{place}");
    assert_eq!(git(&["rev-parse", "v0.2.0^{commit}"]), git(&["rev-parse", "HEAD"]), "{place}");
    let expected = "# Changes\n\n## 0.2.0, DAY\n\n* **One**: a change.\n* **Two**: another\n  change.\n\n## 0.1.0, 2026-01-01\n\n* **Old**: all of it.\n";
    let list = scratch.read("CHANGELOG.md");
    let day = list.split("0.2.0, ").nth(1).and_then(|rest| rest.get(..10)).unwrap();
    assert_eq!(list, expected.replace("DAY", day), "{place}");
    assert_eq!(
        git(&["ls-files", "changes", "docs"]),
        "changes/README.md\ndocs/guide.md\ndocs/reference/new/new.md\ndocs/reference/page.md\n",
        "{place}"
    );
    let manifest = scratch.read("Cargo.toml");
    assert_eq!((manifest.matches("0.2.0").count(), manifest.matches("0.1.0").count()), (3, 0), "{place}");
    assert!(scratch.read("docs/guide.md").contains("zk-harness-core = \"0.2\"\nother = \"0.1\""), "{place}");
    assert!(scratch.read("clients/python/pyproject.toml").contains("version = \"0.2.0\""), "{place}");
    assert!(!scratch.path().join("target/release-journal.json").exists(), "{place}");
}

#[test]
fn release_that_is_killed_anywhere_goes_on_or_is_undone() {
    let scratch = Scratch::workspace();
    let before = state(&scratch);
    let killed = |place: &str| {
        let (ok, said) = scratch.xtask(&["release", "0.2.0"], &with(&[("ZK_RELEASE_DIES", place)]));
        assert!(!ok && !said.contains("xtask:"), "{place}: {said}");
    };
    let undone = |place: &str| {
        let (ok, said) = scratch.xtask(&["release", "--undo"], &[]);
        assert!(ok, "{place}: {said}");
        assert_eq!(state(&scratch), before, "{place}: not undone");
    };
    // All of them where the variable is set: each is a release of its own.
    let all = std::env::var_os("ZK_RELEASE_PLACES").is_some();
    for place in PLACES.into_iter().filter(|place| all || place.starts_with("inside")) {
        killed(place);
        undone(place);
        if all {
            killed(place);
            assert!(scratch.xtask(&["release", "0.2.0"], &with(&[])).0, "{place}");
            assert_released(&scratch, place);
            assert!(scratch.xtask(&["release", "--undo", "0.2.0"], &[]).0, "{place}");
        }
    }
    PLACES.into_iter().for_each(killed);
    let (ok, said) = scratch.xtask(&["release", "0.2.1"], &with(&[]));
    assert!(!ok && said.contains("the release of 0.2.0 was broken off"), "{said}");
    let (ok, said) = scratch.xtask(&["release", "0.2.0"], &with(&[]));
    assert!(ok && said.contains("goes on"), "{said}");
    assert_released(&scratch, "killed at each place, one after another");
    let (ok, said) = scratch.xtask(&["release", "--undo", "0.2.0"], &[]);
    assert!(ok, "{said}");
    assert_eq!(state(&scratch), before, "the whole release is not undone");
}

#[test]
fn release_is_refused_in_words_before_anything_changes() {
    let scratch = Scratch::workspace();
    let before = state(&scratch);
    for (version, why) in [
        ("0.1.0", "nothing"),
        ("0.3.0", "does not follow 0.1.0"),
        ("0.0.9", "does not follow"),
        ("v0.2.0", "is no version"),
    ] {
        let (ok, said) = scratch.xtask(&["release", version, "--dry-run"], &with(&[]));
        // The first version may be the one that the manifest has.
        assert_eq!(ok, version == "0.1.0", "{version}: {said}");
        assert!(said.contains(why), "{version}: {said}");
    }
    let (ok, said) = scratch.xtask(&["release", "0.2.0", "--dry-run"], &with(&[]));
    assert!(ok && said.contains("changes/two.md into CHANGELOG.md"), "{said}");
    assert_eq!(state(&scratch), before);

    scratch.write("docs/reference/page.md", "Not committed.\n");
    let (ok, said) = scratch.xtask(&["release", "0.2.0"], &with(&[]));
    assert!(
        !ok && said
            .contains("the tree is not clean, 1 files differ from the commit, docs/reference/page.md first"),
        "{said}"
    );
    scratch.run("git", &["checkout", "--quiet", "docs/reference/page.md"]);

    let (ok, said) = scratch.xtask(&["release", "0.2.0"], &with(&[("ZK_RELEASE_CI", "false")]));
    assert!(!ok && said.contains("everything the CI runs: nothing is tagged"), "{said}");
    scratch.write("notes.txt", "Mine.\n");
    let (ok, said) = scratch.xtask(&["release", "--undo"], &[]);
    assert!(!ok && said.contains("notes.txt changed and is not of the release"), "{said}");
    std::fs::remove_file(scratch.path().join("notes.txt")).unwrap();
    let (ok, said) = scratch.xtask(&["release", "--undo"], &[]);
    assert!(ok, "{said}");
    assert_eq!(state(&scratch), before);

    let other = Scratch::empty();
    scratch.run("git", &["init", "--quiet", "--bare", &other.path().to_string_lossy()]);
    scratch.run("git", &["remote", "add", "origin", &other.path().to_string_lossy()]);
    let (ok, said) = scratch.xtask(&["release", "0.2.0"], &with(&[]));
    assert!(ok, "{said}");
    scratch.run("git", &["push", "--quiet", "origin", "v0.2.0"]);
    let (ok, said) = scratch.xtask(&["release", "--undo", "0.2.0"], &[]);
    assert!(!ok && said.contains("v0.2.0 was pushed to origin"), "{said}");
    let (ok, said) = scratch.xtask(&["release", "0.2.0"], &with(&[]));
    assert!(!ok && said.contains("there is a tag v0.2.0"), "{said}");
}

#[test]
fn changes_of_somebody_else_are_neither_lost_nor_released() {
    let scratch = Scratch::workspace();
    let before = state(&scratch);
    let release = |more: &[(&str, &str)]| scratch.xtask(&["release", "0.2.0"], &with(more));
    let code = "crates/zk-core/src/lib.rs";
    let was = scratch.read(code);

    // A file that changes while the CI runs.
    let edits = format!("echo '// mine' >> {code}");
    let (ok, said) = release(&[("ZK_RELEASE_CI", &edits)]);
    assert!(!ok && said.contains("crates/zk-core/src/lib.rs changed meanwhile"), "{said}");
    scratch.write(code, &was);
    assert!(scratch.xtask(&["release", "--undo"], &[]).0);

    // Files that change after a step was killed or has ended: of the code, of the release itself, and new ones.
    for (killed_at, edited) in [
        ("before:docs", code),
        ("before:docs", "docs/mine.md"),
        ("after:ci", "docs/reference/page.md"),
        ("before:commit", code),
        ("before:commit", "docs/reference/page.md"),
        ("before:commit", "changes/mine.md"),
        ("before:tag", code),
    ] {
        let place = format!("{edited} {killed_at}");
        release(&[("ZK_RELEASE_DIES", killed_at)]);
        let held = scratch.tried("cat", &[edited], "", &[]);
        scratch.write(edited, "Mine.\n");
        for args in [["release", "0.2.0"], ["release", "--undo"]] {
            let (ok, said) = scratch.xtask(&args, &with(&[]));
            assert!(
                !ok && said.contains(&format!("{edited} changed and is not of the release")),
                "{place}: {said}"
            );
            assert_eq!(scratch.read(edited), "Mine.\n", "{place}");
        }
        match held {
            (true, text) => drop(scratch.write(edited, &text)),
            (false, _) => std::fs::remove_file(scratch.path().join(edited)).unwrap(),
        }
    }

    // A commit that is not what was tested.
    scratch.write(code, "Mine.\n");
    scratch.run("git", &["commit", "--quiet", "--all", "--amend", "--no-edit"]);
    scratch.run("git", &["checkout", "--quiet", "HEAD^", "--", code]);
    let (ok, said) = release(&[]);
    assert!(!ok && said.contains("crates/zk-core/src/lib.rs is not as the CI tested it"), "{said}");
    assert!(scratch.xtask(&["release", "--undo"], &[]).0);
    assert_eq!(state(&scratch), before);

    // A release that ended, and a page that was edited after its step was killed.
    assert!(release(&[]).0);
    scratch.write("docs/mine.md", "Mine.\n");
    let (ok, said) = scratch.xtask(&["release", "--undo", "0.2.0"], &[]);
    assert!(!ok && said.contains("docs/mine.md changed"), "{said}");
    std::fs::remove_file(scratch.path().join("docs/mine.md")).unwrap();
    assert!(scratch.xtask(&["release", "--undo", "0.2.0"], &[]).0);
    release(&[("ZK_RELEASE_DIES", "after:docs")]);
    scratch.write("docs/reference/page.md", "Mine.\n");
    let (ok, said) = scratch.xtask(&["release", "--undo"], &[]);
    assert!(ok && said.contains("git stash list"), "{said}");
    assert_eq!(state(&scratch), before);
    assert_eq!(scratch.run("git", &["show", "stash@{0}:docs/reference/page.md"]), "Mine.\n");
}
