//! Small parts that the stores of this crate share.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zk_core::model::SessionId;
use zk_core::service::{SessionFilter, SessionInfo, StoreError};

/// Milliseconds since 1970; 0 before.
pub(crate) fn now_ms() -> u64 {
    millis(SystemTime::now())
}

pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// The time `millis` after 1970.
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

/// Applies a filter to sessions: the matching ones, newest first, up to its limit.
pub(crate) fn filtered(mut all: Vec<SessionInfo>, filter: &SessionFilter) -> Vec<SessionInfo> {
    let canonical = filter.cwd.as_ref().and_then(|cwd| cwd.canonicalize().ok());
    all.retain(|info| {
        let matches = filter.cwd.as_ref().is_none_or(|cwd| is_same_dir(cwd, canonical.as_ref(), &info.cwd));
        // An unreadable session is listed with the reason, whether or not it has an answer.
        matches && (filter.unanswered || info.answered || info.unreadable.is_some())
    });
    all.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
    all.truncate(filter.limit.unwrap_or(usize::MAX));
    all
}

fn is_same_dir(cwd: &Path, canonical: Option<&PathBuf>, other: &Path) -> bool {
    cwd == other || canonical.is_some_and(|cwd| other.canonicalize().is_ok_and(|other| other == *cwd))
}

pub(crate) fn not_found(id: &SessionId, known: impl IntoIterator<Item = String>) -> StoreError {
    StoreError::NotFound { id: id.to_string(), hint: zk_session::near_match(id.as_str(), known) }
}

pub(crate) fn exists(id: &SessionId) -> StoreError {
    StoreError::Failed(format!("session `{id}` exists already; open it, or choose another id"))
}

pub(crate) fn closed(id: &SessionId) -> StoreError {
    StoreError::Failed(format!("session `{id}` is closed; open it again"))
}
