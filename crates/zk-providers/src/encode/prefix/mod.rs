//! Request bodies of which only the new end is serialised.
//!
//! The last few bodies are kept with the messages they encode. A history that continues one of them copies
//! its bytes, so the cost of a turn does not grow with the conversation, and the bytes of one request really
//! are a prefix of the next.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zk_core::model::{Message, ToolSpec};
use zk_core::service::Request;

/// Number of cached conversations: an agent and some sub-agents that take turns.
const MAX_CONVERSATIONS: usize = 4;

/// A dialect's encoding of one request, in the order of the bytes.
pub(crate) trait Encode {
    /// Writes everything before the history, up to the `[` of the messages and fixed first messages.
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()>;
    /// Writes one message of the history, as one or several elements; `earlier` are the messages before it.
    fn message(
        &self,
        message: &Message,
        earlier: &[Arc<Message>],
        marked: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()>;
    /// Writes everything after the history, which may change from one request to the next.
    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()>;
    /// Whether the message `at` carries a cache mark that it will lose in later requests.
    fn is_marked(&self, at: usize, history: &[Arc<Message>]) -> bool;
}

/// Inputs that determine the head of a body.
#[derive(Debug, Clone)]
pub(crate) struct PrefixKey {
    model: String,
    system: Arc<str>,
    tools: Arc<[Arc<ToolSpec>]>,
    cache: bool,
}

impl PrefixKey {
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            model: request.model.id.clone(),
            system: request.system.clone(),
            tools: request.tools.clone(),
            cache: request.cache,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.model == other.model
            && self.cache == other.cache
            && (Arc::ptr_eq(&self.system, &other.system) || self.system == other.system)
            && (Arc::ptr_eq(&self.tools, &other.tools) || self.tools == other.tools)
    }
}

/// Cache of the bodies of the last requests.
#[derive(Default)]
pub(crate) struct PrefixCache {
    recent: Mutex<VecDeque<Arc<Encoded>>>,
}

struct Encoded {
    head: PrefixKey,
    body: Bytes,
    head_end: usize,
    /// Messages whose bytes can be reused, each with the offset of its end.
    messages: Vec<(Arc<Message>, usize)>,
}

impl Encoded {
    /// Returns the number of leading messages of `history` that this body contains.
    fn count_shared(&self, history: &[Arc<Message>]) -> usize {
        let same = |(mine, theirs): &(&(Arc<Message>, usize), &Arc<Message>)| {
            Arc::ptr_eq(&mine.0, theirs) || mine.0 == **theirs
        };
        self.messages.iter().zip(history).take_while(same).count()
    }

    /// Returns the bytes of the first `count` messages.
    fn bytes(&self, count: usize) -> &[u8] {
        let end = count.checked_sub(1).and_then(|last| self.messages.get(last)).map(|(_, end)| *end);
        self.body.get(self.head_end..end.unwrap_or(self.head_end)).unwrap_or_default()
    }
}

/// A new body, filled up to the messages that could be reused.
struct Begun {
    out: Vec<u8>,
    head_end: usize,
    messages: Vec<(Arc<Message>, usize)>,
}

impl Begun {
    /// Continues a cached body in place: reuses its memory if nothing else refers to it.
    fn of(kept: Arc<Encoded>) -> Self {
        let (body, head_end, messages) = match Arc::try_unwrap(kept) {
            Ok(kept) => (kept.body, kept.head_end, kept.messages),
            Err(kept) => (kept.body.clone(), kept.head_end, kept.messages.clone()),
        };
        let mut out = Vec::from(body);
        out.truncate(messages.last().map_or(head_end, |(_, end)| *end));
        Self { out, head_end, messages }
    }

    /// Starts a separate body with the first `shared` messages copied from a cached one.
    fn copying(
        kept: Option<&Encoded>,
        shared: usize,
        head: &PrefixKey,
        count: usize,
        encode: &impl Encode,
    ) -> serde_json::Result<Self> {
        // The size of the cached body is the best estimate for this one.
        let mut out = Vec::with_capacity(kept.map_or(0, |kept| kept.body.len()) + 1024);
        match kept.filter(|kept| kept.head.is_same(head)) {
            Some(kept) => out.extend_from_slice(kept.body.get(..kept.head_end).unwrap_or_default()),
            None => encode.head(&mut out)?,
        }
        let head_end = out.len();
        let mut messages = Vec::with_capacity(count);
        if let Some(kept) = kept {
            let bytes = kept.bytes(shared);
            // The head decides about a separating comma, since it may end with a message.
            let bare = bytes.strip_prefix(b",").unwrap_or(bytes);
            if !bare.is_empty() && out.last() != Some(&b'[') {
                out.push(b',');
            }
            let (from, to) = (kept.head_end + bytes.len() - bare.len(), out.len());
            out.extend_from_slice(bare);
            let moved = |end: usize| end.saturating_sub(from) + to;
            messages.extend(
                kept.messages.iter().take(shared).map(|(message, end)| (message.clone(), moved(*end))),
            );
        }
        Ok(Self { out, head_end, messages })
    }
}

impl PrefixCache {
    /// Returns the body of a request with this `head` and `history`.
    pub(crate) fn body(
        &self,
        head: PrefixKey,
        history: &[Arc<Message>],
        encode: &impl Encode,
    ) -> serde_json::Result<Bytes> {
        let recent: Vec<_> = self.recent().iter().cloned().collect();
        let unmarked = (0..history.len()).take_while(|at| !encode.is_marked(*at, history)).count();
        let found = recent
            .iter()
            .filter(|kept| kept.head.model == head.model)
            .map(|kept| (kept.count_shared(history).min(unmarked), kept))
            .max_by_key(|(shared, _)| *shared);
        let (shared, kept) = found.map_or((0, None), |(shared, kept)| (shared, Some(kept.clone())));
        drop(recent);
        let is_continued = |kept: &Arc<Encoded>| shared > 0 && shared == kept.messages.len();
        let continued = kept.as_ref().filter(|kept| is_continued(kept)).cloned();
        if let Some(continued) = &continued {
            self.recent().retain(|kept| !Arc::ptr_eq(continued, kept));
        }
        let Begun { mut out, head_end, mut messages } = match (kept, continued) {
            (Some(kept), Some(continued)) if kept.head.is_same(&head) => {
                drop(kept);
                Begun::of(continued)
            }
            (kept, _) => Begun::copying(kept.as_deref(), shared, &head, history.len(), encode)?,
        };
        for (at, message) in history.iter().enumerate().skip(shared) {
            if out.last() != Some(&b'[') {
                out.push(b',');
            }
            let before = out.len();
            let marked = encode.is_marked(at, history);
            encode.message(message, history.get(..at).unwrap_or_default(), marked, &mut out)?;
            if out.len() == before && out.last() == Some(&b',') {
                out.pop();
            }
            if at == messages.len() && !marked {
                messages.push((message.clone(), out.len()));
            }
        }
        encode.tail(&mut out)?;
        let body = Bytes::from(out);
        self.insert(Encoded { head, body: body.clone(), head_end, messages });
        Ok(body)
    }

    /// Caches a body, and drops the oldest if there are too many.
    fn insert(&self, encoded: Encoded) {
        let mut recent = self.recent();
        recent.truncate(MAX_CONVERSATIONS - 1);
        recent.push_front(Arc::new(encoded));
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Encoded>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
