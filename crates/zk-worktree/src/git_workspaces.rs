//! Files of runs as commits on hidden refs of a bare repository.
//!
//! | directory | repository |
//! |---|---|
//! | a person's repository | is only read; its files are copied, as for a sub-agent, and a repository beside the copy makes the commit |
//! | a materialised one | has a repository of zk's own elsewhere, with an index, so that unchanged files are not read again |

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::OnceCell;
use zk_core::model::public_parts;
use zk_core::service::{
    Checkpoint, CheckpointOf, Exec, StateFiles, StateLock, WorkspaceError, WorkspaceRef, Workspaces,
    make_private_dir, visible_line,
};

use crate::WorktreeError;
use crate::beneath::path_from_bytes;
use crate::blocking::blocking;
use crate::copies::{CopyLimits, copy_files};
use crate::git::{Git, Printed};
use crate::source::Source;
use crate::sweep::Home;

/// Store kind in a [`WorkspaceRef`], before the colon.
const KIND: &str = "git";
/// Directory of the hidden refs.
const REFS: &str = "refs/zk/runs";
/// File in a repository of zk's own that names the directory whose files it has.
const OF_DIR: &str = "zk-dir";
/// Object format of the repositories of zk's own.
const FORMAT: &str = "sha1";
/// Number of digits of a commit in the name of its ref.
const SHORT_DIGITS: usize = 12;
/// Mode of a repository within a repository, as git prints it.
const NESTED_MODE: &[u8] = b"160000";
/// Environment of the commands that talk to the remote repository, and of those that make commits.
const REMOTE: [(&str, &str); 6] = [
    ("GIT_ALLOW_PROTOCOL", "file:ssh:https"),
    ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
    ("GIT_AUTHOR_NAME", "zk"),
    ("GIT_AUTHOR_EMAIL", "zk@localhost"),
    ("GIT_COMMITTER_NAME", "zk"),
    ("GIT_COMMITTER_EMAIL", "zk@localhost"),
];

/// Store of the files of runs in a bare git repository, which all workers reach by its address.
///
/// Each checkpoint is a commit with the one before as its parent, on the ref `refs/zk/runs/RUN/MOMENT-COMMIT`. No hook and no
/// filter runs, and a person's repository is only read.
#[derive(Clone)]
pub struct GitWorkspaces(Arc<Shared>);

struct Shared {
    address: String,
    /// Directory of this machine for the repositories beside materialised directories.
    root: PathBuf,
    git: Git,
    files: Arc<dyn StateFiles>,
    home: OnceCell<Home>,
}

impl std::fmt::Debug for GitWorkspaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitWorkspaces").field("place", &self.0.place()).finish_non_exhaustive()
    }
}

/// Repository of zk's own for the files of one directory, locked against other processes.
struct Own {
    repository: PathBuf,
    tree: PathBuf,
    _lock: Option<Mutex<StateLock>>,
}

/// Reference of this store: a ref and the commit that it has.
struct Named<'a> {
    name: &'a str,
    commit: &'a str,
}

impl<'a> Named<'a> {
    fn parse(reference: &'a WorkspaceRef) -> Result<Self, WorkspaceError> {
        let rest = reference.rest_of(KIND)?;
        let invalid = || WorkspaceError::InvalidReference(reference.to_string());
        let (name, commit) = rest.split_once('@').ok_or_else(invalid)?;
        let is_commit =
            matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_ours = name.strip_prefix(REFS).is_some_and(|run| run.starts_with('/'))
            && !name.contains("..")
            && !name.contains("//");
        if is_commit && is_ours { Ok(Self { name, commit }) } else { Err(invalid()) }
    }
}

impl GitWorkspaces {
    /// Creates a store in the bare repository at `address`, which `ssh`, `https` or a path names. `root` is a private directory of
    /// this machine; `exec` runs git.
    pub fn new(
        address: impl Into<String>,
        root: impl Into<PathBuf>,
        exec: Arc<dyn Exec>,
        files: Arc<dyn StateFiles>,
    ) -> Self {
        let (address, root, git) = (address.into(), root.into(), Git { exec });
        Self(Arc::new(Shared { address, root, git, files, home: OnceCell::new() }))
    }
}

