//! Small parts that the stores of this crate share.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zk_core::model::SessionId;
use zk_core::service::{SessionFilter, SessionInfo, StoreError};
use zk_session::is_valid_id;

/// Present time in milliseconds since 1970.
#[cfg(feature = "files")]
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

/// Maximum number of characters that a message shows of an invalid id.
const MAX_SHOWN_CHARS: usize = 100;

/// Checks the id of a requested session: no session has an invalid id.
///
/// # Errors
/// [`StoreError::NotFound`].
pub(crate) fn check_requested_id(id: &SessionId) -> Result<(), StoreError> {
    if is_valid_id(id) { Ok(()) } else { Err(not_found(id, [])) }
}

/// Checks the id of a new session, or one that another machine sent.
///
/// # Errors
/// [`StoreError::Failed`] for an invalid id.
pub(crate) fn check_id(id: &SessionId) -> Result<(), StoreError> {
    if is_valid_id(id) {
        return Ok(());
    }
    let shown: String = id.as_str().chars().take(MAX_SHOWN_CHARS).collect();
    Err(StoreError::Failed(format!(
        "{shown:?} cannot be the id of a session: an id has 1 to 100 letters, digits, `_` and `-`"
    )))
}

/// Checks that the answer of a store is about the requested session.
///
/// # Errors
/// [`StoreError::Failed`] for an answer about another session.
pub(crate) fn check_same_id(asked: &SessionId, answered: &SessionId) -> Result<(), StoreError> {
    if asked == answered {
        return Ok(());
    }
    let shown: String = answered.as_str().chars().take(MAX_SHOWN_CHARS).collect();
    Err(StoreError::Failed(format!("the store answered about session {shown:?} instead of `{asked}`")))
}

/// Summary of a session without a parent of an invalid id; `None` if its own id is invalid.
pub(crate) fn with_valid_ids(mut info: SessionInfo) -> Option<SessionInfo> {
    info.parent = info.parent.filter(is_valid_id);
    is_valid_id(&info.id).then_some(info)
}

/// Applies a filter to sessions: the matching ones, newest first, up to its limit.
pub(crate) fn apply_filter(all: Vec<SessionInfo>, filter: &SessionFilter) -> Vec<SessionInfo> {
    let mut all: Vec<SessionInfo> = all.into_iter().filter_map(with_valid_ids).collect();
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

pub(crate) fn exists_error(id: &SessionId) -> StoreError {
    StoreError::Failed(format!("session `{id}` exists already; open it, or choose another id"))
}

pub(crate) fn closed_error(id: &SessionId) -> StoreError {
    StoreError::Failed(format!("session `{id}` is closed; open it again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_no_name_of_a_directory_is_refused() {
        for id in ["", "..", "../x", "/etc", "a/b", "a.b", "a\0b", "ü", &"x".repeat(101)] {
            assert!(matches!(check_id(&id.into()), Err(StoreError::Failed(_))), "{id:?}");
            assert!(matches!(check_requested_id(&id.into()), Err(StoreError::NotFound { .. })), "{id:?}");
        }
        assert!(check_id(&SessionId::fresh()).is_ok());
        assert!(check_same_id(&"s_1".into(), &"s_2".into()).is_err());
    }
}
