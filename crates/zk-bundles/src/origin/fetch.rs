//! Fetching the files of a bundle from its source.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use zk_core::service::{Exec, HostFileError, HostFiles, HostRead, visible_line};

use super::Source;
use super::git::Git;
use super::marketplace::{EntryPlace, MARKETPLACE_FILE, Marketplace, MarketplaceEntry, MarketplaceError};
use crate::bundle::manifest::MANIFEST_FILE;
use crate::bundle::{Bundle, BundleError};
use crate::tree::{Tree, TreeError, TreeFile};

/// Maximum size of an archive, in bytes.
const MAX_ARCHIVE_BYTES: usize = 64 << 20;

/// Maximum size of a marketplace's file, in bytes.
const MAX_MARKETPLACE_BYTES: usize = 4 << 20;

/// Bundle with all of its files, from a source.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Parts of the bundle.
    pub bundle: Bundle,
    /// All files.
    pub tree: Tree,
    /// Commit of a repository.
    pub commit: Option<String>,
}

/// Reason why a bundle or marketplace cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// git failed.
    #[error("{doing}: {why}")]
    Git {
        /// Command of git.
        doing: String,
        /// Reason of the failure.
        why: String,
    },
    /// The repository has another commit than the required one.
    #[error("the repository gave the commit {got}, and the marketplace demands {wanted}")]
    Commit {
        /// Required commit.
        wanted: String,
        /// Received commit.
        got: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: HostFileError,
    },
    /// A directory for the files cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// A directory within a repository or marketplace is missing, or outside of it.
    #[error("`{0}` is no directory inside of it")]
    NoDirectory(String),
    /// The files are no bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The file is no marketplace.
    #[error(transparent)]
    Marketplace(#[from] MarketplaceError),
    /// The marketplace has no such bundle.
    #[error("the marketplace has no plugin `{0}`; `zk plugin marketplace list` shows which there are")]
    NoEntry(String),
    /// An entry was requested from a marketplace that was not added.
    #[error("the marketplace `{0}` is not known; add it with `zk plugin marketplace add`")]
    NoMarketplace(String),
}

impl From<TreeError> for FetchError {
    fn from(error: TreeError) -> Self {
        Self::Bundle(BundleError::Tree(error))
    }
}

/// Fetches bundles: from directories and archives of this machine, and from repositories with the person's git.
pub struct Fetcher {
    git: Git,
    files: Arc<dyn HostFiles>,
    scratch: PathBuf,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

/// Temporary directory, removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A temporary directory that cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Fetcher {
    /// Creates a fetcher that runs git with `exec`, and clones repositories into temporary directories below
    /// `scratch`.
    #[must_use]
    pub fn new(exec: Arc<dyn Exec>, files: Arc<dyn HostFiles>, scratch: PathBuf) -> Self {
        Self { git: Git { exec }, files, scratch }
    }