impl Shared {
    /// Address without credentials.
    fn place(&self) -> String {
        if self.address.contains("://") { public_parts(&self.address) } else { self.address.clone() }
    }

    fn unreachable(&self, why: &str) -> WorkspaceError {
        let place = self.place();
        let why = why.replace(&self.address, &place);
        let hint = if why.contains("not appear to be a git repository") {
            "; `git init --bare` there makes one"
        } else {
            ""
        };
        WorkspaceError::Unreachable { place, why: format!("{why}{hint}") }
    }

    /// Place of the repository for a directory.
    fn own_place(&self, dir: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        dir.as_os_str().as_bytes().hash(&mut hasher);
        self.root.join(format!("{:016x}.git", hasher.finish()))
    }

    /// Repository for a materialised directory; `None` if the directory was never materialised here.
    async fn own(&self, dir: &Path) -> Result<Option<Own>, WorkspaceError> {
        let (repository, tree) = (self.own_place(dir), dir.to_owned());
        let (files, dir) = (self.files.clone(), dir.to_owned());
        blocking_io(move || {
            let named = std::fs::read(repository.join(OF_DIR)).unwrap_or_default();
            if named != dir.as_os_str().as_bytes() {
                return Ok(None);
            }
            let lock = lock(&*files, &repository)?;
            Ok(Some(Own { repository, tree, _lock: Some(Mutex::new(lock)) }))
        })
        .await
    }

    /// Runs git on a repository of zk's own.
    async fn run_own(&self, own: &Own, args: &[impl AsRef<OsStr>]) -> Result<Printed, WorkspaceError> {
        let args: Vec<OsString> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        let mut variables: Vec<(&str, &OsStr)> =
            vec![("GIT_DIR", own.repository.as_os_str()), ("GIT_WORK_TREE", own.tree.as_os_str())];
        variables.extend(REMOTE.iter().map(|(name, value)| (*name, OsStr::new(*value))));
        let ran = self.git.run(&own.tree, &args, &variables).await;
        ran.map_err(|error| WorkspaceError::io("keep the files of", &own.tree, error))
    }

    /// Standard output of a git command on a repository of zk's own, which has to succeed.
    async fn output_own(&self, own: &Own, args: &[&str]) -> Result<Vec<u8>, WorkspaceError> {
        let printed = self.run_own(own, args).await?;
        match printed.code {
            0 => Ok(printed.bytes),
            _ => Err(failed(own, args, &printed.said)),
        }
    }

    async fn text_own(&self, own: &Own, args: &[&str]) -> Result<String, WorkspaceError> {
        let printed = self.output_own(own, args).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }

