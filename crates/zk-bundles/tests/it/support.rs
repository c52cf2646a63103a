use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_bundles::{Bundle, BundleError, BundleStore, Fetcher, Tree, TreeFile};
use zk_exec::{Environment, LocalHostFiles, LocalStateFiles, ProcessExec};

/// A tree of these files.
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.insert(path, TreeFile { bytes: text.as_bytes().to_vec(), is_executable: false }).unwrap();
    }
    tree
}

/// The bundle of these files, in a directory called `folder`.
pub(crate) fn read(files: &[(&str, &str)]) -> Result<Bundle, BundleError> {
    Bundle::read(&tree(files), "folder")
}

/// The reason why these files are no bundle.
pub(crate) fn refusal(files: &[(&str, &str)]) -> String {
    match read(files) {
        Ok(bundle) => panic!("it was read: {bundle:?}"),
        Err(error) => error.to_string(),
    }
}

/// Directories of a test.
pub(crate) struct Place {
    temp: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(below)
    }

    pub(crate) fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A small bundle called `demo`.
    pub(crate) fn demo(&self, below: &str) -> PathBuf {
        self.write(&format!("{below}/.claude-plugin/plugin.json"), r#"{"name":"demo","version":"1.0.0"}"#);
        self.write(&format!("{below}/commands/one.md"), "Do one.\n");
        self.path(below)
    }

    pub(crate) fn store(&self) -> BundleStore {
        let state = Arc::new(LocalStateFiles::default());
        BundleStore::new(self.path("state/plugins"), state, Arc::new(files()))
    }

    pub(crate) fn fetcher(&self) -> Fetcher {
        let exec = ProcessExec::new(Environment::filtered(variables(&self.path("home"))));
        Fetcher::new(Arc::new(exec), Arc::new(files()), self.path("state/plugins"))
    }
}

pub(crate) fn files() -> LocalHostFiles {
    LocalHostFiles::new()
}

#[expect(clippy::disallowed_methods, reason = "programs of the tests are found as usual")]
fn variables(home: &Path) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    vec![("PATH".into(), path), ("HOME".into(), home.into())]
}

/// Runs a program of this machine in `dir`; `None` where there is no such program.
#[expect(
    clippy::disallowed_methods,
    reason = "real programs make the archives and repositories of the tests"
)]
pub(crate) fn run(dir: &Path, program: &str, args: &[&str]) -> Option<String> {
    let ran = std::process::Command::new(program).args(args).current_dir(dir).output();
    let Ok(output) = ran else {
        eprintln!("skipped: this machine has no {program}");
        return None;
    };
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes a repository of all files in `dir`; returns its commit.
pub(crate) fn commit(dir: &Path) -> Option<String> {
    run(dir, "git", &["init", "--quiet", "--initial-branch=main"])?;
    run(dir, "git", &["add", "--all"])?;
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    run(dir, "git", &[&who[..], &["commit", "--quiet", "--allow-empty", "-m", "x"]].concat())?;
    run(dir, "git", &["rev-parse", "HEAD"])
}
