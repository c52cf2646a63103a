use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use zk_core::model::{Block, EntryId, Message, SessionId, ToolCall};
use zk_core::service::{
    Clock, Durability, Entry, EntryKind, NewSession, OpenSession, SessionFilter, SessionStore, StoreError,
};

/// An entry with this message.
pub(crate) fn entry(message: Message) -> EntryKind {
    EntryKind::Message { message: message.shared(), usage: None }
}

/// A prompt.
pub(crate) fn says(text: &str) -> EntryKind {
    entry(Message::user_text(text))
}

/// Unit `n` of a log that can be verified without a copy: every third is one prompt, the others are a call
/// with its result, of very different sizes.
pub(crate) fn unit(n: usize) -> Vec<EntryKind> {
    if n.is_multiple_of(3) {
        return vec![says(&format!("prompt {n}"))];
    }
    let id = format!("call_{n}");
    let call = ToolCall::new(&*id, "shell", json!({ "n": n }));
    let size = [10, 900, 6_000, 40_000][n % 4];
    vec![
        entry(Message::assistant(vec![Block::text(format!("unit {n}")), Block::ToolCall(call)])),
        entry(Message::user(vec![Block::result(&*id, "r".repeat(size), false)])),
    ]
}

/// Number of whole units in `entries`; fails for any other entries.
pub(crate) fn whole_units(entries: &[Entry]) -> usize {
    let mut rest = entries;
    let mut units = 0;
    while !rest.is_empty() {
        let expected = unit(units);
        assert!(rest.len() >= expected.len(), "unit {units} is cut: a call without its result");
        let (this, after) = rest.split_at(expected.len());
        assert!(this.iter().map(|entry| &entry.kind).eq(&expected), "unit {units} is another one");
        units += 1;
        rest = after;
    }
    assert!(chained(entries), "the parents do not form one chain");
    units
}

/// Whether each entry follows the one before it.
pub(crate) fn chained(entries: &[Entry]) -> bool {
    let parents = entries.iter().map(|entry| entry.parent.as_ref());
    parents.eq([None].into_iter().chain(entries.iter().map(|entry| Some(&entry.id))).take(entries.len()))
}

/// Returns the settings of a new session at `cwd`.
pub(crate) fn at(cwd: &Path) -> NewSession {
    NewSession { id: None, cwd: cwd.to_path_buf(), parent: None }
}

/// Stores a session of `units` units, closes it and returns its id.
pub(crate) async fn stored(store: &dyn SessionStore, cwd: &Path, units: usize) -> SessionId {
    let session = store.create(at(cwd)).await.unwrap();
    for n in 0..units {
        session.add(unit(n)).await.unwrap();
    }
    session.close().await.unwrap();
    session.id().clone()
}

/// Kinds of the entries stored in an open session.
pub(crate) async fn kinds(session: &Arc<dyn OpenSession>) -> Vec<EntryKind> {
    session.entries().await.unwrap().into_iter().map(|entry| entry.kind).collect()
}

/// Every file under `root`.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The one file under `root` whose name ends with `suffix`.
pub(crate) fn file(root: &Path, suffix: &str) -> PathBuf {
    let all = files(root);
    let mut found = all.iter().filter(|path| path.to_string_lossy().ends_with(suffix));
    let first = found.next().unwrap_or_else(|| panic!("no {suffix} among {all:?}")).clone();
    assert!(found.next().is_none(), "several {suffix} among {all:?}");
    first
}

/// Filter that matches every session.
pub(crate) fn every() -> SessionFilter {
    SessionFilter { unanswered: true, ..SessionFilter::default() }
}

/// Append with [`Durability::Process`].
pub(crate) trait Add {
    async fn add(&self, entries: Vec<EntryKind>) -> Result<Vec<EntryId>, StoreError>;
}

impl Add for dyn OpenSession {
    async fn add(&self, entries: Vec<EntryKind>) -> Result<Vec<EntryId>, StoreError> {
        self.append(entries, Durability::Process).await
    }
}

/// Clock that advances by a second with each reading.
#[derive(Debug, Default)]
pub(crate) struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000 + self.0.fetch_add(1, Ordering::SeqCst))
    }
}