    /// Commits the files of a directory and pushes the commit.
    async fn commit(&self, own: &Own, add: &[&str], of: &CheckpointOf) -> Result<Checkpoint, WorkspaceError> {
        let mut left_out = Vec::new();
        let added = self.run_own(own, add).await?;
        if added.code != 0 {
            left_out =
                repositories_without_commit(&added.said).ok_or_else(|| failed(own, add, &added.said))?;
        }
        let base = of.base.as_ref().filter(|base| base.kind() == KIND).map(Named::parse).transpose()?;
        let base_tree = match &base {
            Some(base) => {
                let wanted = format!("{}^{{tree}}", base.commit);
                let found = self.run_own(own, &["rev-parse", "--verify", "--quiet", &wanted]).await?;
                (found.code == 0).then(|| String::from_utf8_lossy(&found.bytes).trim().to_owned())
            }
            None => None,
        };
        let mut tree = self.text_own(own, &["write-tree"]).await?;
        if base_tree.as_ref() != Some(&tree) {
            let nested = self.nested(own, base_tree.as_deref(), &tree).await?;
            for path in &nested {
                let remove = ["update-index", "--force-remove", "--"].map(OsStr::new);
                self.run_own(own, &[&remove[..], &[path.as_os_str()]].concat()).await?;
                left_out.push(nested_line(&path.to_string_lossy()));
            }
            if !nested.is_empty() {
                tree = self.text_own(own, &["write-tree"]).await?;
            }
        }
        if let (Some(reference), true) = (&of.base, base_tree.as_ref() == Some(&tree)) {
            return Ok(Checkpoint { reference: reference.clone(), left_out });
        }
        let message = format!("zk: files of run {}, {}", of.run, of.moment);
        let mut args = vec!["commit-tree", &tree, "-m", &message];
        if let (Some(base), Some(_)) = (&base, &base_tree) {
            args.extend(["-p", base.commit]);
        }
        let commit = self.text_own(own, &args).await?;
        let short: String = commit.chars().take(SHORT_DIGITS).collect();
        let name = format!("{REFS}/{}/{}-{short}", ref_part(of.run.as_str()), ref_part(&of.moment));
        let reference = WorkspaceRef::new(&format!("{KIND}:{name}@{commit}"))?;
        let spec = format!("{commit}:{name}");
        let pushed = self.run_own(own, &["push", "--quiet", "--", &self.address, &spec]).await;
        match pushed {
            Ok(Printed { code: 0, .. }) => Ok(Checkpoint { reference, left_out }),
            Ok(printed) => Err(self.unreachable(&printed.said)),
            Err(error) => Err(self.unreachable(&error.to_string())),
        }
    }

    /// Repositories within the directory, of which git would only store the commit.
    async fn nested(
        &self,
        own: &Own,
        base: Option<&str>,
        tree: &str,
    ) -> Result<Vec<PathBuf>, WorkspaceError> {
        let (args, skipped) = match base {
            Some(base) => (vec!["diff-tree", "-r", "-z", "--no-renames", base, tree], 2),
            None => (vec!["ls-tree", "-r", "-z", tree], 1),
        };
        let listed = self.output_own(own, &args).await?;
        let mut parts = listed.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        let mut nested = Vec::new();
        while let Some(part) = parts.next() {
            // `diff-tree` prints `:OLD NEW …`, then the path; `ls-tree` prints `MODE KIND ID`, a tab, then the path.
            let (facts, path) = match skipped {
                2 => (part.split(|byte| *byte == b' ').nth(1), parts.next()),
                _ => (part.split(|byte| *byte == b' ').next(), part.splitn(2, |byte| *byte == b'\t').nth(1)),
            };
            if facts == Some(NESTED_MODE) {
                nested.extend(path.map(path_from_bytes));
            }
        }
        Ok(nested)
    }

    /// Commits the files of a person's repository, which is only read.
    async fn commit_source(&self, dir: &Path, of: &CheckpointOf) -> Result<Checkpoint, WorkspaceError> {
        let unsuitable = |why: String| WorkspaceError::Unsuitable { dir: dir.to_owned(), why };
        let real = dir.canonicalize().map_err(|error| unsuitable(error.to_string()))?;
        let source = Source::read(&self.git, &real).await.map_err(|error| match error {
            WorktreeError::NoRepository { why, .. } => unsuitable(format!(
                "it is in no git repository ({why}); `files:` stores take any directory (setting `fleet.workspaces`)"
            )),
            WorktreeError::Unsupported { what, .. } => unsuitable(format!("its repository has {what}")),
            error => WorkspaceError::io("read the repository of", dir, error),
        })?;
        if source.root != real {
            return Err(unsuitable(format!(
                "it is within the repository {}: submit from there",
                source.root.display()
            )));
        }
        let (root, files) = (self.root.join("submitted"), self.files.clone());
        let open = async || blocking_io(move || Home::open(&root, &*files).map_err(|error| io(&error))).await;
        let home = self.home.get_or_try_init(open).await?;
        let place = home.copies.join(format!("{:016x}", fastrand::u64(..)));
        let (tree, repository) = (place.join("tree"), place.join("own.git"));
        let to = tree.clone();
        let copied = blocking_io(move || {
            make_private_dir(&to).map_err(|error| WorkspaceError::io("make", &to, error))?;
            copy_files(&source, &to, CopyLimits::DEFAULT).map_err(|error| match error {
                WorktreeError::TooLarge { .. } => WorkspaceError::Unsuitable {
                    dir: source.root.clone(),
                    why: "it is larger than zk copies".to_owned(),
                },
                error => io(&error),
            })
        });
        let own = Own { repository, tree, _lock: None };
        let made = async {
            copied.await?;
            let init = self.git.init_own(&own.tree, &own.repository, FORMAT).await;
            init.map_err(|error| io(&error))?;
            // Files that git ignores may be tracked, hence `--force`.
            let of = CheckpointOf { base: None, ..of.clone() };
            self.commit(&own, &["add", "--all", "--force", "--", "."], &of).await
        };
        let made = made.await;
        // Files that stay are removed when this process ends, or by the next one.
        let _ = blocking(move || std::fs::remove_dir_all(place)).await;
        made
    }

