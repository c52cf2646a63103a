use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as SyncMutex};

use async_trait::async_trait;
use tokio::sync::Mutex;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, NewSession, OpenSession, StoreError, check_leaf,
    count_branches,
};
use zk_session::Digest;

use super::layout::{Chunk, Keys, SessionKey};
use super::lease::Hold;
use super::map::Saved;
use super::read::{Meta, Stored, read_session};
use super::segment::{FORMAT, Head, Start, parse, write};
use super::{Inner, lock, visit_all};
use crate::shared::{closed_error, exists_error, millis};

/// Number of keys that are merged into one.
const MERGED_KEYS: usize = 64;

/// Size in bytes above which a merged key is not merged further.
const MAX_MERGED_BYTES: usize = 4 << 20;

/// Number of appends after which `meta.json` is written again.
const META_APPENDS: u64 = 32;

/// Maximum size of one append in bytes.
const MAX_APPEND_BYTES: usize = 128 << 20;

/// Open session in a map.
pub(super) struct MapSession {
    inner: Arc<Inner>,
    id: SessionId,
    cwd: PathBuf,
    notices: Vec<String>,
    state: Mutex<State>,
    is_closed: AtomicBool,
    /// Branch of version control to store with the next entries.
    branch: SyncMutex<Option<String>>,
}

struct State {
    key: SessionKey,
    /// Right to write; `None` before the first append, and once closed.
    hold: Option<Hold>,
    start: Start,
    /// Whether any append is stored.
    is_stored: bool,
    /// Number of the last append.
    last: u64,
    /// Number for the next append; numbers of failed ones are not used again.
    next: u64,
    leaf: Option<EntryId>,
    /// Whether the leaf was ever moved.
    has_moves: bool,
    digest: Digest,
    branch: Option<String>,
    updated_ms: u64,
    /// Number of the last append that `meta.json` includes.
    in_meta: u64,
    /// Keys with appends of this session: those that were never merged, and merged ones.
    levels: [Vec<Chunk>; 2],
}

impl MapSession {
    pub(super) fn planned(inner: Arc<Inner>, id: SessionId, key: SessionKey, new: NewSession) -> Self {
        let NewSession { cwd, parent, .. } = new;
        let start = Start { id: id.clone(), parent, cwd: cwd.clone(), created_ms: 0 };
        let state = State {
            key,
            hold: None,
            start,
            is_stored: false,
            last: 0,
            next: 1,
            leaf: None,
            has_moves: false,
            digest: Digest::default(),
            branch: None,
            updated_ms: 0,
            in_meta: 0,
            levels: [Vec::new(), Vec::new()],
        };
        Self::new(inner, id, cwd, Vec::new(), state)
    }

    pub(super) fn opened(inner: Arc<Inner>, id: SessionId, keys: &Keys, stored: Stored, hold: Hold) -> Self {
        let start = stored.start();
        let mut levels = [Vec::new(), Vec::new()];
        let [single, merged] = &mut levels;
        for chunk in &keys.chunks {
            if chunk.first == chunk.last { single.push(chunk.clone()) } else { merged.push(chunk.clone()) }
        }
        let state = State {
            key: keys.session.clone(),
            hold: Some(hold),
            is_stored: true,
            last: stored.last,
            next: keys.last_append() + 1,
            leaf: stored.leaf(),
            has_moves: stored.has_moves(),
            digest: stored.digest.clone(),
            branch: stored.branch.clone(),
            updated_ms: stored.updated_ms(),
            in_meta: 0,
            levels,
            start: start.clone(),
        };
        Self::new(inner, id, start.cwd, stored.notices, state)
    }

