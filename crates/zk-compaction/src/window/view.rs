use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::model::{Message, MessageId};
use zk_core::service::WindowPlan;

/// Sent form of one conversation: replaced and omitted messages.
///
/// Stored messages are identified by id, so that a plan survives reloading the conversation. Messages without
/// an id are identified by address, and kept alive by their entry. Each message is always sent with the same
/// bytes.
#[derive(Default)]
pub(crate) struct View {
    /// Messages that are sent in place of stored ones.
    replaced: HashMap<Key, (Arc<Message>, Arc<Message>)>,
    /// Cuts of the conversation; each branch may have its own.
    cuts: Vec<Cut>,
    /// Grows with every change.
    version: u64,
    /// Messages that were sent last.
    last: Last,
}

/// Omitted beginning of a conversation.
struct Cut {
    /// First message after the omitted beginning.
    first: Key,
    /// Reference that keeps a first message without an id alive.
    _first: Option<Arc<Message>>,
    /// Messages that represent the omitted beginning.
    head: Vec<Arc<Message>>,
}

/// Cached sent form of a history, extended as the history grows.
#[derive(Default)]
struct Last {
    version: u64,
    /// Last message of the history that the cache covers, and its number of messages.
    end: Option<(Arc<Message>, usize)>,
    sent: Vec<Arc<Message>>,
    left_out: usize,
}

/// Changes of a plan, by the ids of stored messages; messages without an id are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Messages that are sent in place of stored ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) replaced: Vec<Replaced>,
    /// Omitted beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<StoredCut>,
}

