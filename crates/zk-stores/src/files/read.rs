//! Reads a session from its keys.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{
    Entry, EntryKind, SessionInfo, StoreError, Unreadable, count_branches, present_branch,
};
use zk_session::Digest;

use super::layout::{Keys, SessionKey};
use super::map::KeyValue;
use super::segment::{FORMAT, Head, Start, parse};
use crate::shared::from_millis;

/// Attempts to read a session whose keys another process merges meanwhile.
const READ_ATTEMPTS: usize = 5;

/// Content of `meta.json`: the data of a listing, as of the append `through`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u32,
    pub(super) start: Start,
    /// Number of the last append that is included.
    pub(super) through: u64,
    pub(super) updated_ms: u64,
    pub(super) digest: Digest,
    pub(super) branches: u64,
    #[serde(default)]
    pub(super) branch: Option<String>,
}

/// Session that was read from its keys.
#[derive(Debug, Default)]
pub(super) struct Stored {
    start: Option<Start>,
    /// Entries of all branches, in the order of writing.
    pub(super) entries: Vec<Entry>,
    pub(super) notices: Vec<String>,
    /// Number of the last append.
    pub(super) last: u64,
    pub(super) digest: Digest,
    pub(super) branch: Option<String>,
    title: Option<String>,
}

impl Stored {
    /// Whether no append is complete.
    pub(super) fn is_gone(&self) -> bool {
        self.start.is_none()
    }

    pub(super) fn start(&self) -> Start {
        self.start.clone().unwrap_or_else(|| Start {
            id: SessionId::from(""),
            parent: None,
            cwd: "/".into(),
            created_ms: 0,
        })
    }

    pub(super) fn leaf(&self) -> Option<EntryId> {
        self.entries.last().map(|entry| entry.id.clone())
    }

    pub(super) fn updated_ms(&self) -> u64 {
        self.entries.last().map_or_else(|| self.start().created_ms, |entry| entry.time_ms)
    }

    pub(super) fn info(&self) -> SessionInfo {
        let meta = Meta {
            format: FORMAT,
            start: self.start(),
            through: self.last,
            updated_ms: self.updated_ms(),
            digest: self.digest.clone(),
            branches: count_branches(&self.entries),
            branch: self.branch.clone(),
        };
        info(meta, self.title.clone())
    }

    /// Whether the leaf was ever moved.
    pub(super) fn has_moves(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Leaf { .. }))
    }

    /// The entries of the present branch.
    pub(super) fn into_branch(self) -> Vec<Entry> {
        if self.has_moves() { present_branch(self.entries) } else { self.entries }
    }

    /// Gives each entry whose parent cannot be read the entry before it as its parent.
    fn link_over_gaps(&mut self) {
        let mut known = HashSet::new();
        let mut before: Option<EntryId> = None;
        for entry in &mut self.entries {
            if entry.parent.as_ref().is_some_and(|parent| !known.contains(parent)) {
                entry.parent.clone_from(&before);
            }
            known.insert(entry.id.clone());
            before = Some(entry.id.clone());
        }
    }
}

fn info(meta: Meta, title: Option<String>) -> SessionInfo {
    let Meta { start, updated_ms, digest, branches, branch, .. } = meta;
    SessionInfo {
        id: start.id,
        parent: start.parent,
        cwd: start.cwd,
        branch,
        created: from_millis(start.created_ms),
        updated: from_millis(updated_ms),
        messages: digest.messages,
        branches,
        title: title.unwrap_or(digest.title),
        answered: digest.answered,
        interrupted: digest.running,
        lock: None,
        unreadable: None,
    }
}

/// Error of a session whose keys have no complete append.
pub(super) fn gone_error(id: &SessionId) -> StoreError {
    StoreError::NotFound { id: id.to_string(), hint: String::new() }
}

/// Summary of a session, without its entries if `meta.json` is up to date; `None` if it has no append.
pub(super) async fn read_info(map: &dyn KeyValue, keys: &Keys) -> Result<Option<SessionInfo>, StoreError> {
    if let Some(meta) = read_meta(map, keys).await?
        && meta.through == keys.last_append()
    {
        return Ok(Some(info(meta, read_title(map, keys).await?)));
    }
    let stored = read_session(map, keys, None).await?;
    Ok((!stored.is_gone()).then(|| stored.info()))
}

