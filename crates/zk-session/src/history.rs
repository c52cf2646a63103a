use std::sync::Arc;

use zk_core::model::{Block, EntryId, Message, ModelRef, Role, RunId, ThinkingLevel, ToolContent};
use zk_core::service::{
    Audience, Durability, Entry, EntryKind, LiveEntries, OpenSession, StoreError, StoredConversation,
};

use crate::Recorder;
use crate::open_turn::{CallState, InterruptedCall, InterruptedTurn, OpenTurn};

/// Starting point of a resumed run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The conversation, as it was stored. Whatever cannot be sent is mended at the wire, not here.
    pub messages: Vec<Arc<Message>>,
    /// The model last chosen, or else the one that answered last.
    pub model: Option<ModelRef>,
    /// The thinking level last chosen.
    pub thinking: Option<ThinkingLevel>,
    /// The run that was cut off: it began and no end of it is recorded.
    pub unfinished: Option<RunId>,
    /// The turn that was cut off while its calls ran, if one was. Its pair is the end of `messages`.
    pub interrupted: Option<InterruptedTurn>,
    /// The entries of plugins, oldest first.
    pub custom: Vec<PluginEntry>,
    /// Messages before the last compaction, where they were not read.
    pub earlier: Option<Earlier>,
}

/// The beginning of a conversation that is stored, and was not read because a compaction had left it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Number of its messages.
    pub messages: u64,
    /// The first entry after it.
    pub before: EntryId,
}

/// An entry of a plugin, and where in the conversation it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginEntry {
    /// Number of [`Loaded::messages`] before the entry.
    pub after: usize,
    /// Index among the entries that were loaded, from 0.
    pub entry: usize,
}

/// The resume view of a log: pure, and nothing is run again.
///
/// A turn whose calls were running when the process died becomes a pair like any other: calls that had ended
/// keep their result, and the others say that their outcome is unknown or that they did nothing.
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
    reader.end()
}

/// The resume view of the entries that a conversation goes on from.
#[must_use]
pub fn load_live(live: &LiveEntries) -> Loaded {
    let mut reader = Reader::default();
    for (at, entry) in live.entries.iter().enumerate() {
        if at == live.tail {
            // Whoever looks up an earlier message has it from its entry.
            reader.loaded.messages.clear();
            reader.loaded.custom.iter_mut().for_each(|custom| custom.after = 0);
        }
        reader.add(entry);
    }
    let before = live.begins_at().cloned();
    let earlier = before.map(|before| Earlier { messages: live.earlier, before });
    Loaded { earlier, ..reader.end() }
}

/// Reads entries one after the other.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) loaded: Loaded,
    open: Option<OpenTurn>,
    /// Number of entries.
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
                        loaded.end(turn);
                    }
                    if let Some(origin) = &message.origin {
                        loaded.model = Some(origin.clone());
                    }
                }
                loaded.messages.push(message.clone());
            }
            EntryKind::OpenTurn { turn_id, message, usage } => {
                if let Some(turn) = open.take() {
                    loaded.end(turn);
                }
                *open = Some(OpenTurn::new(turn_id, message, usage));
            }
            EntryKind::CallBegin { .. } | EntryKind::CallEnd { .. } => {
                if let Some(turn) = open {
                    turn.add(&entry.kind);
                }
            }
            EntryKind::CallData { .. } | EntryKind::Usage { .. } => {}
            EntryKind::Model { model } => loaded.model = Some(model.clone()),
            EntryKind::Thinking { level } => loaded.thinking = Some(*level),
            EntryKind::RunStart { run_id } => {
                // The turn of an earlier run that could not be stored as a pair.
                if let Some(turn) = open.take() {
                    loaded.end(turn);
                }
                loaded.unfinished = Some(run_id.clone());
            }
            EntryKind::RunEnd { .. } => loaded.unfinished = None,
            EntryKind::Custom(custom) => {
                loaded.custom.push(PluginEntry { after: loaded.messages.len(), entry: at });
                if custom.audience == Audience::Model {
                    loaded.messages.push(Message::injected(custom.text(), custom.source.as_str()).shared());
                }
            }
        }
    }

    fn end(self) -> Loaded {
        let Self { mut loaded, open, .. } = self;
        loaded.interrupted = open.map(|turn| loaded.end(turn));
        loaded
    }
}

impl Loaded {
    /// Adds the pair of a turn that has none.
    fn end(&mut self, turn: OpenTurn) -> InterruptedTurn {
        let turn = turn.interrupt();
        if let Some(origin) = &turn.message.origin {
            self.model = Some(origin.clone());
        }
        self.messages.extend([turn.message.clone(), turn.results.clone()]);
        turn
    }

    /// Adds what `more` says to the results of calls of the interrupted turn whose outcome is unknown. For a host that knows
    /// more of them than the log; before [`store_interrupted`].
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

async fn resume_live(session: &dyn OpenSession) -> Result<(Loaded, LiveEntries), StoreError> {
    let live = session.live().await?;
    let loaded = load_live(&live);
    store_interrupted(session, &loaded).await?;
    // The pair is among its entries.
    let live = if loaded.interrupted.is_some() { session.live().await? } else { live };
    Ok((loaded, live))
}

/// Returns the history that a session goes on from, with the pair of an interrupted turn stored.
///
/// # Errors
/// As [`OpenSession::entries`] and [`store_interrupted`].
pub async fn resume(session: &dyn OpenSession) -> Result<Loaded, StoreError> {
    Ok(resume_live(session).await?.0)
}

/// The conversation in an open session, new or not, for `AgentBuilder::resume`: an agent goes on with it and stores what
/// comes.
///
/// ```
/// # async fn example(store: &dyn zk_core::service::SessionStore) -> Result<(), zk_core::service::StoreError> {
/// let session = store.open(&"s_1".into()).await?;
/// let stored = zk_session::resume_conversation(session).await?;
/// println!("{} messages", stored.messages.len());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`resume`].
pub async fn resume_conversation(session: Arc<dyn OpenSession>) -> Result<StoredConversation, StoreError> {
    let (loaded, live) = resume_live(&*session).await?;
    Ok(StoredConversation {
        session: session.id().clone(),
        entries: live.entries.into(),
        recorder: Arc::new(Recorder::resuming(session, &loaded)),
        messages: loaded.messages,
    })
}

/// Stores the pair of the interrupted turn in `loaded`, if there is one: from here on it is part of the
/// conversation like any other. Killed before that, the next resume finds the same.
///
/// # Errors
/// [`StoreError`] when it cannot be stored.
pub async fn store_interrupted(session: &dyn OpenSession, loaded: &Loaded) -> Result<(), StoreError> {
    if let Some(turn) = &loaded.interrupted {
        let pair = vec![
            EntryKind::Message { message: turn.message.clone(), usage: Some(turn.usage.clone().into()) },
            EntryKind::Message { message: turn.results.clone(), usage: None },
        ];
        session.append(pair, Durability::Process).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