impl Change {
    /// Whether no change can be stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.replaced.is_empty() && self.cut.is_none()
    }

    /// Ids of the stored messages that are replaced.
    pub(crate) fn replaced_ids(&self) -> impl Iterator<Item = &MessageId> {
        self.replaced.iter().map(|replaced| &replaced.id)
    }

    /// First stored message after the omitted beginning.
    pub(crate) fn cut_before(&self) -> Option<&MessageId> {
        self.cut.as_ref().map(|cut| &cut.first)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    id: MessageId,
    with: Arc<Message>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredCut {
    /// First message after the omitted beginning.
    first: MessageId,
    head: Vec<HeadPart>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeadPart {
    /// Stored message, by id, so that the log stores only new ones.
    Stored(MessageId),
    Message(Arc<Message>),
}

/// Reason why a plan cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("its plan names message {index} of {count}")]
    Index { index: usize, count: usize },
    #[error("its plan leaves messages out from {start} to {end}, of {count}")]
    Range { start: usize, end: usize, count: usize },
}

impl View {
    /// Whether the conversation is sent unchanged.
    pub(crate) fn is_whole(&self) -> bool {
        self.cuts.is_empty() && self.replaced.is_empty()
    }

    /// Version of the sent form; a change means that messages sent before have changed.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Sends the conversation unchanged from now on.
    pub(crate) fn clear(&mut self) {
        self.replaced.clear();
        self.cuts.clear();
        self.version += 1;
    }

    /// Messages that are sent for `history`.
    pub(crate) fn sent<'a>(&mut self, history: &'a [Arc<Message>]) -> Cow<'a, [Arc<Message>]> {
        if self.is_whole() {
            return Cow::Borrowed(history);
        }
        self.catch_up(history);
        Cow::Owned(self.last.sent.clone())
    }

    /// Number of messages in `history` that are not sent in any form.
    pub(crate) fn left_out(&mut self, history: &[Arc<Message>]) -> usize {
        if self.is_whole() {
            return 0;
        }
        self.catch_up(history);
        self.last.left_out
    }

    /// Extends the cached sent form to `history`.
    fn catch_up(&mut self, history: &[Arc<Message>]) {
        let goes_on = self.last.version == self.version
            && self.last.end.as_ref().is_some_and(|(end, count)| {
                let same = |at| history.get(at).is_some_and(|now| Arc::ptr_eq(now, end));
                let mut new = history.iter().skip(*count);
                count.checked_sub(1).is_some_and(same) && !new.any(|message| self.is_cut_before(message))
            });
        if goes_on {
            let from = self.last.end.as_ref().map_or(0, |(_, count)| *count);
            let new: Vec<_> = history.iter().skip(from).map(|stored| self.sent_form_of(stored)).collect();
            self.last.sent.extend(new);
        } else {
            let (head, rest) = self.parts(history);
            let sent =
                head.iter().cloned().chain(rest.iter().map(|stored| self.sent_form_of(stored))).collect();
            let gone = history.iter().take(history.len() - rest.len());
            let kept: HashSet<Key> = head.iter().map(Key::of).collect();
            let left_out = gone.filter(|stored| !kept.contains(&Key::of(stored))).count();
            self.last = Last { version: self.version, end: None, sent, left_out };
        }
        self.last.end = history.last().map(|last| (last.clone(), history.len()));
    }

    fn is_cut_before(&self, message: &Arc<Message>) -> bool {
        let key = Key::of(message);
        self.cuts.iter().any(|cut| cut.first == key)
    }

    fn sent_form_of(&self, stored: &Arc<Message>) -> Arc<Message> {
        if self.replaced.is_empty() {
            return stored.clone();
        }
        self.replaced.get(&Key::of(stored)).map_or(stored, |(_, sent)| sent).clone()
    }

    /// Applies `plan` to `history` from now on.
    pub(crate) fn apply(&mut self, history: &[Arc<Message>], plan: WindowPlan) -> Result<Change, PlanError> {
        let count = self.sent(history).len();
        let head = self.parts(history).0.len();
        let before_rest = history.len() - (count - head);
        let range = |start, end| PlanError::Range { start, end, count };
        if let Some((cut, _)) = &plan.cut
            && (cut.start >= cut.end || cut.end >= count)
        {
            return Err(range(cut.start, cut.end));
        }
        if let Some((index, _)) = plan.replace.iter().find(|(index, _)| *index >= count) {
            return Err(PlanError::Index { index: *index, count });
        }
        self.version += 1;
        let mut change = Change::default();
        let stored = |index: usize| history.get(before_rest + index - head);
        let mut head_changed = false;
        for (index, with) in &plan.replace {
            if *index < head {
                let at = self.find_cut(history).map(|(cut, _)| cut);
                let place = at.and_then(|at| self.cuts.get_mut(at)?.head.get_mut(*index));
                if let Some(place) = place {
                    *place = with.clone();
                    head_changed = true;
                }
            } else if let Some(stored) = stored(*index) {
                self.replaced.insert(Key::of(stored), (stored.clone(), with.clone()));
                let of = |id: &MessageId| Replaced { id: id.clone(), with: with.clone() };
                change.replaced.extend(stored.id.as_ref().map(of));
            }
        }
        let (within, beyond) = match plan.cut {
            Some((cut, with)) if cut.end < head => (Some((cut, with)), None),
            cut => (None, cut),
        };
        if let Some((cut, with)) = within {
            let at = self.find_cut(history).map(|(at, _)| at);
            if let Some(of) = at.and_then(|at| self.cuts.get_mut(at)) {
                drop(of.head.splice(cut, with));
                head_changed = true;
            }
        }
        if let Some((cut, with)) = beyond {
            let first = stored(cut.end).ok_or_else(|| range(cut.start, cut.end))?.clone();
            let kept: Vec<_> = self.sent(history).iter().take(cut.start).cloned().collect();
            let head = kept.into_iter().chain(with).collect();
            let new = Cut { first: Key::of(&first), _first: Some(first), head };
            match self.find_cut(history).and_then(|(at, _)| self.cuts.get_mut(at)) {
                Some(cut) => *cut = new,
                None => self.cuts.push(new),
            }
            head_changed = true;
            self.version += 1;
        }
        if head_changed && let Some(cut) = self.find_cut(history).and_then(|(at, _)| self.cuts.get(at)) {
            change.cut = cut.to_stored(history);
        }
        Ok(change)
    }

    /// Applies the stored changes of a plan to a reloaded conversation with the messages `stored`.
    pub(crate) fn replay(&mut self, change: &Change, stored: &HashMap<MessageId, Arc<Message>>) {
        self.version += 1;
        for Replaced { id, with } in &change.replaced {
            self.replaced.insert(Key::Id(id.clone()), (with.clone(), with.clone()));
        }
        let Some(StoredCut { first, head }) = &change.cut else { return };
        let head = head.iter().filter_map(|part| match part {
            HeadPart::Stored(id) => stored.get(id).cloned(),
            HeadPart::Message(message) => Some(message.clone()),
        });
        let new = Cut { first: Key::Id(first.clone()), _first: None, head: head.collect() };
        self.cuts.push(new);
    }

    /// Whether the beginning of `history` is omitted.
    pub(crate) fn has_cut(&self, history: &[Arc<Message>]) -> bool {
        self.find_cut(history).is_some()
    }

    /// Adds messages to those that represent the omitted beginning; `None` without an omitted beginning, or
    /// if they are present.
    pub(crate) fn pin(&mut self, history: &[Arc<Message>], pinned: &[Arc<Message>]) -> Option<Change> {
        let (at, _) = self.find_cut(history)?;
        let cut = self.cuts.get_mut(at)?;
        let before = cut.head.iter().filter(|message| is_pinned(message)).count();
        if before == pinned.len() && cut.head.ends_with(pinned) {
            return None;
        }
        cut.head.retain(|message| !is_pinned(message));
        cut.head.extend(pinned.iter().cloned());
        let cut = cut.to_stored(history);
        self.version += 1;
        Some(Change { cut, ..Change::default() })
    }

    /// Messages that represent the omitted beginning of `history`.
    pub(crate) fn head(&self, history: &[Arc<Message>]) -> &[Arc<Message>] {
        self.find_cut(history).and_then(|(cut, _)| self.cuts.get(cut)).map_or(&[], |cut| &cut.head)
    }

    /// Splits `history` into the messages that represent its beginning and the rest.
    fn parts<'a>(&'a self, history: &'a [Arc<Message>]) -> (&'a [Arc<Message>], &'a [Arc<Message>]) {
        let Some((_, at)) = self.find_cut(history) else { return (&[], history) };
        (self.head(history), history.get(at..).unwrap_or_default())
    }

    /// Finds the cut in `history`, and the number of messages before it.
    fn find_cut(&self, history: &[Arc<Message>]) -> Option<(usize, usize)> {
        if self.cuts.is_empty() {
            return None;
        }
        let firsts: HashMap<&Key, usize> =
            self.cuts.iter().enumerate().map(|(at, cut)| (&cut.first, at)).collect();
        let found = history.iter().enumerate().rev();
        found.filter_map(|(at, message)| Some((*firsts.get(&Key::of(message))?, at))).next()
    }
}

