use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;
use zk_core::kernel::{Cx, Plugin};
use zk_core::service::{
    CopyChanges, IsolatedCopy, Isolation, IsolationError, StateFiles, make_private_dir, open_regular,
};

use crate::WorktreeError;
use crate::beneath::{Found, Tree};
use crate::blocking::blocking;
use crate::git::Git;
use crate::kept::Keeper;
use crate::patch::{APPLY_TOOL, Patch, count_lines};
use crate::source::Source;
use crate::sweep::Home;

/// Name of the work tree inside the directory of a copy.
const TREE: &str = "tree";

/// Maximum size of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyLimits {
    files: usize,
    bytes: u64,
}

impl CopyLimits {
    pub(crate) const DEFAULT: Self = Self { files: 200_000, bytes: 4 << 30 };
}

/// Isolation service, which makes private copies of the workspace.
pub(crate) struct Copies {
    pub(crate) root: PathBuf,
    pub(crate) git: Git,
    pub(crate) files: Arc<dyn StateFiles>,
    pub(crate) plugins: Arc<CopyPlugins>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) home: OnceCell<Arc<Home>>,
    /// Directories to which the copied files are restricted; unset for all files of the repository.
    pub(crate) roots: OnceLock<Vec<PathBuf>>,
}

/// Private copy of a workspace: its files, and a repository beside them with their original state.
struct Copy {
    /// Directory that holds all of the copy, removed on drop.
    dir: PathBuf,
    tree: PathBuf,
    cwd: PathBuf,
    /// Git repository that only this crate uses, out of reach of the agent.
    own: PathBuf,
    /// Id of the git tree with the original files.
    base: String,
    agent: String,
    source: PathBuf,
    git: Git,
    keeper: Arc<Keeper>,
    /// Context of the agent above, whose session keeps the patch.
    parent: Cx,
    home: Arc<Home>,
    plugins: Mutex<Vec<Arc<dyn Plugin>>>,
    kept: std::sync::atomic::AtomicBool,
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !self.kept.load(std::sync::atomic::Ordering::Acquire) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

#[async_trait]
impl Isolation for Copies {
    async fn isolate(
        &self,
        agent: &str,
        cwd: &Path,
        cx: &Cx,
    ) -> Result<Arc<dyn IsolatedCopy>, IsolationError> {
        let copy = self.make_copy(agent, cwd, cx).await?;
        let (plugins, cwd) = (self.plugins.clone(), copy.cwd.clone());
        let (tree, plugins) = (copy.tree.clone(), plugins);
        // Blocking, since the self-test of a sandbox waits for its processes.
        let made = blocking(move || (*plugins)(&CopyPlace { root: &tree, cwd: &cwd })).await?;
        *copy.plugins.lock().unwrap_or_else(PoisonError::into_inner) = made.map_err(IsolationError::new)?;
        Ok(Arc::new(copy))
    }
}

/// Maker of the plugins that keep an agent in its copy, or the reason why there are none.
pub type CopyPlugins = dyn Fn(&CopyPlace<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> + Send + Sync;

/// Directories of a copy, for the plugins that keep an agent in it.
#[derive(Clone, Copy, Debug)]
pub struct CopyPlace<'a> {
    /// Root of the copied files.
    pub root: &'a Path,
    /// Directory in the copy that stands for the parent agent's working directory.
    pub cwd: &'a Path,
}

impl Copies {
    async fn open_home(&self) -> Result<Arc<Home>, WorktreeError> {
        let open = async || {
            let (root, files) = (self.root.clone(), self.files.clone());
            let home = blocking(move || Home::open(&root, &*files)).await?;
            home.map(Arc::new)
        };
        self.home.get_or_try_init(open).await.cloned()
    }

