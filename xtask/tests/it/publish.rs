//! A version is published in the order of need, once, and goes on where a registry broke off.

use crate::registry::Registry;
use crate::scratch::Scratch;

#[test]
fn publishing_goes_on_where_the_registry_broke_off_and_skips_what_is_there() {
    let scratch = Scratch::workspace();
    let registry = Registry::start();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), registry.configuration()).unwrap();
    let variables = [("CARGO_HOME", home.path().to_str().unwrap())];
    let publish =
        |args: &[&str]| scratch.xtask(&[&["publish", "--registry", "standin"], args].concat(), &variables);

    let (ok, said) = publish(&[]);
    assert!(!ok && said.contains("has no tag v0.1.0"), "{said}");
    let (ok, said) = publish(&["--dry-run"]);
    assert!(ok && said.contains("zk-harness-core 0.1.0 (1 of 3): tests from its packaged sources"), "{said}");
    assert!(said.contains("3 crates of 0.1.0 would be published"), "{said}");
    assert!(registry.taken().is_empty());

    scratch.run("git", &["tag", "v0.1.0"]);
    registry.break_off_at(Some("zk-harness-cli"));
    let (ok, said) = publish(&[]);
    assert!(!ok && said.contains("zk-harness-cli 0.1.0 (2 of 3): the registry did not take it"), "{said}");
    assert_eq!(registry.taken(), ["zk-harness-core"]);

    registry.break_off_at(None);
    let (ok, said) = publish(&[]);
    assert!(ok && said.contains("zk-harness-core 0.1.0 (1 of 3): was published before, skipped"), "{said}");
    assert_eq!(registry.taken(), ["zk-harness-core", "zk-harness-cli", "zk-harness-testkit"]);

    let (ok, said) = publish(&[]);
    assert!(ok && said.contains("zk-harness-testkit 0.1.0 (3 of 3): the registry has it, skipped"), "{said}");
    assert_eq!(registry.taken().len(), 3);

    scratch.write("crates/zk-core/src/lib.rs", "not Rust\n");
    let (ok, said) = publish(&[]);
    assert!(!ok && said.contains("the tree is not clean"), "{said}");
    let (ok, said) = publish(&["--dry-run", "--only", "zk-harness-core"]);
    assert!(!ok && said.contains("its package is not what the checkout is"), "{said}");
    scratch.run("git", &["checkout", "--quiet", "crates"]);

    registry.replace("zk-harness-cli");
    let (ok, said) = publish(&[]);
    assert!(
        !ok && said.contains("zk-harness-cli 0.1.0 (2 of 3): the registry has another package"),
        "{said}"
    );
    // Another commit with this version, where the journal says that the first crate is out.
    scratch.run("git", &["commit", "--quiet", "--allow-empty", "--message", "second"]);
    scratch.run("git", &["tag", "--force", "v0.1.0"]);
    let (ok, said) = publish(&[]);
    assert!(
        !ok && said.contains("zk-harness-core 0.1.0 (1 of 3): the registry has another package"),
        "{said}"
    );
}