impl Cut {
    /// Stored form of a cut; `None` if the message after the cut has no id.
    fn to_stored(&self, history: &[Arc<Message>]) -> Option<StoredCut> {
        let Key::Id(first) = &self.first else { return None };
        let known: HashSet<&MessageId> = history.iter().filter_map(|message| message.id.as_ref()).collect();
        let part = |message: &Arc<Message>| match &message.id {
            Some(id) if known.contains(id) && self.is_stored_as(message, history) => {
                HeadPart::Stored(id.clone())
            }
            Some(_) | None => HeadPart::Message(message.clone()),
        };
        Some(StoredCut { first: first.clone(), head: self.head.iter().map(part).collect() })
    }

    fn is_stored_as(&self, message: &Arc<Message>, history: &[Arc<Message>]) -> bool {
        history.iter().any(|stored| stored.id == message.id && stored == message)
    }
}

/// Source of a message with pinned content.
pub(crate) const PINNED: &str = "pinned";

/// Whether a message holds pinned content.
pub(crate) fn is_pinned(message: &Arc<Message>) -> bool {
    message.injected_by.as_deref() == Some(PINNED)
}

/// Identity of a stored message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Id(MessageId),
    Address(usize),
}

impl Key {
    fn of(message: &Arc<Message>) -> Self {
        match &message.id {
            Some(id) => Self::Id(id.clone()),
            None => Self::Address(Arc::as_ptr(message).addr()),
        }
    }
}