    async fn make_copy(&self, agent: &str, cwd: &Path, cx: &Cx) -> Result<Copy, WorktreeError> {
        let mut source = Source::read(&self.git, cwd).await?;
        let home = self.open_home().await?;
        // The files of a copy were restricted to the roots when the copy was made.
        let copies = home.copies.canonicalize().unwrap_or_else(|_| home.copies.clone());
        let is_copy = source.root.ends_with(TREE) && source.root.ancestors().nth(2) == Some(&*copies);
        if let Some(roots) = self.roots.get().filter(|_| !is_copy) {
            let real = |root: &PathBuf| root.canonicalize().unwrap_or_else(|_| root.clone());
            let roots: Vec<PathBuf> = roots.iter().map(real).collect();
            source.files.retain(|path| {
                let path = source.root.join(path);
                roots.iter().any(|root| path.starts_with(root))
            });
        }
        let dir = home.copies.join(format!("{}-{:08x}", file_name_part(agent), fastrand::u32(..)));
        let (tree, own) = (dir.join(TREE), dir.join("own.git"));
        let below = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let below = below.strip_prefix(&source.root).map(Path::to_owned).unwrap_or_default();
        make_private_dir(&tree).map_err(|error| WorktreeError::io("make", &tree, error))?;
        let mut copy = Copy {
            dir,
            cwd: if below.as_os_str().is_empty() { tree.clone() } else { tree.join(below) },
            tree,
            own,
            base: String::new(),
            agent: agent.to_owned(),
            source: source.root.clone(),
            git: self.git.clone(),
            keeper: self.keeper.clone(),
            parent: cx.clone(),
            home,
            plugins: Mutex::default(),
            kept: std::sync::atomic::AtomicBool::new(false),
        };
        let (from, to) = (source.clone(), copy.tree.clone());
        blocking(move || copy_files(&from, &to, CopyLimits::DEFAULT)).await??;
        let missing = copy.cwd.clone();
        blocking(move || std::fs::create_dir_all(&missing))
            .await?
            .map_err(|error| WorktreeError::io("make", &copy.cwd, error))?;
        copy.init(&source).await?;
        // Files that git ignores may be tracked, hence `--force`.
        copy.base = copy.snapshot(&["add", "--all", "--force", "--", "."]).await?;
        Ok(copy)
    }
}

impl Copy {
    /// Creates two repositories: the agent's, which borrows the objects of the source, and this crate's. The
    /// latter copies its objects, since git updates the timestamps of borrowed objects that it would write.
    async fn init(&self, source: &Source) -> Result<(), WorktreeError> {
        let format = format!("--object-format={}", source.format);
        let branch = source.branch.as_deref().unwrap_or("main");
        let (git, tree) = (&self.git, &self.tree);
        let initial = format!("--initial-branch={branch}");
        git.output_in(tree, &["init", "--quiet", "--template=", &format, &initial]).await?;
        git.init_own(tree, &self.own, &source.format).await?;
        let mut objects = {
            use std::os::unix::ffi::OsStrExt;
            source.objects.as_os_str().as_bytes().to_vec()
        };
        objects.push(b'\n');
        let path = tree.join(".git/objects/info/alternates");
        blocking(move || {
            let parent = path.parent().unwrap_or(&path);
            let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, objects));
            written.map_err(|error| WorktreeError::io("write", &path, error))
        })
        .await??;
        match &source.branch {
            Some(branch) => {
                git.output_in(tree, &["update-ref", &format!("refs/heads/{branch}"), &source.head]).await?
            }
            None => git.output_in(tree, &["update-ref", "--no-deref", "HEAD", &source.head]).await?,
        };
        git.output_in(tree, &["read-tree", "HEAD"]).await.map(drop)
    }

    /// Stores the present files as a git tree, selected by the arguments `add` of `git add`, and returns its
    /// id.
    async fn snapshot(&self, add: &[&str]) -> Result<String, WorktreeError> {
        self.git.output_on(&self.own, &self.tree, add).await?;
        let id = self.git.output_on(&self.own, &self.tree, &["write-tree"]).await?;
        Ok(String::from_utf8_lossy(&id).trim().to_owned())
    }

    async fn take_changes(&self) -> Result<CopyChanges, WorktreeError> {
        let new = self.snapshot(&["add", "--all", "--", "."]).await?;
        let (changes, text) = Patch::read(&self.git, &self.own, &self.tree, (&self.base, &new)).await?;
        let (added, removed) = count_lines(&text);
        let files = changes.iter().map(|change| change.path.to_string_lossy().into_owned()).collect();
        let mut kept = None;
        if !changes.is_empty() {
            // Agents of several conversations of this process may have one name.
            let (owner, agent) = (&self.home.owner, file_name_part(&self.agent));
            let file = self.home.patches.join(format!("{owner}-{agent}-{:08x}.patch", fastrand::u32(..)));
            let path = file.clone();
            blocking(move || write_private(&path, &text))
                .await?
                .map_err(|error| WorktreeError::io("write", &file, error))?;
            kept = Some(file.clone());
            let patch = Arc::new(Patch { root: self.source.clone(), changes, file, added, removed });
            self.keeper.patches.lock().waiting.insert(self.agent.clone(), patch.clone());
            // Otherwise the patch waits as long as this process lives, and its file stays.
            let _ = self.keeper.keep(&self.agent, &patch, &self.parent).await;
        }
        Ok(CopyChanges { files, added, removed, tool: APPLY_TOOL.to_owned(), file: kept })
    }
}

