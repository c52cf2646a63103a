//! Bundles that a person added, with all of their files.

mod copies;
pub(crate) mod difference;
pub(crate) mod project;
pub(crate) mod records;
pub(crate) mod wanted;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{HostFiles, StateFileError, StateFiles, make_private_dir, visible_line};

use crate::bundle::placed::PlacedBundle;
use crate::bundle::{Bundle, is_bundle_name};
use crate::origin::Source;
use crate::origin::fetch::Fetched;
use crate::origin::marketplace::Marketplace;
use crate::tree::{Tree, TreeError};
use records::{KeptBundle, KeptMarketplace, RECORDS_VERSION, Records};

/// Name of the file with the records of bundles and marketplaces.
const RECORDS_FILE: &str = "plugins.json";

/// Maximum size of the records file, in bytes.
const MAX_RECORDS_BYTES: usize = 4 << 20;

/// Number of a digest's digits in the name of a bundle's directory.
const DIRECTORY_DIGITS: usize = 16;

/// Bundles of a person in a private directory of state: `plugins.json`, `kept/NAME/DIGEST` and `data/NAME`.
#[derive(Clone)]
pub struct BundleStore {
    dir: PathBuf,
    state: Arc<dyn StateFiles>,
    files: Arc<dyn HostFiles>,
}

impl std::fmt::Debug for BundleStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundleStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The records file cannot be used.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// The records file cannot be parsed.
    #[error("{} cannot be read: {why}; move it away to begin anew", path.display())]
    Records {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        why: String,
    },
    /// The files cannot be written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A directory cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// The directory.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// No bundle or marketplace has this name.
    #[error("there is no {what} `{name}`; `zk plugin list` shows what there is")]
    Unknown {
        /// Kind of the missing item: plugin or marketplace.
        what: &'static str,
        /// Name as given.
        name: String,
    },
    /// Another bundle with this name comes from another source.
    #[error(
        "there is a plugin `{name}` already, from {from}; remove it first: two of one name cannot be told apart"
    )]
    Taken {
        /// Name of both bundles.
        name: String,
        /// Origin of the bundle that is stored already.
        from: String,
    },
}

/// Loaded bundles, and reasons why others are not loaded.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Bundles with exactly the files that were approved.
    pub bundles: Vec<PlacedBundle>,
    /// Reasons why other bundles are not loaded.
    pub problems: Vec<String>,
    /// Names of bundles that are only used in this process.
    given: Vec<String>,
    /// Locked files that mark the copies of project bundles as used, so that no other process removes them.
    in_use: Vec<Arc<File>>,
}

impl Loaded {
    /// Adds bundles that were loaded later, with their problems.
    pub fn extend(&mut self, more: Self) {
        let Self { bundles, problems, given, in_use } = more;
        self.bundles.extend(bundles);
        self.problems.extend(problems);
        self.given.extend(given);
        self.in_use.extend(in_use);
    }

    /// Adds bundles in directories that the person named for this process. They replace stored bundles of the
    /// same name, and their files are not copied.
    #[must_use]
    pub fn with_directories(mut self, dirs: &[PathBuf], store: &BundleStore, files: &dyn HostFiles) -> Self {
        for dir in dirs {
            match place_directory(dir, store, files) {
                Ok(placed) => {
                    let name = placed.bundle.name().to_owned();
                    if self.given.contains(&name) {
                        let why = "another one before it has that name";
                        self.problems.push(format!("--plugin-dir {}: {why}", dir.display()));
                        continue;
                    }
                    self.bundles.retain(|kept| kept.bundle.name() != name);
                    self.bundles.push(placed);
                    self.given.push(name);
                }
                Err(why) => self.problems.push(format!("--plugin-dir {}: {why}", dir.display())),
            }
        }
        self
    }
}

