use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zk_core::kernel::Cx;
use zk_core::model::{Block, CallId, ErrorKind, Message, Phase, ProviderError, Role, StopReason};
use zk_core::service::{BlockWriter, QUERY_CONTEXT, Request, StreamEvent, TurnCwd, is_said};

use crate::error::ExtensionError;
use crate::extension::Shared;
use crate::protocol::{BackendReply, BackendText, BackendTurn, OfferedTool};

/// Memory of a queued piece in addition to its text, in bytes.
const PIECE_BYTES: usize = 64;

/// Longest text of one turn, in bytes.
const MAX_TURN_BYTES: usize = 8 << 20;
/// Most calls of one turn.
const MAX_CALLS: usize = 100;

/// Turns in progress, by id.
#[derive(Default)]
pub(crate) struct OpenTurns {
    last: AtomicU64,
    open: Mutex<HashMap<String, OpenTurn>>,
}

struct OpenTurn {
    said: mpsc::UnboundedSender<BackendText>,
    bytes: usize,
}

impl OpenTurns {
    /// Passes a piece of an answer to its turn; dropped if the turn is not open.
    pub(crate) fn pass_text(&self, text: BackendText) {
        let mut open = self.lock();
        // Beyond the limit, further text is dropped, and the turn fails when its reader gets there.
        let Some(turn) = open.get_mut(&text.turn).filter(|turn| turn.bytes <= MAX_TURN_BYTES) else { return };
        turn.bytes += text.text.len() + PIECE_BYTES;
        // The reader may be gone.
        let _ = turn.said.send(text);
    }

    fn begin(&self) -> (String, mpsc::UnboundedReceiver<BackendText>) {
        let id = format!("t{}", self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, said) = mpsc::unbounded_channel();
        self.lock().insert(id.clone(), OpenTurn { said: sender, bytes: 0 });
        (id, said)
    }

    fn end(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenTurn>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One turn of a backend as a response. Dropping it cancels the request to the extension.
pub(crate) struct Turn {
    shared: Arc<Shared>,
    backend: String,
    model: String,
    id: String,
    said: mpsc::UnboundedReceiver<BackendText>,
    /// Request to the extension, in its own task, since pieces of the answer arrive in parallel.
    asking: JoinHandle<Result<BackendReply, ExtensionError>>,
    answer: BlockWriter,
    bytes: usize,
    is_over: bool,
}

impl Turn {
    pub(crate) fn begin(shared: Arc<Shared>, backend: String, request: Request, cx: Cx) -> Self {
        let (id, said) = shared.turns.begin();
        let model = request.model.id.to_string();
        let asking = tokio::spawn(send_request(shared.clone(), backend.clone(), id.clone(), request, cx));
        let mut answer = BlockWriter::new(None);
        answer.start();
        Self { shared, backend, model, id, said, asking, answer, bytes: 0, is_over: false }
    }

    /// Returns the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.answer.next_event() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            tokio::select! {
                // Pieces that arrived before the reply are handled first.
                biased;
                Some(piece) = self.said.recv() => self.add_piece(piece.thought, piece.text),
                reply = &mut self.asking => {
                    while let Ok(piece) = self.said.try_recv() {
                        self.add_piece(piece.thought, piece.text);
                    }
                    match reply {
                        Ok(Ok(reply)) => self.finish(reply),
                        Ok(Err(error)) => self.fail(&error),
                        // Never happens: the task is aborted only when this turn is dropped.
                        Err(_) => self.fail(&ExtensionError::Stopped { name: self.shared.name().to_owned() }),
                    }
                }
            }
        }
    }

    fn add_piece(&mut self, is_thought: bool, delta: String) {
        self.bytes += delta.len() + PIECE_BYTES;
        if delta.is_empty() || self.is_over {
            return;
        }
        if self.bytes > MAX_TURN_BYTES {
            let reason = format!("its answer has more than {} MB", MAX_TURN_BYTES >> 20);
            return self.fail(&ExtensionError::Failed { name: self.shared.name().to_owned(), reason });
        }
        if is_thought {
            self.answer.add_thinking(delta);
        } else {
            self.answer.add_text(delta);
        }
    }

    fn finish(&mut self, reply: BackendReply) {
        let BackendReply { text, calls, usage } = reply;
        self.add_piece(false, text);
        if self.is_over {
            return;
        }
        if calls.len() > MAX_CALLS {
            let reason = format!("it wants {} calls in one turn, and {MAX_CALLS} are the most", calls.len());
            return self.fail(&ExtensionError::Failed { name: self.shared.name().to_owned(), reason });
        }
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        for call in calls {
            self.answer.add_call(CallId::fresh(), call.tool, Value::Object(call.args));
        }
        self.answer.finish(stop, usage.unwrap_or_default());
        self.is_over = true;
    }

    fn fail(&mut self, error: &ExtensionError) {
        let kind = match error {
            ExtensionError::NoExec { .. } | ExtensionError::Down { .. } => ErrorKind::Transport,
            ExtensionError::TimedOut { .. } => ErrorKind::Stalled,
            ExtensionError::Answer { .. } => ErrorKind::Malformed,
            ExtensionError::Stopped { .. } => ErrorKind::Aborted,
            ExtensionError::TooLong { .. }
            | ExtensionError::Unwritable { .. }
            | ExtensionError::Failed { .. }
            | ExtensionError::Unguarded { .. } => ErrorKind::Rejected,
        };
        let next = match error {
            ExtensionError::Stopped { .. } => "",
            _ => ". Send the prompt again, or go on with another agent: /backend",
        };
        let message = format!("{error}{next}");
        let error = ProviderError::new(kind, &*self.backend, &*self.model, Phase::Stream, message);
        self.answer.fail(error);
        self.is_over = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Aborting the request also cancels it at the extension.
        self.asking.abort();
        self.shared.turns.end(&self.id);
    }
}

