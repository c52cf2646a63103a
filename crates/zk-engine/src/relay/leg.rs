use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_core::events::{MessageEnd, StreamStart, StreamText, StreamThinking, ToolAfter, TurnAfter};
use zk_core::kernel::{Bus, Cx, Scope};
use zk_core::model::{SessionId, TurnId};
use zk_core::service::{Job, Redactor, Relay, RelayPiece, RelaySide, RelaySignal};

use crate::runs::Runs;

/// Debounce time of pieces: deltas until then are sent together.
const COLLECT_TIME: Duration = Duration::from_millis(50);

/// Maximum number of bytes of text in one piece; as JSON it may be six times as long.
const MAX_PIECE_BYTES: usize = 1_200;

/// Maximum number of bytes of an answer that are sent. The rest comes with its entry.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Maximum number of bytes of a word that is held back until its end, so that a secret is not cut in two.
const MAX_HELD_BYTES: usize = 512;

/// Pause before the relay is listened to again after a failure.
const LISTEN_PAUSE: Duration = Duration::from_secs(5);

/// A leg's side of the relay: sends pieces of the answer while somebody watches, and hears that the run is to end.
pub(crate) struct LegRelay {
    scope: Scope,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when there is something to send.
    added: Notify,
    aborted: CancellationToken,
}

/// Answer that is being received, and how much of it was sent.
#[derive(Default)]
struct State {
    watched_until: Option<Instant>,
    turn: Option<TurnId>,
    /// Stretches of reasoning and of text, in their order.
    stretches: Vec<Stretch>,
    bytes: usize,
    /// Number of the next piece.
    number: u64,
    has_stored: bool,
}

struct Stretch {
    is_thinking: bool,
    text: String,
    /// Bytes that were sent.
    sent: usize,
}

impl State {
    fn is_watched(&self) -> bool {
        self.watched_until.is_some_and(|until| Instant::now() < until)
    }

    /// Forgets the answer: it is over, or is asked for again.
    fn end_answer(&mut self) {
        (self.turn, self.bytes, self.number) = (None, 0, 0);
        self.stretches.clear();
    }

    /// Has the answer sent again from its beginning, for somebody new.
    fn begin_again(&mut self) {
        self.number = 0;
        self.stretches.iter_mut().for_each(|stretch| stretch.sent = 0);
    }

    fn add(&mut self, turn: &TurnId, is_thinking: bool, delta: &str) {
        if self.turn.as_ref() != Some(turn) {
            self.end_answer();
            self.turn = Some(turn.clone());
        }
        self.bytes += delta.len();
        if self.bytes > MAX_ANSWER_BYTES {
            return;
        }
        match self.stretches.last_mut() {
            Some(last) if last.is_thinking == is_thinking => last.text.push_str(delta),
            Some(_) | None => self.stretches.push(Stretch { is_thinking, text: delta.to_owned(), sent: 0 }),
        }
    }

    /// Takes the signals that are to be sent now.
    fn take(&mut self, redactor: &Redactor) -> Vec<RelaySignal> {
        let mut signals = Vec::new();
        let last = self.stretches.len().saturating_sub(1);
        for (index, stretch) in self.stretches.iter_mut().enumerate() {
            let Some(turn) = &self.turn else { break };
            let fresh = stretch.text.get(stretch.sent..).unwrap_or_default();
            // The last word may go on.
            let fresh = if index == last { whole_words(fresh) } else { fresh };
            stretch.sent += fresh.len();
            let redacted = redactor.redact(fresh);
            let mut rest = &*redacted;
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
                rest = more;
                let (turn, text) = (turn.clone(), piece.to_owned());
                let (number, is_thinking) = (self.number, stretch.is_thinking);
                signals.push(RelaySignal::Piece(RelayPiece { turn, number, is_thinking, text }));
                self.number += 1;
            }
        }
        signals.extend(std::mem::take(&mut self.has_stored).then_some(RelaySignal::Stored));
        signals
    }
}

/// Returns the text up to the end of its last whole word; all of it if the rest is long.
fn whole_words(text: &str) -> &str {
    let end = text.char_indices().rev().find(|(_, char)| char.is_whitespace());
    let end = end.map_or(0, |(at, char)| at + char.len_utf8());
    if text.len() - end > MAX_HELD_BYTES { text } else { text.get(..end).unwrap_or(text) }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the sending task while the run is watched.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        if state.is_watched() {
            self.added.notify_one();
        }
    }
}

impl LegRelay {
    /// Connects the run of `job` on `bus` with those who watch it, if the store of its session has a relay.
    pub(crate) fn start(runs: &Runs, job: &Job, bus: &Bus) -> Option<Self> {
        let relay = runs.store().relay()?;
        let (session, redactor) = (job.session().clone(), runs.redactor().clone());
        let scope = bus.scope("relay");
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            added: Notify::new(),
            aborted: CancellationToken::new(),
        });
        let state = shared.clone();
        scope.on_sync(move |_: &StreamStart, _: &Cx| state.change(State::end_answer));
        let state = shared.clone();
        scope.on_sync(move |ev: &StreamText, _: &Cx| {
            state.change(|state| state.add(&ev.turn_id, false, &ev.delta));
        });
        let state = shared.clone();
        scope.on_sync(move |ev: &StreamThinking, _: &Cx| {
            state.change(|state| state.add(&ev.turn_id, true, &ev.delta));
        });
        let state = shared.clone();
        scope.on_sync(move |_: &MessageEnd, _: &Cx| {
            state.change(|state| {
                state.end_answer();
                state.has_stored = true;
            });
        });
        let state = shared.clone();
        scope.on_sync(move |_: &ToolAfter, _: &Cx| state.change(|state| state.has_stored = true));
        let state = shared.clone();
        scope.on_sync(move |_: &TurnAfter, _: &Cx| state.change(|state| state.has_stored = true));
        scope.spawn(listen(relay.clone(), session.clone(), shared.clone()));
        scope.spawn(send_waiting(relay, session, shared.clone(), redactor));
        Some(Self { scope, shared })
    }

    /// Waits until the run is to end.
    pub(crate) async fn aborted(&self) {
        self.shared.aborted.cancelled().await;
    }

    /// Whether the run is to end.
    pub(crate) fn is_aborted(&self) -> bool {
        self.shared.aborted.is_cancelled()
    }

    /// Ends the leg's side.
    pub(crate) async fn close(self) {
        self.scope.close().await;
    }
}