#[async_trait]
impl IsolatedCopy for Copy {
    fn cwd(&self) -> PathBuf {
        self.cwd.clone()
    }

    fn plugins(&self) -> Vec<Arc<dyn Plugin>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn finish(&self) -> Result<CopyChanges, IsolationError> {
        match self.take_changes().await {
            Ok(changes) => {
                let dir = self.dir.clone();
                // Files that cannot be removed now are removed on drop, or by the sweep of a later process.
                let _ = blocking(move || std::fs::remove_dir_all(dir)).await;
                Ok(changes)
            }
            Err(error) => {
                self.kept.store(true, std::sync::atomic::Ordering::Release);
                let place = self.tree.display();
                Err(IsolationError::new(format!("{error}; until zk ends they are in {place}")))
            }
        }
    }
}

/// Copies the files of a work tree byte by byte. What is neither a file nor a link is left out.
pub(crate) fn copy_files(source: &Source, to: &Path, most: CopyLimits) -> Result<(), WorktreeError> {
    let too_large = |what: &'static str, most: String| {
        Err(WorktreeError::TooLarge { what, path: source.root.clone(), most })
    };
    if source.files.len() > most.files {
        return too_large("the files", format!("{} files", most.files));
    }
    let open = |dir: &Path| Tree::open(dir).map_err(|error| WorktreeError::io("open", dir, error));
    let (from_tree, to_tree) = (open(&source.root)?, open(to)?);
    let mut left = most.bytes;
    for path in &source.files {
        let failed = |error: io::Error| WorktreeError::io("copy", source.root.join(path), error);
        match from_tree.find(path).map_err(failed)? {
            Some(Found::File { file, mode }) => {
                let mut copy = to_tree.create(path, mode).map_err(failed)?;
                let copied = io::copy(&mut file.take(left.saturating_add(1)), &mut copy).map_err(failed)?;
                match left.checked_sub(copied) {
                    Some(rest) => left = rest,
                    None => return too_large("the files", format!("{} bytes", most.bytes)),
                }
            }
            Some(Found::Link(target)) => to_tree.link(path, &target).map_err(failed)?,
            Some(Found::Other) | None => {}
        }
    }
    Ok(())
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    open_regular(&mut options, path)?.write_all(bytes)
}

/// Converts the name of an agent to a part of a file name.
fn file_name_part(agent: &str) -> String {
    agent.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_limited_in_files_and_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a"), "12345").unwrap();
        std::fs::write(root.join("b"), "12345").unwrap();
        let source = Source {
            objects: root.clone(),
            root,
            head: String::new(),
            branch: None,
            format: String::new(),
            files: vec!["a".into(), "b".into()],
        };
        for (files, bytes, error) in
            [(2, 10, None), (1, 10, Some("exceed 1 files")), (2, 9, Some("exceed 9 bytes"))]
        {
            let to = tempfile::tempdir().unwrap();
            let copied = copy_files(&source, to.path(), CopyLimits { files, bytes });
            let why = copied.err().map(|error| error.to_string());
            assert_eq!(why.is_some(), error.is_some(), "{why:?}");
            assert!(why.unwrap_or_default().contains(error.unwrap_or_default()));
        }
    }
}
