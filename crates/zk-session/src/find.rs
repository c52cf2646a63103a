use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zk_core::model::{Role, SessionId};
use zk_core::service::{
    Entry, EntryKind, EntryVisitor, LiveEntries, OpenSession, SessionFilter, SessionInfo, SessionScan,
    SessionSnapshot, SessionStore, StoreError,
};

/// Newest readable session of `cwd`, which `--continue` resumes. A session whose first prompt has no answer
/// yet counts too, unless another process is answering it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_session::{MemoryStore, latest};
///
/// assert!(latest(&MemoryStore::new(), "/project".as_ref()).await.unwrap().is_none());
/// # });
/// ```
///
/// # Errors
/// [`StoreError`] when the store cannot be read.
pub async fn latest(store: &dyn SessionStore, cwd: &Path) -> Result<Option<SessionInfo>, StoreError> {
    let filter = SessionFilter { cwd: Some(cwd.to_path_buf()), limit: None, unanswered: true };
    let goes_on = |info: &SessionInfo| info.unreadable.is_none() && (info.answered || info.interrupted);
    // The newest session is nearly always usable; the others are read only if it is not.
    let newest = store.list(&SessionFilter { limit: Some(1), ..filter.clone() }).await?;
    if let Some(info) = newest.into_iter().find(goes_on) {
        return Ok(Some(info));
    }
    Ok(store.list(&filter).await?.into_iter().find(goes_on))
}

/// Finds the id of a session by `text`: its whole id or a unique prefix, with or without the leading `s_`.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_core::service::StoreError;
/// use zk_session::{MemoryStore, find_matching};
///
/// let found = find_matching(&MemoryStore::new(), "0a7").await;
/// assert!(matches!(found.err(), Some(StoreError::NotFound { .. })));
/// # });
/// ```
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::list`].
pub async fn find_matching(store: &dyn SessionStore, text: &str) -> Result<SessionId, StoreError> {
    let all = store.list(&SessionFilter { unanswered: true, ..SessionFilter::default() }).await?;
    let ids = || all.iter().map(|info| &info.id);
    if let Some(id) = ids().find(|id| id.as_str() == text) {
        return Ok(id.clone());
    }
    let matching: Vec<&SessionId> = ids().filter(|id| has_id_prefix(id.as_str(), text)).collect();
    let hint = match matching.as_slice() {
        [] => near_match(text, ids().map(ToString::to_string)),
        [only] => return Ok((*only).clone()),
        several => join_ids(several),
    };
    Err(StoreError::NotFound { id: text.to_owned(), hint })
}

/// Opens the session with the id or unique prefix `text`, see [`find_matching`].
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::open`].
pub async fn open_matching(store: &dyn SessionStore, text: &str) -> Result<Arc<dyn OpenSession>, StoreError> {
    // Found directly: listings omit empty sessions.
    match store.open(&SessionId::from(text)).await {
        Err(StoreError::NotFound { .. }) => store.open(&find_matching(store, text).await?).await,
        opened_or_failed => opened_or_failed,
    }
}

/// Reads the session with the id or unique prefix `text`, see [`find_matching`]. Another process may have it
/// open.
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::read`].
pub async fn read_matching(store: &dyn SessionStore, text: &str) -> Result<SessionSnapshot, StoreError> {
    match store.read(&SessionId::from(text)).await {
        Err(StoreError::NotFound { .. }) => store.read(&find_matching(store, text).await?).await,
        read_or_failed => read_or_failed,
    }
}

/// Reads the entries that a resumed conversation needs, of the session with the id or unique prefix `text`;
/// see [`find_matching`].
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::read_live`].
pub async fn read_live_matching(store: &dyn SessionStore, text: &str) -> Result<LiveEntries, StoreError> {
    match store.read_live(&SessionId::from(text)).await {
        Err(StoreError::NotFound { .. }) => store.read_live(&find_matching(store, text).await?).await,
        read_or_failed => read_or_failed,
    }
}