    /// Opens the repository for a directory that is to be materialised.
    async fn begin(&self, dir: &Path) -> Result<Own, WorkspaceError> {
        let (repository, tree, files) = (self.own_place(dir), dir.to_owned(), self.files.clone());
        let own = blocking_io(move || {
            std::fs::create_dir_all(&tree).map_err(|error| WorkspaceError::io("make", &tree, error))?;
            let lock = lock(&*files, &repository)?;
            // A repository whose making was cut off is made anew.
            if !repository.join(OF_DIR).exists() {
                let _ = std::fs::remove_dir_all(&repository);
            }
            // Left by a git process that was killed; the lock says that no other one is at work.
            let _ = std::fs::remove_file(repository.join("index.lock"));
            Ok(Own { repository, tree, _lock: Some(Mutex::new(lock)) })
        })
        .await?;
        if !own.repository.join("HEAD").exists() {
            let init = self.git.init_own(&own.tree, &own.repository, FORMAT).await;
            init.map_err(|error| io(&error))?;
            let (path, named) = (own.repository.join(OF_DIR), own.tree.as_os_str().as_bytes().to_vec());
            let written = std::fs::write(&path, named);
            written.map_err(|error| WorkspaceError::io("write", &path, error))?;
        }
        Ok(own)
    }

    /// Brings the commit of a reference into a repository of zk's own.
    async fn fetch(&self, own: &Own, reference: &WorkspaceRef) -> Result<(), WorkspaceError> {
        let Named { name, commit } = Named::parse(reference)?;
        let wanted = format!("{commit}^{{commit}}");
        if self.run_own(own, &["rev-parse", "--verify", "--quiet", &wanted]).await?.code == 0 {
            return Ok(());
        }
        let spec = format!("+{name}:refs/zk/fetched");
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", &self.address, &spec];
        let fetched =
            self.run_own(own, &fetch).await.map_err(|error| self.unreachable(&error.to_string()))?;
        if fetched.code != 0 && fetched.said.contains("couldn't find remote ref") {
            return Err(WorkspaceError::NotFound { reference: reference.clone(), place: self.place() });
        }
        if fetched.code != 0 {
            return Err(self.unreachable(&fetched.said));
        }
        let found = self.text_own(own, &["rev-parse", "refs/zk/fetched"]).await?;
        if found != commit {
            let why = format!("{name} is {found} there");
            return Err(WorkspaceError::Damaged { reference: reference.clone(), why });
        }
        Ok(())
    }
}

#[async_trait]
impl Workspaces for GitWorkspaces {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn checkpoint(&self, dir: &Path, of: &CheckpointOf) -> Result<Checkpoint, WorkspaceError> {
        match self.0.own(dir).await? {
            Some(own) => self.0.commit(&own, &["add", "--all", "--ignore-errors", "--", "."], of).await,
            None => self.0.commit_source(dir, of).await,
        }
    }