/// Summary of a session that cannot be read because of `error`; `None` for an error of the map itself.
pub(super) fn unreadable_info(id: &SessionId, error: &StoreError) -> Option<SessionInfo> {
    let state = match error {
        StoreError::Damaged { why, .. } => Unreadable::Damaged(why.clone()),
        StoreError::TooNew { found, known, .. } => Unreadable::TooNew { found: *found, known: *known },
        StoreError::NotFound { .. }
        | StoreError::InUse { .. }
        | StoreError::Fenced { .. }
        | StoreError::PostedBefore { .. }
        | StoreError::NoEntry { .. }
        | StoreError::Io { .. }
        | StoreError::Refused(_)
        | StoreError::Failed(_) => return None,
    };
    let start = Start { id: id.clone(), parent: None, cwd: "/".into(), created_ms: 0 };
    let (digest, branches, branch) = (Digest::default(), 1, None);
    let meta = Meta { format: FORMAT, start, through: 0, updated_ms: 0, digest, branches, branch };
    Some(SessionInfo { unreadable: Some(state), ..info(meta, None) })
}

async fn read_meta(map: &dyn KeyValue, keys: &Keys) -> Result<Option<Meta>, StoreError> {
    if !keys.has_meta {
        return Ok(None);
    }
    let bytes = map.get(&keys.session.meta_key()).await.map_err(StoreError::from)?;
    // A damaged `meta.json` is made again from the entries.
    Ok(bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .filter(|meta: &Meta| meta.format <= FORMAT))
}

async fn read_title(map: &dyn KeyValue, keys: &Keys) -> Result<Option<String>, StoreError> {
    if !keys.has_title {
        return Ok(None);
    }
    let bytes = map.get(&keys.session.title_key()).await.map_err(StoreError::from)?;
    Ok(bytes.map(|bytes| zk_session::title_line(&String::from_utf8_lossy(&bytes))).filter(|t| !t.is_empty()))
}

/// Reads a session up to its append `upto`, or to the end.
pub(super) async fn read_session(
    map: &dyn KeyValue,
    keys: &Keys,
    upto: Option<u64>,
) -> Result<Stored, StoreError> {
    let mut keys = keys.clone();
    for _ in 0..READ_ATTEMPTS {
        if let Some(appends) = Appends::read(map, &keys).await? {
            let mut stored = appends.into_stored(upto);
            let meta = read_meta(map, &keys).await?;
            let known = meta.as_ref().map_or(0, |meta| meta.through);
            if upto.is_none() && known > keys.last_append() {
                let later = list_keys(map, &keys).await?;
                if later.last_append() > keys.last_append() {
                    // Another process appended after the keys were listed.
                    keys = later;
                    continue;
                }
                stored.notices.push(format!(
                    "the last {} appends are gone: `{}` knows of append {known}",
                    known - keys.last_append(),
                    keys.session.meta_key()
                ));
            }
            if stored.start.is_none() && meta.is_some() && upto.is_none() {
                if stored.entries.is_empty() && stored.last == 0 {
                    return Err(damaged_error(meta, &keys));
                }
                stored.start = meta.map(|meta| meta.start);
            }
            if stored.start.is_none() && stored.last > 0 {
                // The first append is lost, so nothing else is known of the session.
                stored.start = session_id(&keys.session).map(|id| Start {
                    id,
                    parent: None,
                    cwd: "/".into(),
                    created_ms: stored.entries.first().map_or(0, |entry| entry.time_ms),
                });
            }
            stored.title = read_title(map, &keys).await?;
            return Ok(stored);
        }
        keys = list_keys(map, &keys).await?;
    }
    Err(StoreError::Failed(format!(
        "the keys of {} change while they are read; try again",
        keys.session.prefix()
    )))
}