/// Hears what is sent to the run. Never returns.
async fn listen(relay: Arc<dyn Relay>, session: SessionId, shared: Arc<Shared>) {
    loop {
        if let Ok(mut listener) = relay.listen(&session, RelaySide::Run).await {
            // A signal that is lost leaves a watcher with whole entries for a while.
            let _ = relay.send(&session, &RelaySignal::Begun).await;
            while let Some(signal) = listener.next().await {
                match signal {
                    RelaySignal::Abort => shared.aborted.cancel(),
                    RelaySignal::Watched { is_new } => {
                        shared.state().watched_until = Some(Instant::now() + RelaySignal::WATCH_TIME);
                        shared.change(|state| {
                            if is_new {
                                state.begin_again();
                            }
                        });
                    }
                    RelaySignal::Piece(_) | RelaySignal::Stored | RelaySignal::Begun => {}
                }
            }
        }
        tokio::time::sleep(LISTEN_PAUSE).await;
    }
}

/// Sends the waiting signals, one after another. Never returns.
async fn send_waiting(
    relay: Arc<dyn Relay>,
    session: SessionId,
    shared: Arc<Shared>,
    redactor: Arc<Redactor>,
) {
    loop {
        shared.added.notified().await;
        tokio::time::sleep(COLLECT_TIME).await;
        let signals = shared.state().take(&redactor);
        for signal in signals {
            // A signal that is lost leaves a gap, and the rest comes with the entry.
            let _ = relay.send(&session, &signal).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(state: &mut State) -> Vec<(String, u64, bool, String)> {
        let piece = |signal| match signal {
            RelaySignal::Piece(piece) => {
                (piece.turn.to_string(), piece.number, piece.is_thinking, piece.text)
            }
            other => panic!("{other:?}"),
        };
        state.take(&Redactor::new()).into_iter().map(piece).collect()
    }

    #[test]
    fn pieces_are_numbered_by_answer_and_end_with_words() {
        let mut state = State::default();
        let (one, two): (TurnId, TurnId) = ("t_1".into(), "t_2".into());
        let piece = |turn: &str, number, is_thinking, text: &str| {
            (turn.to_owned(), number, is_thinking, text.to_owned())
        };
        state.add(&one, true, "let me see");
        assert_eq!(pieces(&mut state), [piece("t_1", 0, true, "let me ")]);
        state.add(&one, false, "It is\u{a0}gre");
        let expected = [piece("t_1", 1, true, "see"), piece("t_1", 2, false, "It is\u{a0}")];
        assert_eq!(pieces(&mut state), expected);
        state.add(&one, false, "at. ");
        assert_eq!(pieces(&mut state), [piece("t_1", 3, false, "great. ")]);
        assert_eq!(pieces(&mut state), []);
        // Somebody new gets all of it.
        state.begin_again();
        let again = [piece("t_1", 0, true, "let me see"), piece("t_1", 1, false, "It is\u{a0}great. ")];
        assert_eq!(pieces(&mut state), again);
        state.add(&two, false, &"ä".repeat(1_000));
        let long = [piece("t_2", 0, false, &"ä".repeat(600)), piece("t_2", 1, false, &"ä".repeat(400))];
        assert_eq!(pieces(&mut state), long);
    }

    #[test]
    fn the_end_of_a_long_answer_comes_with_its_entry() {
        let mut state = State::default();
        let turn: TurnId = "t_1".into();
        for _ in 0..3 * MAX_ANSWER_BYTES / 1_024 {
            state.add(&turn, false, &"word ".repeat(200));
        }
        let sent: usize = pieces(&mut state).iter().map(|(.., text)| text.len()).sum();
        assert!(sent > MAX_ANSWER_BYTES / 2 && sent <= MAX_ANSWER_BYTES, "{sent}");
        state.add(&turn, false, "more ");
        assert_eq!(pieces(&mut state), []);
    }

    #[test]
    fn a_secret_in_two_deltas_is_not_sent() {
        let redactor = Redactor::new();
        redactor.learn("sk-very-secret-value-1234");
        let mut state = State::default();
        let turn: TurnId = "t_1".into();
        let mut sent = String::new();
        for delta in ["the key is sk-very-sec", "ret-value-1234", ", keep it"] {
            state.add(&turn, false, delta);
            for signal in state.take(&redactor) {
                let RelaySignal::Piece(piece) = signal else { panic!("{signal:?}") };
                sent.push_str(&piece.text);
            }
        }
        assert!(sent.starts_with("the key is ") && !sent.contains("sk-very"), "{sent}");
    }
}
