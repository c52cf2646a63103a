use std::fs;

use zk_bundles::{Loaded, ProjectBundle};

use crate::support::{Place, files};

#[test]
fn copies_that_the_project_no_longer_names_go_unless_another_start_uses_them() {
    let place = Place::new();
    let project = place.path("project");
    let write = |name: &str, version: &str| {
        let manifest = format!(r#"{{"name": "{name}", "version": "{version}"}}"#);
        place.write(&format!("project/tools/{name}/.claude-plugin/plugin.json"), &manifest);
    };
    let read = |names: &[&str]| -> Vec<ProjectBundle> {
        let dirs = names.iter().map(|name| format!("tools/{name}"));
        dirs.map(|dir| ProjectBundle::read(&project, &dir, &files()).unwrap()).collect()
    };
    let load = |names: &[&str]| place.store().load_of_project(&project, &read(names), &Loaded::default());
    let roots = |loaded: &Loaded| -> Vec<_> { loaded.bundles.iter().map(|one| one.root.clone()).collect() };
    write("one", "1");
    write("two", "1");
    let first = load(&["one", "two"]);
    assert!(first.problems.is_empty(), "{:?}", first.problems);
    let [one, two] = roots(&first).try_into().unwrap();
    let data = first.bundles[1].data.clone();
    write("one", "2");
    // The first start still uses its copies.
    let second = load(&["one"]);
    let [newer] = roots(&second).try_into().unwrap();
    assert!(one.is_dir() && two.is_dir() && newer.is_dir() && one != newer);
    drop((first, second));
    let third = load(&["one"]);
    assert_eq!((one.is_dir(), two.is_dir(), newer.is_dir()), (false, false, true));
    assert!(data.is_dir(), "what a plugin wrote stays");
    drop(third);
    // A project without plugins clears its copies, and a place without any is not made.
    assert!(load(&[]).problems.is_empty());
    assert!(!newer.is_dir());
    let elsewhere = place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let before = fs::read_dir(newer.ancestors().nth(4).unwrap()).unwrap().count();
    let none = place.store().load_of_project(&elsewhere, &[], &Loaded::default());
    assert!(none.bundles.is_empty());
    assert_eq!(fs::read_dir(newer.ancestors().nth(4).unwrap()).unwrap().count(), before);
}