    /// Fetches a bundle. `marketplaces` returns the source of a marketplace that the person added.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(
        &self,
        source: &Source,
        marketplaces: &dyn Fn(&str) -> Option<Source>,
    ) -> Result<Fetched, FetchError> {
        match source {
            Source::Directory { path } => self.read_directory(path, None, None),
            Source::Archive { path } => {
                let read = self.files.read(path, &HostRead::whole(MAX_ARCHIVE_BYTES));
                let bytes = read.map_err(|source| FetchError::Read { path: path.clone(), source })?.bytes;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let stem = name.split(".tar").next().unwrap_or_default();
                let stem = stem.trim_end_matches(".tgz").trim_end_matches(".zip");
                read_bundle(Tree::read_archive(&bytes)?, stem, None, None)
            }
            Source::Git { url, path, reference, sha } => {
                let dir = self.make_scratch()?;
                let commit = self.git.check_out(url, reference.as_deref(), sha.as_deref(), &dir.0).await?;
                self.check_out_repository(&dir.0, url, path.as_deref(), Some(commit), None)
            }
            Source::Marketplace { plugin, marketplace } => {
                let source = marketplaces(marketplace);
                let source = source.ok_or_else(|| FetchError::NoMarketplace(marketplace.clone()))?;
                self.fetch_of_marketplace(&source, plugin).await
            }
        }
    }

    /// Reads the file of a marketplace.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn marketplace(&self, source: &Source) -> Result<Marketplace, FetchError> {
        Ok(self.open_marketplace(source).await?.1)
    }

    async fn fetch_of_marketplace(&self, source: &Source, plugin: &str) -> Result<Fetched, FetchError> {
        let (opened, marketplace) = self.open_marketplace(source).await?;
        let entry = marketplace.get(plugin).ok_or_else(|| FetchError::NoEntry(visible_line(plugin)))?;
        match &entry.place {
            EntryPlace::Own(path) => {
                let dir = directory_inside(&opened.dir, path)?;
                self.read_directory(&dir, opened.commit.clone(), Some(entry))
            }
            EntryPlace::Other(Source::Git { url, path, reference, sha }) => {
                let dir = self.make_scratch()?;
                let commit = self.git.check_out(url, reference.as_deref(), sha.as_deref(), &dir.0).await?;
                self.check_out_repository(&dir.0, url, path.as_deref(), Some(commit), Some(entry))
            }
            EntryPlace::Other(
                Source::Directory { .. } | Source::Archive { .. } | Source::Marketplace { .. },
            ) => Err(FetchError::NoDirectory(visible_line(plugin))),
        }
    }

    async fn open_marketplace(&self, source: &Source) -> Result<(Opened, Marketplace), FetchError> {
        let opened = match source {
            Source::Directory { path } => Opened { dir: path.clone(), commit: None, _scratch: None },
            Source::Git { url, path, reference, sha } => {
                let scratch = self.make_scratch()?;
                let commit =
                    self.git.check_out(url, reference.as_deref(), sha.as_deref(), &scratch.0).await?;
                let dir = directory_inside(&scratch.0, path.as_deref().unwrap_or_default())?;
                Opened { dir, commit: Some(commit), _scratch: Some(scratch) }
            }
            Source::Archive { path } => {
                return Err(FetchError::NoDirectory(visible_line(&path.display().to_string())));
            }
            Source::Marketplace { marketplace, .. } => {
                return Err(FetchError::NoMarketplace(marketplace.clone()));
            }
        };
        let path = opened.dir.join(MARKETPLACE_FILE);
        let how = HostRead { beneath: Some(opened.dir.clone()), ..HostRead::whole(MAX_MARKETPLACE_BYTES) };
        let read = self.files.read(&path, &how).map_err(|source| FetchError::Read { path, source })?;
        let marketplace = Marketplace::read(&read.bytes)?;
        Ok((opened, marketplace))
    }

    fn check_out_repository(
        &self,
        dir: &Path,
        url: &str,
        path: Option<&str>,
        commit: Option<String>,
        entry: Option<&MarketplaceEntry>,
    ) -> Result<Fetched, FetchError> {
        let root = directory_inside(dir, path.unwrap_or_default())?;
        let tree = Tree::read_dir(&root, &*self.files)?;
        let place = path.filter(|path| !path.is_empty()).unwrap_or(url);
        let name = place.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        read_bundle(tree, name.trim_end_matches(".git"), commit, entry)
    }

    fn read_directory(
        &self,
        dir: &Path,
        commit: Option<String>,
        entry: Option<&MarketplaceEntry>,
    ) -> Result<Fetched, FetchError> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        read_bundle(Tree::read_dir(dir, &*self.files)?, &name, commit, entry)
    }

    fn make_scratch(&self) -> Result<Scratch, FetchError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = self.scratch.join(format!("fetch-{}-{number}", std::process::id()));
        let failed = |source| FetchError::Scratch { path: dir.clone(), source };
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(failed)?;
        }
        Tree::default().write_to(&dir)?;
        // Symbolic links above the temporary directory must not look like links that lead out of it.
        dir.canonicalize().map(Scratch).map_err(failed)
    }
}

/// Marketplace with its directory. A cloned repository is removed on drop.
struct Opened {
    dir: PathBuf,
    commit: Option<String>,
    _scratch: Option<Scratch>,
}

/// Returns the directory at `below` inside of `dir`; an error if it is missing, or a link leads outside.
fn directory_inside(dir: &Path, below: &str) -> Result<PathBuf, FetchError> {
    let none = || FetchError::NoDirectory(visible_line(below));
    let root = dir.canonicalize().map_err(|_| none())?;
    let real = root.join(below).canonicalize().map_err(|_| none())?;
    if real.starts_with(&root) && real.is_dir() { Ok(real) } else { Err(none()) }
}

/// Reads the bundle in a tree. The entry of a marketplace replaces a missing manifest.
fn read_bundle(
    mut tree: Tree,
    name: &str,
    commit: Option<String>,
    entry: Option<&MarketplaceEntry>,
) -> Result<Fetched, FetchError> {
    if let Some(entry) = entry.filter(|_| tree.get(MANIFEST_FILE).is_none()) {
        let bytes = Value::Object(entry.manifest.clone()).to_string().into_bytes();
        tree.insert(MANIFEST_FILE, TreeFile { bytes, is_executable: false })?;
    }
    let bundle = Bundle::read(&tree, name)?;
    Ok(Fetched { bundle, tree, commit })
}