async fn send_request(
    shared: Arc<Shared>,
    backend: String,
    turn: String,
    request: Request,
    cx: Cx,
) -> Result<BackendReply, ExtensionError> {
    let history = request.history.messages();
    let tools = request.tools.iter().map(|tool| OfferedTool {
        name: &tool.name,
        description: &tool.description,
        schema: &tool.schema,
    });
    let origin = cx.origin();
    let session = request.session.as_deref().map(|session| match origin.depth {
        0 => session.to_owned(),
        _ => format!("{session}/{}", origin.agent),
    });
    let params = BackendTurn {
        backend: &backend,
        turn,
        run: cx.run_id(),
        session,
        model: &request.model.id,
        cwd: TurnCwd::of(&cx),
        prompt: said_since(history),
        system: &request.system,
        tools: tools.collect(),
        messages: history.iter().map(|message| &**message).collect(),
    };
    let reply = shared.request("backend/turn", params, shared.config.limits.call, &cx).await?;
    shared.read("backend/turn", reply)
}

/// Returns the text of the messages since the last answer.
fn said_since(history: &[Arc<Message>]) -> String {
    let is_answer = |message: &Arc<Message>| message.role == Role::Assistant;
    let from = history.iter().rposition(is_answer).map_or(0, |at| at + 1);
    let behind = history.get(from..).unwrap_or_default().iter();
    let said = behind.filter(|message| message.injected_by.as_deref() != Some(QUERY_CONTEXT));
    let blocks = said.flat_map(|message| &message.content).filter(|block| is_said(block));
    blocks.filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_the_text_since_the_last_answer_without_context() {
        let history = [
            Message::user_text("first"),
            Message::assistant(vec![Block::text("answer")]),
            Message::user(vec![Block::result("c", "done", false)]),
            Message::injected("<query_context>x</query_context>", QUERY_CONTEXT),
            Message::user(vec![Block::text("<dynamic_context>now</dynamic_context>"), Block::text("second")]),
        ];
        let history = history.map(|message| message.identified().shared());
        assert_eq!(said_since(&history), "second");
        assert_eq!(said_since(&history[..3]), "");
        assert_eq!(said_since(&history[..1]), "first");
    }

    #[test]
    fn a_piece_for_a_turn_that_is_over_is_dropped() {
        let turns = OpenTurns::default();
        let (id, mut said) = turns.begin();
        let piece = BackendText { turn: id.clone(), text: "a".to_owned(), thought: false };
        turns.pass_text(piece.clone());
        assert_eq!(said.try_recv().unwrap(), piece);
        turns.end(&id);
        turns.pass_text(piece);
        assert!(said.try_recv().is_err());
    }
}
