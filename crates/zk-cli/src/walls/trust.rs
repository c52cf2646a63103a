//! Approvals of projects by a person, in a file of the state directory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use zk_core::service::{StateFileError, StateFiles, Trust, TrustError, TrustItem};
use zk_exec::LocalStateFiles;
use zk_tui::plain::Notices;

/// The most a store may have, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Trust in a file that only its owner can write. One that is damaged, of another user or writable by others trusts
/// nothing, says so whenever that is found, and is not overwritten.
#[derive(Debug)]
pub(crate) struct FileTrust {
    /// Nothing where there is no state directory.
    path: Option<PathBuf>,
    files: LocalStateFiles,
    notices: Notices,
    /// Reason why the store is not usable, as it was told last.
    told: Mutex<Option<String>>,
}

/// Approved digests by project, kind and name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    version: u32,
    approved: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>,
}

const VERSION: u32 = 1;

impl FileTrust {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        let files = LocalStateFiles::default();
        Self { path, files, notices: Notices::default(), told: Mutex::default() }
    }

    /// Has the store tell there why it is not usable.
    pub(crate) fn telling(self, notices: &Notices) -> Self {
        Self { notices: notices.clone(), ..self }
    }

    /// Returns the reason why the store trusts nothing, if it is there and not usable.
    pub(crate) fn problem(&self) -> Option<String> {
        self.load().err().map(|error| error.to_string())
    }

    /// Returns the content of the store. Tells why it trusts nothing if it is there and not usable, once
    /// until that changes.
    pub(crate) fn usable(&self) -> Option<Stored> {
        let loaded = self.load();
        let problem = loaded.as_ref().err().map(ToString::to_string);
        let news = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let news = problem.clone().filter(|problem| told.as_ref() != Some(problem));
            *told = problem;
            news
        };
        if let Some(problem) = news {
            self.notices.show(&format!("warning: {problem}"));
        }
        loaded.ok()
    }

    /// Lists what was approved in a project, as kinds and names.
    pub(crate) fn approved(&self, project: &Path) -> Result<Vec<(String, String)>, TrustError> {
        let stored = self.load()?;
        let kinds = key(project).and_then(|project| stored.approved.get(project)).into_iter().flatten();
        let names = kinds.flat_map(|(kind, names)| names.keys().map(|name| (kind.clone(), name.clone())));
        Ok(names.collect())
    }

    fn load(&self) -> Result<Stored, TrustError> {
        let Some(path) = &self.path else { return Ok(Stored { version: VERSION, ..Stored::default() }) };
        let unusable = |why: String| TrustError::Unusable { path: path.clone(), why };
        // Stricter than other files of state: neither root nor the user who called `sudo` may own it.
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

    /// Changes the store as one process at a time.
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

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A project's key. One whose path is no UTF-8 could be taken for another one, so it has none.
fn key(project: &Path) -> Option<&str> {
    project.to_str()
}

impl Trust for FileTrust {
    fn is_trusted(&self, item: &TrustItem<'_>) -> bool {
        self.are_trusted(std::slice::from_ref(item)).into_iter().all(|is| is)
    }

    fn are_trusted(&self, items: &[TrustItem<'_>]) -> Vec<bool> {
        let stored = if items.is_empty() { None } else { self.usable() };
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
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn item<'a>(project: &'a str, bytes: &'a [u8]) -> TrustItem<'a> {
        TrustItem { project: Path::new(project), kind: "settings", name: ".zk/settings.toml", bytes }
    }

    #[test]
    fn exactly_what_was_approved_is_trusted_until_it_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/trust.json");
        let trust = FileTrust::new(Some(path.clone()));
        assert!(!trust.is_trusted(&item("/p", b"a")));
        trust.approve(&item("/p", b"a")).unwrap();
        trust.approve(&item("/p", b"b")).unwrap();
        assert!(trust.is_trusted(&item("/p", b"a")) && trust.is_trusted(&item("/p", b"b")));
        for other in [item("/p", b"c"), item("/q", b"a"), TrustItem { kind: "hook", ..item("/p", b"a") }] {
            assert!(!trust.is_trusted(&other), "{other:?}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        trust.revoke(Path::new("/p"), "settings", ".zk/settings.toml").unwrap();
        assert!(!trust.is_trusted(&item("/p", b"a")));
    }

    #[test]
    fn a_store_that_is_damaged_foreign_or_open_to_others_trusts_nothing_and_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.json");
        let (notices, told) = (Notices::default(), std::sync::Arc::new(Mutex::new(Vec::new())));
        let kept = told.clone();
        notices.route_to(move |text| kept.lock().unwrap().push(text.to_owned()));
        let trust = FileTrust::new(Some(path.clone())).telling(&notices);
        let said = || std::mem::take(&mut *told.lock().unwrap());
        trust.approve(&item("/p", b"a")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(!trust.is_trusted(&item("/p", b"a")) && !trust.is_trusted(&item("/p", b"a")));
        let open = said();
        assert!(open.len() == 1 && open[0].contains("others can write to it"), "told once: {open:?}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(trust.is_trusted(&item("/p", b"a")) && said().is_empty());
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65_533), None).is_ok() {
            assert!(!trust.is_trusted(&item("/p", b"a")) && !trust.is_trusted(&item("/p", b"a")));
            let foreign = said();
            let why = "it belongs to another user, uid 65533";
            assert!(foreign.len() == 1 && foreign[0].contains(why), "told once: {foreign:?}");
            assert!(trust.approve(&item("/p", b"b")).is_err());
            std::os::unix::fs::chown(&path, Some(rustix::process::geteuid().as_raw()), None).unwrap();
            assert!(trust.is_trusted(&item("/p", b"a")) && said().is_empty());
        }
        // In the middle of a conversation as at its beginning.
        std::fs::write(&path, "{\"version\":1,").unwrap();
        assert!(!trust.is_trusted(&item("/p", b"a")));
        assert!(said()[0].contains("trust.json"), "told again");
        assert!(trust.approve(&item("/p", b"b")).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"version\":1,");
    }
}