    async fn materialise(&self, reference: &WorkspaceRef, dir: &Path) -> Result<(), WorkspaceError> {
        let Named { commit, .. } = Named::parse(reference)?;
        let own = self.0.begin(dir).await?;
        self.0.fetch(&own, reference).await?;
        self.0.output_own(&own, &["read-tree", "--reset", "-u", commit]).await?;
        self.0.output_own(&own, &["clean", "-ffdq"]).await?;
        Ok(())
    }

    async fn forget(&self, dir: &Path) {
        let (repository, lock) = (self.0.own_place(dir), lock_place(&self.0.own_place(dir)));
        let removed = blocking(move || {
            let _ = std::fs::remove_dir_all(&repository);
            std::fs::remove_file(lock)
        });
        // A repository that stays costs room alone.
        let _ = removed.await;
    }
}

fn lock_place(repository: &Path) -> PathBuf {
    repository.with_extension("lock")
}

fn lock(files: &dyn StateFiles, repository: &Path) -> Result<StateLock, WorkspaceError> {
    if let Some(root) = repository.parent() {
        make_private_dir(root).map_err(|error| WorkspaceError::io("make", root, error))?;
    }
    files.lock(&lock_place(repository)).map_err(|error| WorkspaceError::io("lock", repository, error))
}

fn io(error: &WorktreeError) -> WorkspaceError {
    match error {
        WorktreeError::Io { doing, path, why } => WorkspaceError::io(doing, path, why),
        error => WorkspaceError::io("copy", "the files", error),
    }
}

fn failed(own: &Own, args: &[&str], said: &str) -> WorkspaceError {
    let command = args.first().copied().unwrap_or_default();
    WorkspaceError::io("keep the files of", &own.tree, format!("`git {command}` failed: {said}"))
}

/// Runs a task that waits for the file system on a thread of its own.
async fn blocking_io<T: Send + 'static>(
    task: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    blocking(task).await.map_err(|error| io(&error))?
}

/// Lines about repositories without a commit, which `git add` cannot take; `None` if it failed for another reason.
fn repositories_without_commit(said: &str) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for line in said.split("; ").filter(|line| line.starts_with("error:") || line.starts_with("fatal:")) {
        let name = line.strip_prefix("error: '")?.strip_suffix("' does not have a commit checked out")?;
        lines.push(nested_line(name));
    }
    lines.sort();
    lines.dedup();
    (!lines.is_empty()).then_some(lines)
}

fn nested_line(path: &str) -> String {
    format!("{} (a git repository of its own)", visible_line(path.trim_end_matches('/')))
}

/// Part of a ref's name, of any text.
fn ref_part(text: &str) -> String {
    let part: String = text
        .chars()
        .take(96)
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
        .collect();
    if part.is_empty() { "_".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_other_stores_are_refused() {
        let commit = "0123456789012345678901234567890123456789";
        let good = WorkspaceRef::new(&format!("git:refs/zk/runs/r_1/t_1-0123@{commit}")).unwrap();
        assert_eq!(Named::parse(&good).unwrap().commit, commit);
        for bad in [
            format!("git:refs/heads/main@{commit}"),
            format!("git:refs/zk/runs/../../heads/main@{commit}"),
            "git:refs/zk/runs/r_1/t_1".to_owned(),
            "git:refs/zk/runs/r_1/t_1@--upload-pack".to_owned(),
        ] {
            let error = Named::parse(&WorkspaceRef::new(&bad).unwrap()).err();
            assert!(matches!(error, Some(WorkspaceError::InvalidReference(_))), "{bad}");
        }
        let other = Named::parse(&WorkspaceRef::new("files:0123").unwrap()).err();
        assert!(matches!(other, Some(WorkspaceError::OtherKind { .. })));
    }

    #[test]
    fn only_repositories_without_commits_are_left_out() {
        let said = "warning: x; error: 'new/' does not have a commit checked out";
        assert_eq!(repositories_without_commit(said).unwrap(), ["new (a git repository of its own)"]);
        let full = "error: 'new/' does not have a commit checked out; fatal: unable to write new index file";
        assert_eq!(repositories_without_commit(full), None);
        assert_eq!(repositories_without_commit(""), None);
    }
}
