//! A copy has what the workspace has, the repository stays as it was, and changes come back as one patch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::model::{Display, Effects, ToolError, ToolOutput};
use zk_core::service::{Exec, ExecRequest, Files, IsolatedCopy, Isolation, Tool, ToolCx};
use zk_exec::{Environment, LocalStateFiles, ProcessExec, WorkspaceFiles};
use zk_worktree::Worktrees;

pub(crate) type GitState = BTreeMap<PathBuf, (Vec<u8>, u32, std::time::SystemTime)>;

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) bus: Bus,
    pub(crate) exec: Arc<ProcessExec>,
}

impl Rig {
    #[expect(clippy::disallowed_methods, reason = "git is where the machine has it")]
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").unwrap();
        let exec = Arc::new(ProcessExec::new(Environment::filtered([("PATH", path.as_str())])));
        fs::create_dir_all(dir.path().join("project/sub")).unwrap();
        let mut this = Self { dir, bus: Bus::new(), exec };
        this.restart_plugin(|worktrees| worktrees);
        this
    }

    /// Creates the plugin again, as a new process does.
    pub(crate) fn restart_plugin(&mut self, set_up: impl FnOnce(Worktrees) -> Worktrees) {
        let (bus, files) = (Bus::new(), Arc::new(LocalStateFiles::default()));
        let workspace = WorkspaceFiles::new([self.root()]).unwrap();
        bus.scope("files").provide_service::<dyn Files>(Arc::new(workspace));
        let state = self.dir.path().join("state");
        let worktrees = Worktrees::new(state, self.exec.clone(), files, |_| Ok(Vec::new()));
        bus.install(&set_up(worktrees)).unwrap();
        self.bus = bus;
    }

    pub(crate) async fn with_commit(files: &[(&str, &str)]) -> Self {
        let rig = Self::new().await;
        rig.git("init -q -b main").await;
        for (path, text) in files {
            rig.write(path, text);
        }
        rig.git("add -A").await;
        rig.git("-c user.name=x -c user.email=x@x commit -q -m first").await;
        rig
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("project").canonicalize().unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|_| "(none)".to_owned())
    }

    pub(crate) async fn git(&self, args: &str) {
        let mut request = ExecRequest::new("git", self.root());
        request.args = args.split(' ').map(Into::into).collect();
        let mut sink = |_: zk_core::service::OutputStream, _: &[u8]| {};
        let done = self.exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
        assert_eq!(done.exit, zk_core::service::Exit::Code(0), "git {args}");
    }

    pub(crate) async fn copy(&self, agent: &str) -> Arc<dyn IsolatedCopy> {
        self.try_copy(agent).await.unwrap()
    }

    pub(crate) async fn try_copy(&self, agent: &str) -> Result<Arc<dyn IsolatedCopy>, String> {
        let isolation = self.bus.service::<dyn Isolation>().unwrap();
        isolation.isolate(agent, &self.root(), &self.bus.cx()).await.map_err(|error| error.to_string())
    }

    pub(crate) fn tool(&self) -> Arc<dyn Tool> {
        self.bus.item::<dyn Tool>("apply_changes").unwrap()
    }

    pub(crate) async fn apply(&self, agent: &str) -> Result<ToolOutput, ToolError> {
        let cx = ToolCx::new(self.bus.cx(), self.root());
        let approved = cx.approve(self.tool(), json!({"agent": agent})).await.unwrap();
        self.tool().call(&approved, &cx).await
    }

    /// Contents, modes and timestamps of all files in the git directory.
    pub(crate) fn git_state(&self) -> GitState {
        let mut found = BTreeMap::new();
        let mut left = vec![self.root().join(".git")];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let (path, meta) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
                let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if meta.is_dir() {
                    left.push(path.clone());
                }
                found.insert(path, (bytes, meta.permissions().mode(), meta.modified().unwrap()));
            }
        }
        found
    }

    #[track_caller]
    fn assert_git_unchanged(&self, before: &GitState) {
        let now = self.git_state();
        let paths = now.keys().chain(before.keys());
        let touched: Vec<_> = paths.filter(|path| now.get(*path) != before.get(*path)).collect();
        assert!(touched.is_empty(), "touched: {touched:?}");
    }

    fn state_files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![self.dir.path().join("state")];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                assert_eq!(
                    entry.metadata().unwrap().permissions().mode() & 0o077,
                    0,
                    "{:?} is private",
                    entry.path()
                );
                match entry.metadata().unwrap().is_dir() {
                    true => left.push(entry.path()),
                    false => found.push(entry.file_name().to_string_lossy().into_owned()),
                }
            }
        }
        found
    }
}

pub(crate) fn put(copy: &Arc<dyn IsolatedCopy>, path: &str, text: &str) {
    fs::write(copy.cwd().join(path), text).unwrap();
}

pub(crate) fn has_entries(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok()
}