/// Visits the entries of the session with the id or unique prefix `text`, see [`find_matching`]. `visitor` is called to
/// get the visitor of the session that was found.
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::scan`].
pub async fn scan_matching(
    store: &dyn SessionStore,
    text: &str,
    visitor: impl Fn() -> EntryVisitor,
) -> Result<SessionScan, StoreError> {
    match store.scan(&SessionId::from(text), visitor()).await {
        Err(StoreError::NotFound { .. }) => store.scan(&find_matching(store, text).await?, visitor()).await,
        scanned_or_failed => scanned_or_failed,
    }
}

/// Removes a session that contains nothing but prompts: no answer and no plugin entry. Returns whether it was
/// removed.
///
/// # Errors
/// As [`SessionStore::read`] and [`SessionStore::delete`]; a missing session is no error.
pub async fn discard_unanswered(store: &dyn SessionStore, id: &SessionId) -> Result<bool, StoreError> {
    let has_more = Arc::new(AtomicBool::new(false));
    let found = has_more.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        let is_more = !is_prompt(&entry.kind);
        found.fetch_or(is_more, Ordering::Relaxed);
        if is_more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let scan = match store.scan(id, visit).await {
        Err(StoreError::NotFound { .. }) => return Ok(false),
        other => other?,
    };
    let only_prompts = scan.notices.is_empty() && !has_more.load(Ordering::Relaxed);
    if only_prompts {
        store.delete(id).await?;
    }
    Ok(only_prompts)
}

/// Whether an entry is a prompt, or one that a run without an answer also has: model, thinking level, start and end,
/// move of the leaf.
pub(crate) fn is_prompt(entry: &EntryKind) -> bool {
    match entry {
        EntryKind::Message { message, .. } => message.role == Role::User,
        EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. }
        | EntryKind::Leaf { .. } => true,
        EntryKind::OpenTurn { .. }
        | EntryKind::CallBegin { .. }
        | EntryKind::CallEnd { .. }
        | EntryKind::CallData { .. }
        | EntryKind::Usage { .. }
        | EntryKind::Label { .. }
        | EntryKind::Custom(_) => false,
    }
}

fn has_id_prefix(id: &str, text: &str) -> bool {
    !text.is_empty() && (id.starts_with(text) || id.strip_prefix("s_").is_some_and(|id| id.starts_with(text)))
}

fn join_ids(ids: &[&SessionId]) -> String {
    let shown: Vec<String> = ids.iter().take(3).map(|id| format!("`{id}`")).collect();
    let more = if ids.len() > shown.len() { ", …" } else { "" };
    format!(": {} sessions begin with that ({}{more})", ids.len(), shown.join(", "))
}

/// Longest id of a session in bytes.
const MAX_ID_BYTES: usize = 100;

/// Whether an id can be the name of a file: 1 to 100 letters, digits, `-` and `_`. Ids come from command lines and foreign
/// stores, too.
///
/// ```
/// assert!(zk_session::is_valid_id(&"s_1".into()));
/// assert!(!zk_session::is_valid_id(&"../s_1".into()));
/// ```
#[must_use]
pub fn is_valid_id(id: &SessionId) -> bool {
    let id = id.as_str();
    (1..=MAX_ID_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Hint for [`StoreError::NotFound`]: the id with the longest common prefix with `wanted`, if it is long
/// enough to be meant.
///
/// ```
/// let hint = zk_session::near_match("0abcdef2", ["s_0abcdef1".to_owned()]);
/// assert_eq!(hint, " (did you mean `s_0abcdef1`?)");
/// ```
pub fn near_match(wanted: &str, ids: impl IntoIterator<Item = String>) -> String {
    let common = |id: &str| {
        let bare = |text: &str| text.strip_prefix("s_").unwrap_or(text).to_lowercase();
        bare(id).chars().zip(bare(wanted).chars()).take_while(|(a, b)| a == b).count()
    };
    // Ids of one day share their first characters, so a prefix of fewer than four proves nothing.
    ids.into_iter()
        .map(|id| (common(&id), id))
        .filter(|(common, _)| *common >= 4)
        .max()
        .map_or(String::new(), |(_, id)| format!(" (did you mean `{id}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_id_is_offered() {
        let ids = || ["s_0abcdef1", "s_0abcxyz2", "other"].map(String::from);
        assert_eq!(near_match("0abcdef2", ids()), " (did you mean `s_0abcdef1`?)");
        assert_eq!(near_match("s_0ABCX", ids()), " (did you mean `s_0abcxyz2`?)");
        assert_eq!(near_match("zzz", ids()), "");
    }

    #[test]
    fn the_prefix_of_ids_may_be_left_out() {
        assert!(has_id_prefix("s_0abc", "0a") && has_id_prefix("s_0abc", "s_0"));
        assert!(!has_id_prefix("s_0abc", "") && !has_id_prefix("s_0abc", "abc"));
    }
}