fn place_directory(dir: &Path, store: &BundleStore, files: &dyn HostFiles) -> Result<PlacedBundle, String> {
    let root = dir.canonicalize().map_err(|error| error.to_string())?;
    let tree = Tree::read_dir(&root, files).map_err(|error| error.to_string())?;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let bundle = Bundle::read(&tree, &name).map_err(|error| error.to_string())?;
    let data = store.data_dir(&format!("{}-inline", bundle.name()));
    make_private_dir(&data).map_err(|error| error.to_string())?;
    Ok(PlacedBundle { bundle, root, data, options: BTreeMap::new() })
}

impl BundleStore {
    /// Creates a store in a directory, which need not exist.
    #[must_use]
    pub fn new(dir: PathBuf, state: Arc<dyn StateFiles>, files: Arc<dyn HostFiles>) -> Self {
        Self { dir, state, files }
    }

    /// Directory of the store.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the records; empty ones without a file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn records(&self) -> Result<Records, StoreError> {
        let path = self.dir.join(RECORDS_FILE);
        let Some(bytes) = self.state.read(&path, MAX_RECORDS_BYTES)? else { return Ok(Records::default()) };
        let wrong = |why: String| StoreError::Records { path: path.clone(), why };
        let records: Records = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if records.version != RECORDS_VERSION {
            return Err(wrong(format!(
                "it has version {}, and this zk knows {RECORDS_VERSION}",
                records.version
            )));
        }
        let mut names = records.plugins.keys().chain(records.marketplaces.keys());
        match names.find(|name| !is_bundle_name(name)) {
            Some(name) => Err(wrong(format!("it has the name `{}`", visible_line(name)))),
            None => Ok(records),
        }
    }

    fn change_records<T>(
        &self,
        change: impl FnOnce(&mut Records) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.dir.join(RECORDS_FILE);
        let _lock = self.state.lock(&path)?;
        let mut records = self.records()?;
        let changed = change(&mut records)?;
        let bytes = serde_json::to_vec_pretty(&records)
            .map_err(|error| StoreError::Records { path: path.clone(), why: error.to_string() })?;
        self.state.replace(&path, &bytes)?;
        Ok(changed)
    }

    fn bundle_dir(&self, name: &str, digest: &str) -> PathBuf {
        let digits: String = digest.chars().take(DIRECTORY_DIGITS).collect();
        self.dir.join("kept").join(name).join(digits)
    }

    /// Directory for the data of a bundle.
    #[must_use]
    pub fn data_dir(&self, name: &str) -> PathBuf {
        self.dir.join("data").join(name)
    }

    /// Stores a bundle that a person approved, in place of an older one of the same source. Its files are
    /// written before its record.
    ///
    /// # Errors
    /// [`StoreError`], also for a name that a bundle from elsewhere has.
    pub fn keep(
        &self,
        fetched: &Fetched,
        source: &Source,
        options: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let name = fetched.bundle.name().to_owned();
        self.check_name(&name, source)?;
        let dir = self.bundle_dir(&name, &fetched.bundle.digest);
        remove_dir(&dir)?;
        fetched.tree.write_to(&dir)?;
        let before = self.change_records(|records| {
            let before = records.plugins.get(&name).cloned();
            let mut kept = KeptBundle {
                source: source.clone(),
                digest: fetched.bundle.digest.clone(),
                commit: fetched.commit.clone(),
                version: fetched.bundle.manifest.version.clone(),
                enabled: before.as_ref().is_none_or(|before| before.enabled),
                options: before.as_ref().map(|before| before.options.clone()).unwrap_or_default(),
            };
            kept.options.extend(options);
            records.plugins.insert(name.clone(), kept);
            Ok(before)
        })?;
        match before.filter(|before| before.digest != fetched.bundle.digest) {
            Some(before) => remove_dir(&self.bundle_dir(&name, &before.digest)),
            None => Ok(()),
        }
    }

    /// Checks that no bundle of another source has this name.
    ///
    /// # Errors
    /// [`StoreError::Taken`].
    pub fn check_name(&self, name: &str, source: &Source) -> Result<(), StoreError> {
        let records = self.records()?;
        match records.plugins.get(name).filter(|kept| kept.source != *source) {
            Some(kept) => Err(StoreError::Taken { name: name.to_owned(), from: kept.source.to_string() }),
            None => Ok(()),
        }
    }

    /// Removes a bundle with all of its files and its data.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.change_records(|records| {
            let removed = records.plugins.remove(name);
            removed.map(|_| ()).ok_or_else(|| unknown_name("plugin", name))
        })?;
        remove_dir(&self.dir.join("kept").join(name))?;
        remove_dir(&self.data_dir(name))
    }

    /// Enables or disables a bundle.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), StoreError> {
        self.change_records(|records| {
            let kept = records.plugins.get_mut(name).ok_or_else(|| unknown_name("plugin", name))?;
            kept.enabled = enabled;
            Ok(())
        })
    }

    /// Records a marketplace and its present bundles.
    ///
    /// # Errors
    /// [`StoreError`], also for a name that one from elsewhere has.
    pub fn add_marketplace(&self, marketplace: &Marketplace, source: &Source) -> Result<(), StoreError> {
        let plugins = marketplace.entries.iter().map(|entry| entry.name.clone()).collect();
        let name = marketplace.name.clone();
        self.change_records(|records| match records.marketplaces.get(&name) {
            Some(known) if known.source != *source => {
                Err(StoreError::Taken { name: name.clone(), from: known.source.to_string() })
            }
            Some(_) | None => {
                records.marketplaces.insert(name, KeptMarketplace { source: source.clone(), plugins });
                Ok(())
            }
        })
    }

    /// Removes the record of a marketplace. Bundles added from it are kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remove_marketplace(&self, name: &str) -> Result<(), StoreError> {
        self.change_records(|records| {
            let removed = records.marketplaces.remove(name);
            removed.map(|_| ()).ok_or_else(|| unknown_name("marketplace", name))
        })
    }

    /// Returns the files of a stored bundle, if they are exactly the approved ones.
    ///
    /// # Errors
    /// A text with the reason.
    pub fn tree(&self, name: &str, kept: &KeptBundle) -> Result<Tree, String> {
        let dir = self.bundle_dir(name, &kept.digest);
        let tree = Tree::read_dir(&dir, &*self.files).map_err(|error| error.to_string())?;
        if tree.digest() == kept.digest {
            return Ok(tree);
        }
        Err(format!("its files in {} are not those that were approved", dir.display()))
    }

    /// Loads all enabled bundles. A damaged one is left out.
    #[must_use]
    pub fn load(&self) -> Loaded {
        let mut loaded = Loaded::default();
        let records = match self.records() {
            Ok(records) => records,
            Err(error) => {
                loaded.problems.push(format!("no plugin is used: {error}"));
                return loaded;
            }
        };
        for (name, kept) in records.plugins.iter().filter(|(_, kept)| kept.enabled) {
            match self.load_one(name, kept) {
                Ok(placed) => loaded.bundles.push(placed),
                Err(why) => {
                    let next = "`zk plugin update` fetches it anew, `zk plugin remove` removes it";
                    loaded.problems.push(format!("the plugin `{name}` is not used: {why}; {next}"));
                }
            }
        }
        loaded
    }

    fn load_one(&self, name: &str, kept: &KeptBundle) -> Result<PlacedBundle, String> {
        let tree = self.tree(name, kept)?;
        let bundle = Bundle::read(&tree, name).map_err(|error| error.to_string())?;
        if bundle.name() != name {
            return Err(format!("it is called `{}` by now", bundle.name()));
        }
        let root = self.bundle_dir(name, &kept.digest);
        let root = root.canonicalize().map_err(|error| error.to_string())?;
        let data = self.data_dir(name);
        // Programs of a bundle expect their data directory to exist.
        make_private_dir(&data).map_err(|error| error.to_string())?;
        let data = data.canonicalize().map_err(|error| error.to_string())?;
        Ok(PlacedBundle { bundle, root, data, options: kept.options.clone() })
    }
}

fn unknown_name(what: &'static str, name: &str) -> StoreError {
    StoreError::Unknown { what, name: visible_line(name) }
}

fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(StoreError::Remove { path: dir.to_path_buf(), source }),
    }
}