#[tokio::test]
async fn a_copy_has_what_is_not_committed_and_the_repository_stays_as_it_was() {
    let rig = Rig::with_commit(&[
        ("a.txt", "one\n"),
        ("gone.txt", "x\n"),
        ("sub/b.txt", "b\n"),
        (".gitignore", "out\n"),
    ])
    .await;
    rig.write("a.txt", "one\r\ntwo\n");
    rig.write("new.txt", "new\n");
    rig.write("out/big", "ignored");
    fs::remove_file(rig.root().join("gone.txt")).unwrap();
    std::os::unix::fs::symlink("a.txt", rig.root().join("link")).unwrap();
    fs::write(rig.root().join(".git/hooks/post-checkout"), "#!/bin/sh\ntouch /tmp/hook-ran").unwrap();
    let before = rig.git_state();
    let copy = rig.copy("main.1").await;
    let here = |path: &str| fs::read_to_string(copy.cwd().join(path)).unwrap_or_else(|_| "(none)".to_owned());
    assert_eq!(
        (here("a.txt"), here("new.txt"), here("sub/b.txt")),
        ("one\r\ntwo\n".into(), "new\n".into(), "b\n".into())
    );
    assert_eq!(
        (here("gone.txt"), here("out/big"), here("link")),
        ("(none)".into(), "(none)".into(), "one\r\ntwo\n".into())
    );
    assert!(!has_entries(&copy.cwd().join(".git/hooks")));
    // The copy's git knows the commit and what is changed, and has no way back to the repository.
    let head = fs::read_to_string(copy.cwd().join(".git/HEAD")).unwrap();
    assert_eq!(head, "ref: refs/heads/main\n");
    assert!(!fs::read_to_string(copy.cwd().join(".git/config")).unwrap().contains("remote"));
    put(&copy, "a.txt", "one\r\n2\n");
    put(&copy, "made.sh", "echo\n");
    fs::set_permissions(copy.cwd().join("made.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(copy.cwd().join("new.txt")).unwrap();
    let cwd = copy.cwd();
    let changes = copy.finish().await.unwrap();
    assert_eq!(
        (changes.files.join(" "), changes.added, changes.removed),
        ("a.txt made.sh new.txt".into(), 2, 2)
    );
    assert!(!has_entries(&cwd), "the copy is removed");
    assert_eq!(rig.read("a.txt"), "one\r\ntwo\n", "nothing is applied without a call");
    let (tool, place) = (rig.tool(), ToolCx::new(rig.bus.cx(), rig.root()).place());
    let args = json!({"agent": "main.1"});
    let paths = ["a.txt", "made.sh", "new.txt"].map(|path| rig.root().join(path));
    assert_eq!(tool.effects(&args, &place), Effects::writes(paths));
    assert_eq!(tool.effects(&json!({"agent": "main.9"}), &place), Effects::Unknown);
    let Some(Display::Diff { diff, .. }) = tool.preview(&args, &place).await else { panic!("no diff") };
    assert!(
        diff.contains("-two\n+2\n") && diff.contains("+++ b/made.sh") && diff.contains("+++ /dev/null"),
        "{diff}"
    );
    rig.apply("main.1").await.unwrap();
    assert_eq!(
        (rig.read("a.txt"), rig.read("made.sh"), rig.read("new.txt")),
        ("one\r\n2\n".into(), "echo\n".into(), "(none)".into())
    );
    assert_eq!(fs::metadata(rig.root().join("made.sh")).unwrap().permissions().mode() & 0o100, 0o100);
    rig.assert_git_unchanged(&before);
    assert!(rig.state_files().iter().all(|name| name.ends_with(".lock")), "{:?}", rig.state_files());
    assert!(rig.apply("main.1").await.unwrap_err().message.contains("no changes wait"));
}

#[tokio::test]
async fn changes_in_different_places_are_merged_and_a_conflict_names_both_sides() {
    let text = |lines: [&str; 7]| lines.join("\n") + "\n";
    let base = text(["1", "2", "3", "4", "5", "6", "7"]);
    let rig = Rig::with_commit(&[("a.txt", &base), ("b.txt", &base)]).await;
    let copies = [rig.copy("main.1").await, rig.copy("main.2").await, rig.copy("main.3").await];
    put(&copies[0], "a.txt", &base.replace('1', "first"));
    put(&copies[1], "a.txt", &base.replace('7', "last"));
    put(&copies[2], "a.txt", &base.replace('1', "other"));
    put(&copies[2], "b.txt", &base.replace('1', "other"));
    for copy in &copies {
        copy.finish().await.unwrap();
    }
    rig.apply("main.1").await.unwrap();
    rig.apply("main.2").await.unwrap();
    assert_eq!(rig.read("a.txt"), text(["first", "2", "3", "4", "5", "6", "last"]));
    let error = rig.apply("main.3").await.unwrap_err().message;
    assert!(error.contains("a.txt (changed by main.3 and by main.2)"), "{error}");
    assert_eq!(rig.read("b.txt"), base, "a conflict leaves all files alone");
    let kept = error.split("kept in ").nth(1).unwrap().split(';').next().unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("+other"));
}

#[tokio::test]
async fn what_was_reviewed_is_what_is_applied() {
    let rig = Rig::with_commit(&[("a.txt", "1\n2\n3\n4\n5\n")]).await;
    let copy = rig.copy("main.1").await;
    put(&copy, "a.txt", "1\n2\n3\n4\nfive\n");
    copy.finish().await.unwrap();
    let place = ToolCx::new(rig.bus.cx(), rig.root()).place();
    rig.tool().preview(&json!({"agent": "main.1"}), &place).await.unwrap();
    rig.write("a.txt", "one\n2\n3\n4\n5\n");
    let error = rig.apply("main.1").await.unwrap_err().message;
    assert!(error.contains("changed since the changes were reviewed"), "{error}");
    assert_eq!(rig.read("a.txt"), "one\n2\n3\n4\n5\n");
    rig.apply("main.1").await.unwrap();
    assert_eq!(rig.read("a.txt"), "one\n2\n3\n4\nfive\n");
}

#[tokio::test]
async fn a_copy_is_refused_where_it_cannot_be_whole() {
    let rig = Rig::new().await;
    let error = rig.try_copy("main.1").await.map(drop).unwrap_err();
    assert!(error.contains("is in no git repository"), "{error}");
    rig.git("init -q -b main").await;
    let error = rig.try_copy("main.1").await.map(drop).unwrap_err();
    assert!(error.contains("has no commit yet"), "{error}");
    for (what, set_up) in [
        ("large files by Git LFS", ["attributes", ""]),
        ("submodules", ["submodule", ""]),
        ("a sparse checkout", ["sparse-checkout set other", ""]),
    ] {
        let rig = Rig::with_commit(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]).await;
        match set_up[0] {
            "attributes" => rig.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"),
            "submodule" => {
                let id = "1234567890123456789012345678901234567890";
                rig.git(&format!("update-index --add --cacheinfo 160000,{id},dep")).await;
            }
            command => rig.git(command).await,
        }
        let before = rig.git_state();
        let error = rig.try_copy("main.1").await.map(drop).unwrap_err();
        assert!(error.contains(what) && error.contains("delegate without `isolation`"), "{error}");
        rig.assert_git_unchanged(&before);
    }
}

