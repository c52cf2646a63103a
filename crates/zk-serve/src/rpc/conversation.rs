use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_chat::{HostedConversation, HostedEvent};
use zk_core::service::{AnswerError, Conversation as _, FrontEnd, QuestionDigest, QuestionId, UiAnswer};
use zk_view::{BlockId, Drained, Intent, Lines, Patch, Reader, ViewDriver};

use super::journal::Journal;
use super::message::RpcError;
use super::server::RpcServer;
use super::wire::attach::OpenConversation;
use super::wire::refusal::Refusal;

/// Longest wait for the lines of a block.
const BODY_LIMIT: Duration = Duration::from_secs(20);

/// Longest time for closing a conversation.
const CLOSING_LIMIT: Duration = Duration::from_secs(5);

/// Interval between checks whether a conversation has settled.
const SETTLING_STEP: Duration = Duration::from_millis(10);

/// Conversation that clients share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: String,
    pub(super) cwd: PathBuf,
    pub(super) journal: Journal,
    view: ViewDriver,
    /// Waiter for the journal to contain everything in the view.
    written: Drained,
    opened: OnceLock<Opened>,
    /// Senders of pending requests for the lines of a block.
    bodies: Mutex<HashMap<BlockId, Vec<oneshot::Sender<Lines>>>>,
    following: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Opened {
    hosted: Arc<HostedConversation>,
    /// Front end that answers questions for all clients; the first valid answer wins.
    front_end: FrontEnd,
}

impl Shared {
    pub(super) fn new(id: String, cwd: PathBuf, journal: Journal, view: &ViewDriver) -> Arc<Self> {
        let reader = view.reader();
        let shared = Arc::new(Self {
            id,
            cwd,
            journal,
            view: view.clone(),
            written: reader.drained(),
            opened: OnceLock::new(),
            bodies: Mutex::default(),
            following: Mutex::default(),
        });
        shared.spawn(follow_view(Arc::downgrade(&shared), reader));
        shared
    }

    /// Sets the conversation once it is open.
    pub(super) fn set_opened(self: &Arc<Self>, hosted: Arc<HostedConversation>, server: &Arc<RpcServer>) {
        let (front_end, events) = (hosted.questions().attach(), hosted.events());
        // A conversation is opened once.
        let _ = self.opened.set(Opened { hosted, front_end });
        self.spawn(follow_events(Arc::downgrade(self), Arc::downgrade(server), events));
        self.spawn(record_settling(Arc::downgrade(self)));
    }

    /// Returns the conversation; an error before it is open.
    pub(super) fn hosted(&self) -> Result<&Arc<HostedConversation>, RpcError> {
        let opening = || RpcError::failed(format!("the conversation {} is not open yet", self.id));
        Ok(&self.opened.get().ok_or_else(opening)?.hosted)
    }

    pub(super) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    /// Passes a client's intent to the conversation. Returns the number of the last notification before it.
    pub(super) fn intent(&self, intent: &Intent) -> Result<u64, RpcError> {
        let hosted = self.hosted()?;
        let asking = self.journal.begin_request();
        hosted.intent(intent);
        Ok(asking.seq)
    }

    /// Answers a question for a client. The first valid answer wins.
    pub(super) fn answer(
        &self,
        client: &str,
        id: QuestionId,
        digest: QuestionDigest,
        answer: UiAnswer,
    ) -> Result<(), RpcError> {
        let Some(opened) = self.opened.get() else {
            // While the conversation opens, only the view has its questions.
            let is_shown = self
                .journal
                .with_view(|view| view.cards.iter().any(|card| card.id == id && card.digest == digest));
            if !is_shown {
                return Err(refused_answer(&AnswerError::NotPending));
            }
            self.view.intent(&Intent::Answer { id, digest, answer });
            return Ok(());
        };
        opened.front_end.answer(id, digest, answer).map_err(|error| refused_answer(&error))?;
        self.journal.add_notification("conversation/answered", &json!({ "id": id, "client": client }));
        Ok(())
    }

    /// All lines of a block.
    pub(super) async fn body(&self, id: BlockId) -> Result<Lines, RpcError> {
        self.hosted()?;
        let has_body = self.journal.with_view(|view| Some(view.block(&id)?.content.body().is_some()));
        match has_body {
            Some(true) => {}
            Some(false) => return Err(RpcError::field("block", format_args!("the block {id} has no body"))),
            None => return Err(RpcError::field("block", format_args!("there is no block {id}"))),
        }
        let (send, lines) = oneshot::channel();
        self.bodies().entry(id.clone()).or_default().push(send);
        self.view.intent(&Intent::Expand { id: id.clone() });
        match timeout(BODY_LIMIT, lines).await {
            Ok(Ok(lines)) => Ok(lines),
            Ok(Err(_)) | Err(_) => {
                self.bodies().remove(&id);
                Err(RpcError::failed(format!("the block {id} has no lines beside those that it holds")))
            }
        }
    }