    fn new(inner: Arc<Inner>, id: SessionId, cwd: PathBuf, notices: Vec<String>, state: State) -> Self {
        let (state, branch) = (Mutex::new(state), SyncMutex::default());
        Self { inner, id, cwd, notices, state, is_closed: AtomicBool::new(false), branch }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::Acquire) { Err(closed_error(&self.id)) } else { Ok(()) }
    }

    /// Reads the session up to the last append that this handle made or found.
    async fn read_stored(&self, state: &State) -> Result<Stored, StoreError> {
        if !state.is_stored {
            return Ok(Stored::default());
        }
        let names = self.inner.map.list(&state.key.prefix()).await.map_err(StoreError::from)?;
        let keys = Keys::of(state.key.clone(), names);
        read_session(&*self.inner.map, &keys, Some(state.last)).await
    }

    /// Takes the right to write a session that has no entry yet.
    async fn begin_session(&self, state: &mut State, now_ms: u64) -> Result<(), StoreError> {
        let list = async || -> Result<Keys, StoreError> {
            let names = self.inner.map.list(&state.key.prefix()).await.map_err(StoreError::from)?;
            Ok(Keys::of(state.key.clone(), names))
        };
        let keys = list().await?;
        if keys.is_session() {
            return Err(exists_error(&self.id));
        }
        let hold = self.inner.take_write_hold(&self.id, &keys).await.map_err(|error| match error {
            StoreError::InUse { .. } => exists_error(&self.id),
            other => other,
        })?;
        let keys = list().await?;
        if keys.is_session() {
            hold.release().await;
            return Err(exists_error(&self.id));
        }
        state.next = keys.last_append() + 1;
        state.start.created_ms = now_ms;
        state.hold = Some(hold);
        // These keys are of an earlier session of this id, whose deletion was interrupted.
        for key in keys.content_keys().into_iter().map(str::to_owned).chain(keys.listing_keys()) {
            if !key.ends_with(".lock") {
                self.inner.map.delete(&key).await.map_err(StoreError::from)?;
            }
        }
        self.inner.map.delete(&state.key.deletion_mark_key()).await.map_err(StoreError::from)
    }

    /// Saves an append under the next number. After an error, no later append follows the failed one.
    async fn save_append(
        &self,
        state: &mut State,
        head: Head,
        entries: &[Entry],
    ) -> Result<Chunk, StoreError> {
        let failed = |error: serde_json::Error| StoreError::Failed(format!("cannot write an entry: {error}"));
        loop {
            let Some(hold) = &state.hold else { return Err(closed_error(&self.id)) };
            hold.check().await?;
            let seq = state.next;
            // The number is used up before the save: a caller that is cancelled may leave the append behind.
            state.next += 1;
            let text = write(Head { seq, ..head.clone() }, entries).map_err(failed)?;
            if text.len() > MAX_APPEND_BYTES {
                let (bytes, most) = (text.len(), MAX_APPEND_BYTES);
                return Err(StoreError::Failed(format!(
                    "an append of {bytes} bytes is too large, {most} at most"
                )));
            }
            let key = state.key.turns_key(seq, seq);
            let saved = match hold.is_lease() {
                true => self.inner.map.create(&key, text).await,
                false => self.inner.map.save(&key, text).await.map(|()| Saved::Yes),
            };
            match saved {
                Ok(Saved::Yes) => {
                    // If the lease has ended meanwhile, a new writer may not have seen this append.
                    hold.confirm().await?;
                    return Ok(Chunk { key, first: seq, last: seq });
                }
                // A former writer saved a late append under this number.
                Ok(Saved::Exists) => {}
                Ok(Saved::Unsupported) => {
                    return Err(StoreError::Failed(format!("the map no longer creates keys, such as {key}")));
                }
                Err(error) => {
                    // Nobody needs the failed append; if it stays, no later append follows it.
                    let _ = self.inner.map.delete(&key).await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Writes `meta.json`. Listings read the entries where it is old, so a failure loses nothing.
    async fn write_meta(&self, state: &mut State) {
        let branches = match state.has_moves {
            false => 1,
            true => match self.read_stored(state).await {
                Ok(stored) => count_branches(&stored.entries),
                Err(_) => return,
            },
        };
        let meta = Meta {
            format: FORMAT,
            start: state.start.clone(),
            through: state.last,
            updated_ms: state.updated_ms,
            digest: state.digest.clone(),
            branches,
            branch: state.branch.clone(),
        };
        if let Ok(bytes) = serde_json::to_vec(&meta)
            && self.inner.map.save(&state.key.meta_key(), bytes).await.is_ok()
        {
            state.in_meta = state.last;
        }
    }

    /// Merges the keys of each level once there are [`MERGED_KEYS`]. The old keys are removed after the new one is
    /// saved.
    async fn merge(&self, state: &mut State) {
        for level in 0..state.levels.len() {
            let Some(chunks) = state.levels.get_mut(level).filter(|all| all.len() >= MERGED_KEYS) else {
                continue;
            };
            let chunks = std::mem::take(chunks);
            let merged = self.merge_chunks(&state.key, &chunks).await;
            let upper = state.levels.len() - 1;
            if let (Some(chunk), Some(above)) = (merged, state.levels.get_mut((level + 1).min(upper))) {
                above.push(chunk);
            }
        }
    }

    async fn merge_chunks(&self, key: &SessionKey, chunks: &[Chunk]) -> Option<Chunk> {
        let map = &self.inner.map;
        let (first, last) = (chunks.first()?.first, chunks.last()?.last);
        let mut text = Vec::new();
        let mut whole = Vec::new();
        for chunk in chunks {
            let bytes = map.get(&chunk.key).await.ok()??;
            let parts = parse(&bytes);
            for segment in &parts.segments {
                text.extend_from_slice(segment.text);
            }
            // An incomplete key stays as it is.
            if !parts.is_torn && parts.newer.is_none() && !parts.segments.is_empty() {
                whole.push(&chunk.key);
            }
            if text.len() > MAX_MERGED_BYTES {
                return None;
            }
        }
        let chunk = Chunk { key: key.turns_key(first, last), first, last };
        if map.save(&chunk.key, text).await.is_err() {
            let _ = map.delete(&chunk.key).await;
            return None;
        }
        for key in whole {
            // If an old key stays, its appends are in the map twice and are used once.
            let _ = map.delete(key).await;
        }
        Some(chunk)
    }
}

#[async_trait]
impl OpenSession for MapSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn cwd(&self) -> Option<PathBuf> {
        Some(self.cwd.clone())
    }

    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    fn note_branch(&self, branch: String) {
        *lock(&self.branch) = Some(branch);
    }

    /// Stores for both durabilities alike: a value that was saved is durable.
    async fn append(&self, kinds: Vec<EntryKind>, _: Durability) -> Result<Vec<EntryId>, StoreError> {
        let mut state = self.state.lock().await;
        self.check_open()?;
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let moves = matches!(kinds.first(), Some(EntryKind::Leaf { .. }));
        let known = match moves && state.is_stored {
            true => self.read_stored(&state).await?.entries,
            false => Vec::new(),
        };
        check_leaf(&self.id, &kinds, |wanted| known.iter().any(|entry| entry.id == *wanted))?;
        let now_ms = millis(self.inner.clock.now());
        if state.hold.is_none() {
            self.begin_session(&mut state, now_ms).await?;
        }
        let mut parent = state.leaf.clone();
        let mut entries = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let id = EntryId::fresh();
            let parent = match (&kind, parent.replace(id.clone())) {
                (EntryKind::Leaf { to, .. }, _) => to.clone(),
                (_, before) => before,
            };
            entries.push(Entry { id, parent, time_ms: now_ms, kind });
        }
        let branch = lock(&self.branch).clone();
        let head = Head {
            segment: FORMAT,
            seq: 0,
            after: state.last,
            entries: 0,
            bytes: 0,
            crc: 0,
            start: (!state.is_stored).then(|| state.start.clone()),
            branch: branch.clone(),
        };
        let chunk = self.save_append(&mut state, head, &entries).await?;
        state.last = chunk.last;
        state.leaf = parent;
        state.has_moves |= moves;
        state.updated_ms = now_ms;
        for entry in &entries {
            state.digest.add(&entry.kind);
        }
        if branch.is_some() {
            let mut noted = lock(&self.branch);
            if *noted == branch {
                *noted = None;
            }
            state.branch = branch;
        }
        let [single, _] = &mut state.levels;
        single.push(chunk);
        if !state.is_stored || state.last >= state.in_meta + META_APPENDS {
            state.is_stored = true;
            self.write_meta(&mut state).await;
        }
        self.merge(&mut state).await;
        Ok(entries.into_iter().map(|entry| entry.id).collect())
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let state = self.state.lock().await;
        self.check_open()?;
        Ok(self.read_stored(&state).await?.into_branch())
    }

    async fn scan_tree(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        let stored = {
            let state = self.state.lock().await;
            self.check_open()?;
            self.read_stored(&state).await?
        };
        visit_all(stored.entries, &mut visit);
        Ok(Vec::new())
    }

    async fn close(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if state.is_stored && state.in_meta < state.last {
            self.write_meta(&mut state).await;
        }
        if let Some(hold) = state.hold.take() {
            hold.release().await;
        }
        Ok(())
    }
}
