//! The program works on the checkout that it is run in, not on the one that it was compiled in.

use crate::scratch::Scratch;

#[test]
fn another_checkout_is_checked_where_the_program_runs_in_it() {
    let scratch = Scratch::empty();
    let (ok, said) = scratch.xtask(&["tidy"], &[]);
    assert!(!ok && said.contains("is in no checkout of zk"), "{said}");
    for (path, text) in [
        ("Cargo.toml", "[workspace.package]\nrust-version = \"1.95\"\n"),
        ("rust-toolchain.toml", "[toolchain]\nchannel = \"1.95.0\"\n"),
        ("examples/README.md", "Examples.\n"),
        ("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n"),
        ("crates/zk-probe/Cargo.toml", "[package]\nname = \"zk-probe\"\n"),
        ("crates/zk-probe/src/lib.rs", "//! Probe.\n\n// Why this is here.\n"),
    ] {
        scratch.write(path, text);
    }
    let (ok, said) = scratch.xtask_in("crates/zk-probe/src", &["tidy"], &[]);
    assert!(!ok && said.contains("crates/zk-probe/Cargo.toml: no description"), "{said}");
}