    /// Id of the session, once it is stored.
    pub(super) fn session(&self) -> Option<String> {
        let hosted = self.hosted().ok()?;
        hosted.conversation().state().session.map(|id| id.to_string())
    }

    pub(super) fn row(&self) -> OpenConversation {
        let is_running = self.hosted().is_ok_and(|hosted| hosted.agent().is_running());
        OpenConversation {
            conversation: self.id.clone(),
            session: self.session(),
            cwd: self.cwd.display().to_string(),
            is_running,
            seq: self.journal.last(),
        }
    }

    /// Closes the conversation after storing everything.
    pub(super) async fn close(&self) {
        let unsaved = match self.hosted() {
            Ok(hosted) => timeout(CLOSING_LIMIT, hosted.close())
                .await
                .unwrap_or_else(|_| vec!["the conversation did not end in time".to_owned()]),
            Err(_) => Vec::new(),
        };
        for task in std::mem::take(&mut *self.following.lock().unwrap_or_else(PoisonError::into_inner)) {
            task.abort();
        }
        let fields = if unsaved.is_empty() { json!({}) } else { json!({ "unsaved": unsaved }) };
        self.journal.add_final_notification("conversation/closed", &fields);
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.following.lock().unwrap_or_else(PoisonError::into_inner).push(tokio::spawn(work));
    }

    fn bodies(&self) -> MutexGuard<'_, HashMap<BlockId, Vec<oneshot::Sender<Lines>>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply_patch(&self, patch: Patch) {
        match patch {
            Patch::Body { id, lines } => {
                for waiting in self.bodies().remove(&id).unwrap_or_default() {
                    // The caller may be gone.
                    let _ = waiting.send(lines.clone());
                }
            }
            patch => self.journal.add_patch(patch),
        }
    }

    /// Whether no run is in progress and no effect of an intent is pending.
    fn is_idle(&self) -> bool {
        let is_running = self.hosted().is_ok_and(|hosted| hosted.conversation().state().run.is_some());
        !is_running && !self.view.owes_effects()
    }
}

fn refused_answer(error: &AnswerError) -> RpcError {
    let reason = match error {
        AnswerError::NotPending => "not_pending",
        AnswerError::WrongDigest => "wrong_digest",
        AnswerError::NotOffered => "not_offered",
    };
    RpcError::new(Refusal::AnswerRefused, error.to_string()).with(json!({ "reason": reason }))
}

/// Adds the patches of the view to the journal. The view may close and open again between two sessions.
async fn follow_view(shared: Weak<Shared>, mut reader: Reader) {
    loop {
        let patches = reader.next().await;
        let Some(shared) = shared.upgrade() else { return };
        match patches {
            Some(patches) => patches.into_iter().for_each(|patch| shared.apply_patch(patch)),
            None => {
                drop(shared);
                sleep(SETTLING_STEP).await;
            }
        }
    }
}

/// Adds a notification to the journal whenever the conversation has settled.
async fn record_settling(shared: Weak<Shared>) {
    let journal = shared.upgrade().map(|shared| (shared.journal.changes(), shared.journal.asked()));
    let Some((mut changes, asked)) = journal else { return };
    loop {
        let Some(now) = shared.upgrade() else { return };
        // Patches of a run that just ended may not be in the journal yet.
        let was_idle = now.is_idle();
        now.written.wait().await;
        let is_over = now.journal.add_settled_notification(was_idle && now.is_idle());
        drop(now);
        if !is_over {
            sleep(SETTLING_STEP).await;
            continue;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = asked.notified() => {}
        }
    }
}

/// Adds events that the view does not show to the journal, and closes a conversation that ended by itself.
async fn follow_events(
    shared: Weak<Shared>,
    server: Weak<RpcServer>,
    mut events: broadcast::Receiver<HostedEvent>,
) {
    loop {
        let event = events.recv().await;
        let (Some(shared), Some(server)) = (shared.upgrade(), server.upgrade()) else { return };
        match event {
            Ok(HostedEvent::GivenBack(text)) => {
                shared.journal.add_notification("conversation/given_back", &json!({ "text": text }));
            }
            Ok(HostedEvent::Reloaded) | Err(RecvError::Lagged(_)) => {}
            Ok(HostedEvent::Ended) => {
                tokio::spawn(async move { server.close_conversation(&shared.id).await });
                return;
            }
            Err(RecvError::Closed) => return,
        }
    }
}
