#![expect(clippy::disallowed_methods, reason = "the program is run as a person runs it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Checkout that a test may break.
pub(crate) struct Scratch {
    dir: TempDir,
}

impl Scratch {
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Workspace of three crates in a repository: `zk-cli` needs `zk-core`, whose tests need `zk-testkit`.
    pub(crate) fn workspace() -> Self {
        let scratch = Self::empty();
        let package = |name: &str, rest: &str| {
            format!(
                "[package]\nname = \"zk-harness-{name}\"\ndescription = \"A part of a test\"\nversion.workspace = true\nedition.workspace = true\n\
                 license = \"MIT OR Apache-2.0\"\nrepository = \"https://example.invalid/zk\"\nauthors = [\"A. Tester\"]\n{rest}"
            )
        };
        let cli =
            "[[bin]]\nname = \"zk\"\npath = \"src/main.rs\"\n[dependencies]\nzk-core.workspace = true\n";
        for (path, text) in [
            (
                "Cargo.toml",
                "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\", \"xtask\"]\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
                 [workspace.dependencies]\nzk-core = { package = \"zk-harness-core\", path = \"crates/zk-core\", version = \"0.1.0\" }\n\
                 zk-testkit = { package = \"zk-harness-testkit\", path = \"crates/zk-testkit\", version = \"0.1.0\" }\n",
            ),
            ("xtask/Cargo.toml", "[package]\nname = \"xtask\"\nversion = \"0.0.0\"\npublish = false\n"),
            ("xtask/src/lib.rs", ""),
            ("crates/zk-cli/Cargo.toml", &package("cli", cli)),
            ("crates/zk-cli/src/main.rs", "fn main() {}\n"),
            (
                "crates/zk-core/Cargo.toml",
                &package(
                    "core",
                    "[lib]\nname = \"zk_core\"\n[dev-dependencies]\nzk-testkit = { package = \"zk-harness-testkit\", path = \"../zk-testkit\" }\n",
                ),
            ),
            ("crates/zk-core/src/lib.rs", "#[test]\nfn one() {\n    assert_eq!(zk_testkit::one(), 1);\n}\n"),
            (
                "crates/zk-testkit/Cargo.toml",
                &package(
                    "testkit",
                    "[lib]\nname = \"zk_testkit\"\n[dependencies]\nzk-core.workspace = true\n",
                ),
            ),
            ("crates/zk-testkit/src/lib.rs", "pub fn one() -> u8 {\n    1\n}\n"),
            ("clients/python/pyproject.toml", "[project]\nversion = \"0.1.0\"\n"),
            ("docs/guide.md", "```toml\nzk-harness-core = \"0.1\"\nother = \"0.1\"\n```\n"),
            ("docs/reference/page.md", "A page.\n"),
            ("CHANGELOG.md", "# Changes\n\n## 0.1.0, 2026-01-01\n\n* **Old**: all of it.\n"),
            ("changes/README.md", "A file for each change.\n"),
            ("changes/one.md", "* **One**: a change.\n"),
            ("changes/two.md", "* **Two**: another\n  change.\n"),
            ("README.md", "zk.\n"),
            ("LICENSE-MIT", "MIT.\n"),
            ("LICENSE-APACHE", "Apache.\n"),
            (".gitignore", "/target\n"),
        ] {
            scratch.write(path, text);
        }
        scratch.run("cargo", &["generate-lockfile", "--offline", "--quiet"]);
        scratch.run("git", &["init", "--quiet", "--initial-branch=main"]);
        for (name, value) in [
            ("user.name", "A. Tester"),
            ("user.email", "tester@example.invalid"),
            ("commit.gpgsign", "false"),
            ("tag.gpgsign", "false"),
        ] {
            scratch.run("git", &["config", name, value]);
        }
        scratch.run("git", &["add", "--all"]);
        scratch.run("git", &["commit", "--quiet", "--message", "first"]);
        scratch
    }

    /// Another checkout of its commit.
    pub(crate) fn clone_of(&self) -> Self {
        let other = Self::empty();
        other.run("git", &["clone", "--quiet", &self.path().to_string_lossy(), "."]);
        other
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    /// Output of a program that must succeed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> String {
        let (ok, said) = self.tried(program, args, "", &[]);
        assert!(ok, "{program} {args:?}: {said}");
        said
    }

    /// Whether the program succeeded, and its output.
    pub(crate) fn xtask(&self, args: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        self.xtask_in("", args, variables)
    }

    pub(crate) fn xtask_in(&self, dir: &str, args: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        self.tried(env!("CARGO_BIN_EXE_xtask"), args, dir, variables)
    }

    pub(crate) fn tried(
        &self,
        program: &str,
        args: &[&str],
        dir: &str,
        variables: &[(&str, &str)],
    ) -> (bool, String) {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.path().join(dir))
            .env("CARGO_TARGET_DIR", self.path().join("target"));
        command.env_remove("SOURCE_DATE_EPOCH").env_remove("GIT_DIR").envs(variables.iter().copied());
        let done = command.output().unwrap();
        let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (done.status.success(), said.concat())
    }
}
