//! The program works on the checkout that it is run in, not on the one that it was compiled in.

#[cfg(test)]
mod checkout {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    /// Output of the program in `dir`, and whether it succeeded.
    #[expect(clippy::disallowed_methods, reason = "it is run as a person runs it")]
    fn run(dir: &Path, args: &[&str]) -> (bool, String) {
        let done = Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).current_dir(dir).output().unwrap();
        (done.status.success(), String::from_utf8(done.stdout).unwrap())
    }

    #[test]
    fn another_checkout_is_checked_where_the_program_runs_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (ok, said) = run(dir.path(), &["tidy"]);
        assert!(!ok && said.contains("is in no checkout of zk"), "{said}");
        for (path, text) in [
            ("examples/README.md", "Examples.\n"),
            ("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n"),
            ("crates/zk-probe/Cargo.toml", "[package]\nname = \"zk-probe\"\n"),
            ("crates/zk-probe/src/lib.rs", "//! Probe.\n\n// Why this is here.\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (ok, said) = run(&dir.path().join("crates/zk-probe/src"), &["tidy"]);
        assert!(!ok && said.contains("crates/zk-probe/Cargo.toml: no description"), "{said}");
    }
}