#[tokio::test]
async fn copies_of_dead_owners_are_removed_and_dropped_ones_too() {
    let rig = Rig::with_commit(&[("a.txt", "a\n")]).await;
    let left = rig.dir.path().join("state/1-dead/main.1-0/tree");
    fs::create_dir_all(&left).unwrap();
    fs::write(rig.dir.path().join("state/1-dead.lock"), "").unwrap();
    let copy = rig.copy("main.1").await;
    assert!(!has_entries(&left) && has_entries(&copy.cwd()));
    let cwd = copy.cwd();
    drop(copy);
    assert!(!has_entries(&cwd));
}

/// Edits of several agents beside each other: either one result has all of them, or a conflict names both.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test chooses its size")]
#[tokio::test]
async fn random_edits_beside_each_other_come_together_or_are_conflicts() {
    const AGENTS: usize = 10;
    let rounds: usize =
        std::env::var("ZK_WORKTREE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    const LINES: usize = 60;
    let mut random = fastrand::Rng::with_seed(1);
    let base: Vec<String> = (0..LINES).map(|line| format!("line {line}\n")).collect();
    let files: Vec<String> = (0..3).map(|file| format!("f{file}.txt")).collect();
    let (mut applied, mut refused) = (0, 0);
    let all = base.concat();
    let committed: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), all.as_str())).collect();
    let rig = Rig::with_commit(&committed).await;
    let before = rig.git_state();
    for round in 0..rounds {
        for file in &files {
            rig.write(file, &all);
        }
        let mut edits = Vec::new();
        for agent in 0..AGENTS {
            let name = format!("main.{round}.{agent}");
            let (file, line) = (random.usize(..files.len()), random.usize(..LINES));
            let copy = rig.copy(&name).await;
            let mut lines = base.clone();
            lines[line] = format!("{name}\n");
            put(&copy, &files[file], &lines.concat());
            copy.finish().await.unwrap();
            edits.push((name, file, line));
        }
        let mut there: Vec<(String, usize, usize)> = Vec::new();
        for (name, file, line) in edits {
            // Changes of neighbouring lines are a conflict for git.
            let clashes = there.iter().any(|(_, other, at)| *other == file && at.abs_diff(line) <= 1);
            match rig.apply(&name).await {
                Ok(_) => {
                    assert!(!clashes, "{name}");
                    there.push((name, file, line));
                    applied += 1;
                }
                Err(error) => {
                    assert!(
                        clashes && error.message.contains(&format!("changed by {name} and by main.")),
                        "{error:?}"
                    );
                    refused += 1;
                }
            }
        }
        for (index, file) in files.iter().enumerate() {
            let mut expected = base.clone();
            there
                .iter()
                .filter(|(_, at, _)| *at == index)
                .for_each(|(name, _, line)| expected[*line] = format!("{name}\n"));
            assert_eq!(rig.read(file), expected.concat());
        }
    }
    rig.assert_git_unchanged(&before);
    assert_eq!(applied + refused, AGENTS * rounds);
    assert!(applied > 5 * rounds && refused > rounds / 2, "{applied} {refused}");
}
