//! Text of sub-agents, stored in their parent's session as it arrives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use zk_core::events::{AgentDone, SessionMessages, SessionOpenTurn, SpawnBefore, StreamStart, StreamText};
use zk_core::kernel::{Answer, Cx, Handler, Reach, Scope};
use zk_core::model::{Message, Role};
use zk_core::service::{Durability, EntryKind, Redactor, StoreError, SubAgentEntry, SubAgentStep};

use super::log::Log;
use super::redact::redact_entry;

/// Shortest time between two appends of arriving text, which bounds the number of entries.
const PIECE_PAUSE: Duration = Duration::from_millis(500);

/// Longest first line of a task in an entry, in characters.
const MAX_TASK_CHARS: usize = 200;

/// Stores the beginning, the arriving text and the answers of sub-agents at all depths.
pub(super) struct SubAgents {
    log: Arc<Log>,
    /// Depth of the session's own agent.
    depth: u32,
    /// Text of each sub-agent that is not stored yet.
    arriving: Mutex<BTreeMap<String, Arriving>>,
    /// Notifies the task that stores text of new text, and of the end.
    has_text: Arc<Notify>,
}

struct Arriving {
    redactor: Option<Arc<Redactor>>,
    text: String,
    /// Whether nothing of the present answer is stored.
    is_first: bool,
}

impl SubAgents {
    /// Registers the handlers, and the task that stores arriving text.
    pub(super) fn register(log: Arc<Log>, scope: &Scope) {
        let this = Arc::new(Self {
            log,
            depth: scope.bus().map_or(0, |bus| bus.origin().depth),
            arriving: Mutex::default(),
            has_text: Arc::default(),
        });
        scope.handle_at::<SpawnBefore, _>(Reach::Descendants, this.clone());
        scope.handle_at::<SessionMessages, _>(Reach::Descendants, this.clone());
        scope.handle_at::<SessionOpenTurn, _>(Reach::Descendants, this.clone());
        let started = this.clone();
        scope.on_sync_at(Reach::Descendants, move |_: &StreamStart, cx: &Cx| started.begin_answer(cx));
        let grown = this.clone();
        scope.on_sync_at(Reach::Descendants, move |piece: &StreamText, cx: &Cx| {
            if cx.origin().depth != grown.depth {
                grown.add_text(&cx.origin().agent, &piece.delta);
            }
        });
        let ended = this.clone();
        scope.on_sync_at(Reach::Descendants, move |_: &AgentDone, cx: &Cx| {
            // Text that an aborted answer left.
            ended.lock_arriving().remove(&*cx.origin().agent);
        });
        // An agent that is dropped without being closed gives its session up, so the task holds neither.
        scope.spawn(store_pieces(Arc::downgrade(&this), this.has_text.clone()));
    }

    fn begin_answer(&self, cx: &Cx) {
        if cx.origin().depth != self.depth {
            let redactor = cx.service::<Redactor>();
            let arriving = Arriving { redactor, text: String::new(), is_first: true };
            self.lock_arriving().insert(cx.origin().agent.to_string(), arriving);
        }
    }

    fn add_text(&self, agent: &str, delta: &str) {
        if let Some(arriving) = self.lock_arriving().get_mut(agent) {
            arriving.text.push_str(delta);
            self.has_text.notify_one();
        }
    }

    /// Queues the arrived text of all sub-agents; false if there is none.
    fn queue_pieces(&self) -> bool {
        let mut arriving = self.lock_arriving();
        let pieces: Vec<EntryKind> = arriving
            .iter_mut()
            .filter_map(|(agent, arriving)| {
                let (text, is_first) = (arriving.take_words()?, std::mem::take(&mut arriving.is_first));
                Some(entry(agent, SubAgentStep::Grew { text, is_first }, arriving.redactor.as_deref()))
            })
            .collect();
        let has_pieces = !pieces.is_empty();
        // Queued under the lock, so that a piece cannot follow its answer.
        self.log.queue().entries.extend(pieces);
        has_pieces
    }

    /// Stores the text of an answer in place of its pieces.
    async fn store_answer(&self, message: &Message, cx: &Cx) -> Result<(), StoreError> {
        let agent = &*cx.origin().agent;
        let text = message.text();
        {
            let mut arriving = self.lock_arriving();
            arriving.remove(agent);
            if text.trim().is_empty() {
                return Ok(());
            }
            let said = entry(agent, SubAgentStep::Said { text }, cx.service::<Redactor>().as_deref());
            self.log.queue().entries.push(said);
        }
        self.log.flush(Durability::Process).await
    }

    fn lock_arriving(&self) -> MutexGuard<'_, BTreeMap<String, Arriving>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SubAgents {
    fn drop(&mut self) {
        self.has_text.notify_one();
    }
}

/// Stores arriving text until the scope ends or the session is given up. A failed append is repeated with the next one of
/// the session, which reports it.
async fn store_pieces(sub_agents: Weak<SubAgents>, has_text: Arc<Notify>) {
    loop {
        has_text.notified().await;
        let Some(this) = sub_agents.upgrade() else { return };
        if this.queue_pieces() {
            let _ = this.log.flush(Durability::Process).await;
            drop(this);
            tokio::time::sleep(PIECE_PAUSE).await;
        }
    }
}

/// Entry of a step, without secrets if there is a redactor.
fn entry(agent: &str, step: SubAgentStep, redactor: Option<&Redactor>) -> EntryKind {
    let entry = EntryKind::Custom(SubAgentEntry { agent: agent.to_owned(), step }.stored());
    match redactor {
        Some(redactor) => redact_entry(entry, redactor),
        None => entry,
    }
}

impl Arriving {
    /// Takes the text up to the last complete word, since half of a secret would not be recognised as one.
    fn take_words(&mut self) -> Option<String> {
        let (at, space) = self.text.char_indices().rfind(|(_, char)| char.is_whitespace())?;
        let rest = self.text.split_off(at + space.len_utf8());
        Some(std::mem::replace(&mut self.text, rest))
    }
}

impl Handler<SpawnBefore> for SubAgents {
    async fn call(&self, ev: &SpawnBefore, cx: &Cx) -> Answer<SpawnBefore> {
        let task = ev.prompt.lines().next().unwrap_or_default().chars().take(MAX_TASK_CHARS).collect();
        let (parent, call_id) = (cx.origin().agent.to_string(), ev.call_id.clone());
        let began = SubAgentStep::Began { parent, call_id, task };
        let began = entry(&ev.child, began, cx.service::<Redactor>().as_deref());
        self.log.write(vec![began], Durability::Process).await?;
        Ok(None)
    }
}

impl Handler<SessionMessages> for SubAgents {
    async fn call(&self, ev: &SessionMessages, cx: &Cx) -> Answer<SessionMessages> {
        let answer = ev.messages.iter().rfind(|message| message.role == Role::Assistant);
        if let Some(answer) = answer.filter(|_| cx.origin().depth != self.depth) {
            self.store_answer(answer, cx).await?;
        }
        Ok(None)
    }
}

impl Handler<SessionOpenTurn> for SubAgents {
    async fn call(&self, ev: &SessionOpenTurn, cx: &Cx) -> Answer<SessionOpenTurn> {
        if cx.origin().depth != self.depth {
            self.store_answer(&ev.message, cx).await?;
        }
        Ok(None)
    }
}
