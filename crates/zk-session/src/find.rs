use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zk_core::model::{Role, SessionId};
use zk_core::service::{
    Entry, EntryKind, EntryVisitor, LiveEntries, OpenSession, SessionFilter, SessionInfo, SessionScan,
    SessionSnapshot, SessionStore, StoreError,
};

/// The session of `cwd` that was written last and can be read: what `--continue` continues. One whose first prompt
/// waits for its answer is as good as any, unless another process is answering it.
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
    // The newest is nearly always the one: the others are read where it is not.
    let newest = store.list(&SessionFilter { limit: Some(1), ..filter.clone() }).await?;
    if let Some(info) = newest.into_iter().find(goes_on) {
        return Ok(Some(info));
    }
    Ok(store.list(&filter).await?.into_iter().find(goes_on))
}

/// The id of the session that `text` means: its whole id, or the beginning of exactly one id, with or without
/// the `s_` in front.
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
    let matching: Vec<&SessionId> = ids().filter(|id| begins_with(id.as_str(), text)).collect();
    let hint = match matching.as_slice() {
        [] => near_match(text, ids().map(ToString::to_string)),
        [only] => return Ok((*only).clone()),
        several => among(several),
    };
    Err(StoreError::NotFound { id: text.to_owned(), hint })
}

/// Opens the session that `text` means, as [`find_matching`] finds it.
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::open`].
pub async fn open_matching(store: &dyn SessionStore, text: &str) -> Result<Arc<dyn OpenSession>, StoreError> {
    // Also one that no listing shows, because it is empty.
    match store.open(&SessionId::from(text)).await {
        Err(StoreError::NotFound { .. }) => store.open(&find_matching(store, text).await?).await,
        opened_or_failed => opened_or_failed,
    }
}

/// Reads the session that `text` means, as [`find_matching`] finds it, also while somebody has it open.
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::read`].
pub async fn read_matching(store: &dyn SessionStore, text: &str) -> Result<SessionSnapshot, StoreError> {
    match store.read(&SessionId::from(text)).await {
        Err(StoreError::NotFound { .. }) => store.read(&find_matching(store, text).await?).await,
        read_or_failed => read_or_failed,
    }
}

/// Reads what the conversation of the session that `text` means would go on from, as [`find_matching`] finds it.
///
/// # Errors
/// [`StoreError::NotFound`], naming the candidates if there are several; else as [`SessionStore::read_live`].
pub async fn read_live_matching(store: &dyn SessionStore, text: &str) -> Result<LiveEntries, StoreError> {
    match store.read_live(&SessionId::from(text)).await {
        Err(StoreError::NotFound { .. }) => store.read_live(&find_matching(store, text).await?).await,
        read_or_failed => read_or_failed,
    }
}

/// Visits the entries of the session that `text` means, as [`find_matching`] finds it, with a visitor of `visitor`.
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

/// Removes a session in which nothing but prompts was stored: no answer, no entry of a plugin. Returns whether
/// it did.
///
/// # Errors
/// As [`SessionStore::read`] and [`SessionStore::delete`]; a session that is not there is no error.
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

/// Whether nothing would be lost with this entry but what a person typed, and when.
pub(crate) fn is_prompt(entry: &EntryKind) -> bool {
    match entry {
        EntryKind::Message { message, .. } => message.role == Role::User,
        EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. } => true,
        EntryKind::OpenTurn { .. }
        | EntryKind::CallBegin { .. }
        | EntryKind::CallEnd { .. }
        | EntryKind::CallData { .. }
        | EntryKind::Usage { .. }
        | EntryKind::Custom(_) => false,
    }
}

fn begins_with(id: &str, text: &str) -> bool {
    !text.is_empty() && (id.starts_with(text) || id.strip_prefix("s_").is_some_and(|id| id.starts_with(text)))
}

fn among(ids: &[&SessionId]) -> String {
    let shown: Vec<String> = ids.iter().take(3).map(|id| format!("`{id}`")).collect();
    let more = if ids.len() > shown.len() { ", …" } else { "" };
    format!(": {} sessions begin with that ({}{more})", ids.len(), shown.join(", "))
}

/// The hint of a [`StoreError::NotFound`]: the id that has the longest beginning in common with `wanted`, if
/// that is enough to mean something.
pub(crate) fn near_match(wanted: &str, ids: impl IntoIterator<Item = String>) -> String {
    let common = |id: &str| {
        let bare = |text: &str| text.strip_prefix("s_").unwrap_or(text).to_lowercase();
        bare(id).chars().zip(bare(wanted).chars()).take_while(|(a, b)| a == b).count()
    };
    // The time part of ids made on one day begins alike; fewer than four characters say nothing.
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
        assert!(begins_with("s_0abc", "0a") && begins_with("s_0abc", "s_0"));
        assert!(!begins_with("s_0abc", "") && !begins_with("s_0abc", "abc"));
    }
}
