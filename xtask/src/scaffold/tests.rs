use std::fs;

use tempfile::TempDir;

use super::{Kind, fill, member_manifest, new};
use crate::workspace::Workspace;

fn into(dir: &TempDir, kind: Kind, name: &str) -> anyhow::Result<()> {
    new(&Workspace::here()?, kind, name, Some(dir.path().to_owned()))
}

#[test]
fn a_standalone_crate_gets_versions_and_a_path_and_no_placeholder_is_left() {
    for kind in [Kind::Plugin, Kind::Provider, Kind::Dialect] {
        let dir = TempDir::new().unwrap();
        into(&dir, kind, "zk-made-up").unwrap();
        let made = dir.path().join("zk-made-up");
        let manifest: toml::Table = fs::read_to_string(made.join("Cargo.toml")).unwrap().parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("zk-made-up"));
        for shown in ["keywords", "categories"] {
            assert!(!manifest["package"][shown].as_array().unwrap().is_empty(), "{shown}");
        }
        assert_eq!(manifest["package"]["metadata"]["docs"]["rs"]["all-features"].as_bool(), Some(true));
        let core = &manifest["dependencies"]["zk-core"];
        assert!(fs::exists(core["path"].as_str().unwrap()).unwrap(), "{core}");
        assert_eq!(core["package"].as_str(), Some("zk-harness-core"), "a registry has another `zk-core`");
        assert!(manifest["dev-dependencies"]["tokio"]["version"].is_str());
        for file in ["README.md", "src/lib.rs", "tests/it/main.rs", "examples/alone.rs"] {
            let text = fs::read_to_string(made.join(file)).unwrap();
            assert!(!text.contains("{{"), "{file}");
            assert!(text.contains("made-up") || text.contains("made_up"), "{file}");
        }
    }
}

#[test]
fn a_member_inherits_everything_from_the_workspace() {
    let manifest: toml::Table = member_manifest(&super::PROVIDER, "made-up").parse().unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("zk-harness-made-up"));
    assert_eq!(manifest["lib"]["name"].as_str(), Some("zk_made_up"));
    assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true));
    assert_eq!(manifest["package"]["edition"]["workspace"].as_bool(), Some(true));
    assert_eq!(manifest["dev-dependencies"]["tokio"]["workspace"].as_bool(), Some(true));
}

#[test]
fn the_guide_of_each_kind_exists() {
    let root = Workspace::here().unwrap().root().to_owned();
    for template in [super::PLUGIN, super::PROVIDER] {
        assert!(root.join(template.guide).is_file(), "{}", template.guide);
    }
    assert!(super::PROVIDER.readme.contains(super::PROVIDER.guide));
}

#[test]
fn a_crate_that_exists_is_not_overwritten() {
    let dir = TempDir::new().unwrap();
    into(&dir, Kind::Plugin, "mine").unwrap();
    let error = into(&dir, Kind::Plugin, "mine").unwrap_err();
    assert!(error.to_string().ends_with("exists already"), "{error}");
}

#[test]
fn a_name_that_is_none_is_refused() {
    let dir = TempDir::new().unwrap();
    for name in ["", "My Plugin", "../up", "9lives", "tail-"] {
        assert!(into(&dir, Kind::Plugin, name).is_err(), "{name}");
    }
}

#[test]
fn a_name_becomes_a_crate_and_a_type() {
    assert_eq!(fill("{{name}} {{crate}} {{Type}}", "big-args"), "big-args zk_big_args BigArgs");
}