/// Keys of the same session at present.
async fn list_keys(map: &dyn KeyValue, keys: &Keys) -> Result<Keys, StoreError> {
    let names = map.list(&keys.session.prefix()).await.map_err(StoreError::from)?;
    Ok(Keys::of(keys.session.clone(), names))
}

fn session_id(key: &SessionKey) -> Option<SessionId> {
    super::layout::group_by_session(vec![key.meta_key()]).into_keys().next()
}

fn damaged_error(meta: Option<Meta>, keys: &Keys) -> StoreError {
    let id = meta.map_or_else(|| SessionId::from(""), |meta| meta.start.id);
    let why = match keys.chunks.is_empty() {
        true => "its appends are gone, and `meta.json` is all that is left",
        false => "none of its appends can be read",
    };
    let why = why.to_owned();
    StoreError::Damaged { id, why, kept: keys.session.prefix().into() }
}

/// Appends of a session, keyed by their numbers.
#[derive(Default)]
struct Appends {
    all: BTreeMap<u64, (Head, Vec<Entry>, usize)>,
    /// Keys that contain an incomplete append, with the number of their last append.
    torn: Vec<(u64, String)>,
}

impl Appends {
    /// Reads all keys with appends; `None` if one was merged into another meanwhile.
    async fn read(map: &dyn KeyValue, keys: &Keys) -> Result<Option<Self>, StoreError> {
        let mut appends = Self::default();
        for chunk in &keys.chunks {
            let Some(text) = map.get(&chunk.key).await.map_err(StoreError::from)? else {
                return Ok(None);
            };
            let parts = parse(&text);
            if let Some(found) = parts.newer {
                let id = session_id(&keys.session).unwrap_or_else(|| SessionId::from(""));
                return Err(StoreError::TooNew { id, found, known: FORMAT });
            }
            for segment in parts.segments {
                appends.all.entry(segment.head.seq).or_insert_with(|| {
                    let mut entries = Vec::new();
                    let unknown = segment.read_entries(&mut entries).err().unwrap_or_default();
                    (segment.head.clone(), entries, unknown)
                });
            }
            if parts.is_torn || text.is_empty() {
                appends.torn.push((chunk.last, chunk.key.clone()));
            }
        }
        // An incomplete key that was merged completely into another one is of no interest.
        let all = &appends.all;
        appends.torn.retain(|(last, _)| !all.contains_key(last));
        Ok(Some(appends))
    }

    /// Builds the session by following the appends back from the last one. Failed appends, which no later one follows,
    /// are left out.
    fn into_stored(mut self, upto: Option<u64>) -> Stored {
        let mut stored = Stored::default();
        let newest = self.all.keys().rev().find(|seq| upto.is_none_or(|upto| **seq <= upto)).copied();
        let mut chain = Vec::new();
        let mut wanted = newest;
        while let Some(seq) = wanted {
            if let Some(append) = self.all.remove(&seq) {
                wanted = Some(append.0.after).filter(|after| (1..seq).contains(after));
                chain.push(append);
                continue;
            }
            // The append `seq` was acknowledged, and is damaged or gone.
            let torn = self.torn.iter().find(|(last, _)| *last == seq);
            let place =
                torn.map_or_else(|| "its key is gone".to_owned(), |(_, key)| format!("kept as {key}"));
            stored.notices.push(format!("the entries of append {seq} cannot be read ({place})"));
            wanted = self.all.range(..seq).next_back().map(|(seq, _)| *seq);
        }
        stored.last = newest.unwrap_or_default();
        for (head, entries, unknown) in chain.into_iter().rev() {
            stored.start = stored.start.or(head.start);
            stored.branch = head.branch.or(stored.branch);
            if unknown > 0 {
                stored
                    .notices
                    .push(format!("{unknown} entries of append {} are of an unknown kind", head.seq));
            }
            for entry in &entries {
                stored.digest.add(&entry.kind);
            }
            stored.entries.extend(entries);
        }
        if !stored.notices.is_empty() {
            stored.link_over_gaps();
        }
        for (last, key) in &self.torn {
            if upto.is_none() && stored.last > 0 && *last > stored.last {
                stored.notices.push(format!("the last append was not stored completely; kept as {key}"));
            }
        }
        stored
    }
}
