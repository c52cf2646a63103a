//! Bundles that a person added.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zk_bundles::{BundleStore, Difference, Fetched, Source, wanted_by_project};

use crate::support::{Place, files};

async fn fetched(place: &Place, dir: &Path) -> (Fetched, Source) {
    let source = Source::Directory { path: dir.to_path_buf() };
    (place.fetcher().fetch(&source, &|_| None).await.unwrap(), source)
}

async fn keep(place: &Place, store: &BundleStore, dir: &Path) {
    let (fetched, source) = fetched(place, dir).await;
    store.keep(&fetched, &source, BTreeMap::new()).unwrap();
}

#[tokio::test]
async fn a_kept_bundle_is_a_private_copy_that_survives_what_happens_to_its_source() {
    let place = Place::new();
    let dir = place.demo("demo");
    let store = place.store();
    assert!(store.load().bundles.is_empty() && !place.path("state").exists(), "nothing is made before");
    keep(&place, &store, &dir).await;
    std::fs::remove_dir_all(&dir).unwrap();
    let loaded = store.load();
    assert_eq!((loaded.bundles.len(), loaded.problems.len()), (1, 0));
    let placed = &loaded.bundles[0];
    assert_eq!(std::fs::read_to_string(placed.path("commands/one.md")).unwrap(), "Do one.\n");
    for private in [store.dir(), &placed.root, &placed.data] {
        assert_eq!(private.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", private.display());
    }
}

#[tokio::test]
async fn a_bundle_whose_kept_files_changed_is_left_out_and_the_others_are_used() {
    let place = Place::new();
    let store = place.store();
    keep(&place, &store, &place.demo("demo")).await;
    place.write("other/commands/x.md", "x");
    keep(&place, &store, &place.path("other")).await;
    let root = store.load().bundles.into_iter().find(|one| one.bundle.name() == "demo").unwrap().root;
    std::fs::write(root.join("commands/two.md"), "Do evil.").unwrap();
    let loaded = store.load();
    assert_eq!((loaded.bundles.len(), loaded.bundles[0].bundle.name()), (1, "other"));
    assert!(
        loaded.problems[0].contains("`demo` is not used")
            && loaded.problems[0].contains("not those that were approved")
    );
}

#[tokio::test]
async fn two_bundles_of_one_name_are_not_kept() {
    let place = Place::new();
    let store = place.store();
    keep(&place, &store, &place.demo("demo")).await;
    let (other, source) = fetched(&place, &place.demo("elsewhere")).await;
    let error = store.keep(&other, &source, BTreeMap::new()).unwrap_err().to_string();
    assert!(error.contains("there is a plugin `demo` already"), "{error}");
}

#[tokio::test]
async fn an_update_keeps_the_data_and_removes_the_old_files_and_a_removal_removes_all() {
    let place = Place::new();
    let store = place.store();
    let dir = place.demo("demo");
    keep(&place, &store, &dir).await;
    let before = store.load().bundles.remove(0);
    std::fs::write(before.data.join("cache"), "kept").unwrap();
    let old = store.tree("demo", &store.records().unwrap().plugins["demo"]).unwrap();
    place.write("demo/commands/one.md", "Do one twice.\n");
    place.write("demo/hooks/hooks.json", r#"{"hooks":{}}"#);
    let (new, source) = fetched(&place, &dir).await;
    let difference = Difference::between(&old, &new.tree);
    assert_eq!(difference.files, 2);
    for line in ["changed commands/one.md", "  -Do one.", "  +Do one twice.", "added hooks/hooks.json"] {
        assert!(difference.lines.iter().any(|shown| shown == line), "{line}: {:?}", difference.lines);
    }
    store.keep(&new, &source, BTreeMap::new()).unwrap();
    let after = store.load().bundles.remove(0);
    assert!(!before.root.exists() && after.root != before.root);
    assert_eq!(std::fs::read_to_string(after.data.join("cache")).unwrap(), "kept");
    store.set_enabled("demo", false).unwrap();
    assert!(store.load().bundles.is_empty());
    store.remove("demo").unwrap();
    assert!(!after.root.exists() && !after.data.exists());
    assert!(store.remove("demo").is_err());
    assert!(store.remove("../..").is_err() && place.path("demo").exists());
}

#[tokio::test]
async fn a_directory_for_one_run_is_used_where_it_is_and_a_broken_one_is_told_of() {
    let place = Place::new();
    let store = place.store();
    let dirs = [place.demo("demo"), place.demo("twin"), place.path("missing")];
    place.write("broken/.claude-plugin/plugin.json", "{");
    let dirs = [&dirs[..], &[place.path("broken")]].concat();
    let loaded = store.load().with_directories(&dirs, &store, &files());
    assert_eq!((loaded.bundles.len(), &loaded.bundles[0].root), (1, &place.path("demo")));
    assert_eq!(loaded.problems.len(), 3, "{:?}", loaded.problems);
}

#[test]
fn broken_records_keep_no_session_from_starting() {
    let place = Place::new();
    let store = place.store();
    for text in [
        "{",
        r#"{"version":9}"#,
        r#"{"version":1,"plugins":{"../x":{"source":{"from":"directory","path":"/"},"digest":"","enabled":true}}}"#,
    ] {
        place.write("state/plugins/plugins.json", text);
        let loaded = store.load();
        assert_eq!((loaded.bundles.len(), loaded.problems.len()), (0, 1), "{text}");
    }
}

#[test]
fn what_a_project_asks_for_is_told_and_only_under_names_that_can_be_one() {
    let place = Place::new();
    let text = r#"{"enabledPlugins":{"a@shop":true,"b@shop":false,"\u001b[2J@x":true,"c":true}}"#;
    place.write("project/.claude/settings.json", text);
    assert_eq!(wanted_by_project(&place.path("project"), &files()), ["a@shop"]);
    assert!(wanted_by_project(&place.path("nowhere"), &files()).is_empty());
}
