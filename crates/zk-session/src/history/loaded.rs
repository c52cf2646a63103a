//! Conversation rebuilt from the entries of a log. No session is opened, read or written here.

use std::sync::Arc;

use zk_core::model::{Block, EntryId, Message, ModelRef, Role, RunId, ThinkingLevel, ToolContent};
use zk_core::service::{Audience, Entry, EntryKind, LiveEntries};

use super::open_turn::{CallState, InterruptedCall, InterruptedTurn, OpenTurn};

/// State from which a resumed run starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Messages of the conversation, as stored. Messages that a provider would reject are repaired when they
    /// are sent.
    pub messages: Vec<Arc<Message>>,
    /// Model that was chosen last; without a choice, the model that answered last.
    pub model: Option<ModelRef>,
    /// Thinking level that was chosen last.
    pub thinking: Option<ThinkingLevel>,
    /// Unfinished run: its start is recorded, and no end.
    pub unfinished: Option<RunId>,
    /// Turn that was interrupted while its calls ran, if any. Its answer and results are the last two
    /// `messages`.
    pub interrupted: Option<InterruptedTurn>,
    /// Plugin entries, oldest first.
    pub custom: Vec<PluginEntry>,
    /// Messages before the last compaction, if they were not loaded.
    pub earlier: Option<Earlier>,
}

/// Beginning of a conversation that is stored but not loaded, because a compaction left it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Number of messages in the part that was not loaded.
    pub messages: u64,
    /// First loaded entry.
    pub before: EntryId,
}

/// Plugin entry with its position in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginEntry {
    /// Number of [`Loaded::messages`] before the entry.
    pub after: usize,
    /// Index among the loaded entries, from 0.
    pub entry: usize,
}

/// Rebuilds the conversation from the entries of a log. Pure: no call is repeated.
///
/// A turn whose calls were running when the process died gets a complete message of results: finished calls
/// keep their result, the others say that their outcome is unknown or that they did not run.
///
/// ```
/// use zk_core::model::{Message, ModelRef};
/// use zk_core::service::{Entry, EntryKind};
/// use zk_session::load_history;
///
/// let kinds = [
///     EntryKind::Message { message: Message::user_text("hello").shared(), usage: None },
///     EntryKind::Model { model: ModelRef::new("anthropic", "m") },
/// ];
/// let entries: Vec<Entry> = kinds
///     .into_iter()
///     .map(|kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind })
///     .collect();
/// let loaded = load_history(&entries);
/// assert_eq!(loaded.messages[0].text(), "hello");
/// assert_eq!(loaded.model, Some(ModelRef::new("anthropic", "m")));
/// ```
#[must_use]
pub fn load_history(entries: &[Entry]) -> Loaded {
    let mut reader = Reader::default();
    entries.iter().for_each(|entry| reader.add(entry));
    reader.finish()
}

/// Rebuilds the conversation from the entries that [`OpenSession::live`](zk_core::service::OpenSession::live) returns.
#[must_use]
pub fn load_live(live: &LiveEntries) -> Loaded {
    let mut reader = Reader::default();
    for (at, entry) in live.entries.iter().enumerate() {
        if at == live.tail {
            // Earlier messages are looked up through their entries, not here.
            reader.loaded.messages.clear();
            reader.loaded.custom.iter_mut().for_each(|custom| custom.after = 0);
        }
        reader.add(entry);
    }
    let before = live.begins_at().cloned();
    let earlier = before.map(|before| Earlier { messages: live.earlier, before });
    Loaded { earlier, ..reader.finish() }
}

/// Incremental form of [`load_history`].
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) loaded: Loaded,
    open: Option<OpenTurn>,
    /// Number of entries read so far.
    entries: usize,
}

impl Reader {
    pub(crate) fn add(&mut self, entry: &Entry) {
        let Self { loaded, open, entries } = self;
        let at = *entries;
        *entries += 1;
        match &entry.kind {
            EntryKind::Message { message, usage } => {
                if message.role == Role::Assistant {
                    if let Some(turn) =
                        open.take().filter(|turn| !turn.is_closed_by(message, usage.as_deref()))
                    {
                        loaded.complete_turn(turn);
                    }
                    if let Some(origin) = &message.origin {
                        loaded.model = Some(origin.clone());
                    }
                }
                loaded.messages.push(message.clone());
            }
            EntryKind::OpenTurn { turn_id, message, usage } => {
                if let Some(turn) = open.take() {
                    loaded.complete_turn(turn);
                }
                *open = Some(OpenTurn::new(turn_id, message, usage));
            }
            EntryKind::CallBegin { .. } | EntryKind::CallEnd { .. } => {
                if let Some(turn) = open {
                    turn.add(&entry.kind);
                }
            }
            EntryKind::CallData { .. } | EntryKind::Usage { .. } | EntryKind::Label { .. } => {}
            EntryKind::Model { model } => loaded.model = Some(model.clone()),
            EntryKind::Thinking { level } => loaded.thinking = Some(*level),
            EntryKind::RunStart { run_id } => {
                // Turn of an earlier run whose results were never stored.
                if let Some(turn) = open.take() {
                    loaded.complete_turn(turn);
                }
                loaded.unfinished = Some(run_id.clone());
            }
            EntryKind::RunEnd { .. } => loaded.unfinished = None,
            EntryKind::Leaf { .. } => {
                // The run went on, or was interrupted, on the branch that was left.
                if let Some(turn) = open.take() {
                    loaded.complete_turn(turn);
                }
                loaded.unfinished = None;
            }
            EntryKind::Custom(custom) => {
                loaded.custom.push(PluginEntry { after: loaded.messages.len(), entry: at });
                if custom.audience == Audience::Model {
                    loaded.messages.push(Message::injected(custom.text(), custom.source.as_str()).shared());
                }
            }
        }
    }

    fn finish(self) -> Loaded {
        let Self { mut loaded, open, .. } = self;
        loaded.interrupted = open.map(|turn| loaded.complete_turn(turn));
        loaded
    }
}

impl Loaded {
    /// Adds an answer and its results for a turn that has no stored results.
    fn complete_turn(&mut self, turn: OpenTurn) -> InterruptedTurn {
        let turn = turn.interrupt();
        if let Some(origin) = &turn.message.origin {
            self.model = Some(origin.clone());
        }
        self.messages.extend([turn.message.clone(), turn.results.clone()]);
        turn
    }

    /// Adds the text of `more` to results of interrupted calls whose outcome is unknown, for a host that
    /// knows more about them than the log. Call it before [`store_interrupted`](crate::store_interrupted).
    pub fn explain_unknown(&mut self, more: impl Fn(&InterruptedCall) -> Option<String>) {
        let Some(turn) = &mut self.interrupted else { return };
        let mut results = Message::clone(&turn.results);
        for (block, call) in results.content.iter_mut().zip(&turn.calls) {
            if call.state == CallState::OutcomeUnknown
                && let Block::ToolResult(result) = block
                && let Some(more) = more(call)
            {
                result.content = ToolContent::Text(format!("{}\n{more}", result.content.to_text()));
            }
        }
        turn.results = results.shared();
        if let Some(last) = self.messages.last_mut() {
            *last = turn.results.clone();
        }
    }
}

#[cfg(test)]
mod tests;
