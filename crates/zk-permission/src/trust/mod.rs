use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use zk_core::service::{StateFileError, StateFiles, Trust, TrustError, TrustItem};

/// Largest trust store, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Trust store: a person's approvals of project files, in a file of the state directory that only its owner
/// can write. A store that is damaged, of another user or writable by others trusts nothing, reports that,
/// and is not overwritten.
pub struct FileTrust {
    /// `None` without a state directory.
    path: Option<PathBuf>,
    files: Arc<dyn StateFiles>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Last reported reason why the store is unusable.
    told: Mutex<Option<String>>,
}

/// Digests of approved files, by project, kind and name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    approved: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>,
}

const VERSION: u32 = 1;

impl fmt::Debug for FileTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTrust").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileTrust {
    /// Store in the file at `path`; without a path it trusts nothing and stores nothing.
    #[must_use]
    pub fn new(path: Option<PathBuf>, files: Arc<dyn StateFiles>) -> Self {
        Self { path, files, tell: Arc::new(|_| ()), told: Mutex::default() }
    }

    /// Sets the callback for the reason why the store is unusable.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell), ..self }
    }

    /// Reason why the store is unusable, if the file exists.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.load().err().map(|error| error.to_string())
    }

    /// Reports why the store is unusable, once for each reason.
    pub fn tell_problem(&self) {
        let _ = self.load_usable();
    }

    /// Loads the store; `None` if it is unusable, which is reported once for each reason.
    fn load_usable(&self) -> Option<Stored> {
        let loaded = self.load();
        let problem = loaded.as_ref().err().map(ToString::to_string);
        let news = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let news = problem.clone().filter(|problem| told.as_ref() != Some(problem));
            *told = problem;
            news
        };
        if let Some(problem) = news {
            (self.tell)(&problem);
        }
        loaded.ok()
    }

    /// Kinds and names of the approved files of a project.
    ///
    /// # Errors
    /// [`TrustError::Unusable`].
    pub fn approved(&self, project: &Path) -> Result<Vec<(String, String)>, TrustError> {
        let stored = self.load()?;
        let kinds = key(project).and_then(|project| stored.approved.get(project)).into_iter().flatten();
        let names = kinds.flat_map(|(kind, names)| names.keys().map(|name| (kind.clone(), name.clone())));
        Ok(names.collect())
    }

    fn load(&self) -> Result<Stored, TrustError> {
        let Some(path) = &self.path else { return Ok(Stored { version: VERSION, ..Stored::default() }) };
        let unusable = |why: String| TrustError::Unusable { path: path.clone(), why };
        // Stricter than for other state files: neither root nor the user who called `sudo` may own it.
        let owner = std::fs::symlink_metadata(path).map(|found| found.uid());
        if let Ok(uid) = owner
            && uid != rustix::process::geteuid().as_raw()
        {
            return Err(unusable(format!("it belongs to another user, uid {uid}")));
        }
        let read = self.files.read(path, MAX_BYTES).map_err(|error| match error {
            StateFileError::Unusable { why, .. } => unusable(why),
            error @ (StateFileError::Busy { .. } | StateFileError::Io { .. }) => unusable(error.to_string()),
        })?;
        let Some(bytes) = read else { return Ok(Stored { version: VERSION, ..Stored::default() }) };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        if stored.version == VERSION {
            Ok(stored)
        } else {
            Err(unusable(format!("it has version {}, not {VERSION}", stored.version)))
        }
    }

    /// Changes the store under the file's lock.
    fn change(&self, change: impl FnOnce(&mut Stored)) -> Result<(), TrustError> {
        let Some(path) = &self.path else {
            let source = std::io::Error::new(ErrorKind::NotFound, "set HOME or ZK_HOME");
            return Err(TrustError::Io { path: PathBuf::from("trust.json"), source });
        };
        let failed = |source| TrustError::Io { path: path.clone(), source };
        let _lock = self.files.lock(path).map_err(|error| failed(error.into_io()))?;
        let mut stored = self.load()?;
        change(&mut stored);
        let text = serde_json::to_vec_pretty(&stored).map_err(|error| failed(error.into()))?;
        self.files.replace(path, &text).map_err(|error| failed(error.into_io()))
    }
}

fn digest(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Key of a project. A path that is no UTF-8 might collide with another one, so it has no key.
fn key(project: &Path) -> Option<&str> {
    project.to_str()
}

impl Trust for FileTrust {
    fn is_trusted(&self, item: &TrustItem<'_>) -> bool {
        self.are_trusted(std::slice::from_ref(item)).into_iter().all(|is| is)
    }

    fn are_trusted(&self, items: &[TrustItem<'_>]) -> Vec<bool> {
        let stored = if items.is_empty() { None } else { self.load_usable() };
        let is_trusted = |item: &TrustItem<'_>| {
            let approved = &stored.as_ref()?.approved;
            let digests = approved.get(key(item.project)?)?.get(item.kind)?.get(item.name)?;
            Some(digests.contains(&digest(item.bytes)))
        };
        items.iter().map(|item| is_trusted(item).unwrap_or(false)).collect()
    }

    fn approve(&self, item: &TrustItem<'_>) -> Result<(), TrustError> {
        let Some(project) = key(item.project) else {
            let source = std::io::Error::new(ErrorKind::InvalidInput, "the project's path is not UTF-8");
            return Err(TrustError::Io { path: self.path.clone().unwrap_or_default(), source });
        };
        self.change(|stored| {
            let kinds = stored.approved.entry(project.to_owned()).or_default();
            let names = kinds.entry(item.kind.to_owned()).or_default();
            let digests = names.entry(item.name.to_owned()).or_default();
            let digest = digest(item.bytes);
            if !digests.contains(&digest) {
                digests.push(digest);
            }
        })
    }

    fn revoke(&self, project: &Path, kind: &str, name: &str) -> Result<(), TrustError> {
        let Some(project) = key(project) else { return Ok(()) };
        self.change(|stored| {
            if let Some(names) = stored.approved.get_mut(project).and_then(|kinds| kinds.get_mut(kind)) {
                names.remove(name);
            }
        })
    }
}

#[cfg(test)]
mod tests;
