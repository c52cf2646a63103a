use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::model::{SessionId, TurnId};
use zk_core::service::{Relay, RelayListener, RelayPiece, RelaySide, RelaySignal, SessionStore};

/// Interval at which a watcher says that it is there.
const WATCHED_INTERVAL: Duration = Duration::from_secs(10);

/// Pause before the relay is listened to again after a failure.
const LISTEN_PAUSE: Duration = Duration::from_secs(5);

/// Watcher of a run: tells when to look at its entries, and gives the answer that is on its way where the store has a
/// [`Relay`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use zk_core::service::{RelaySignal, SessionStore};
/// use zk_engine::{LiveUpdate, RunWatch};
/// use zk_session::MemoryStore;
///
/// let store = MemoryStore::new();
/// let mut watch = RunWatch::new(&store, "s_1".into());
/// // Without a signal, after the pause.
/// assert_eq!(watch.next(Duration::from_millis(1)).await, LiveUpdate::Look);
/// # });
/// ```
pub struct RunWatch {
    relay: Option<Arc<dyn Relay>>,
    session: SessionId,
    listener: Option<RelayListener>,
    /// Whether the run was told of this watcher.
    is_known: bool,
    /// Time of the next attempt to listen, or of the next word that somebody watches.
    due: Instant,
    /// Answer on its way, with the number of its next piece; `None` after a gap.
    answer: Option<(TurnId, u64)>,
}

/// Update of a run that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveUpdate {
    /// The state and the entries of the run may have changed.
    Look,
    /// More of the answer that is on its way. A piece with the number 0 begins it, perhaps anew.
    Piece(RelayPiece),
}

impl fmt::Debug for RunWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWatch").field("session", &self.session).finish_non_exhaustive()
    }
}

impl RunWatch {
    /// Creates a watcher of the run that has a session of `store`.
    #[must_use]
    pub fn new(store: &dyn SessionStore, session: SessionId) -> Self {
        Self {
            relay: store.relay(),
            session,
            listener: None,
            is_known: false,
            due: Instant::now(),
            answer: None,
        }
    }

    /// Waits for an update, for at most `pause`.
    pub async fn next(&mut self, pause: Duration) -> LiveUpdate {
        let end = Instant::now() + pause;
        loop {
            if Instant::now() >= self.due {
                self.keep_listening().await;
            }
            let signal = async {
                match &mut self.listener {
                    Some(listener) => listener.next().await,
                    None => std::future::pending().await,
                }
            };
            match tokio::time::timeout_at(end, signal).await {
                Err(_) => return LiveUpdate::Look,
                Ok(Some(RelaySignal::Stored)) => return LiveUpdate::Look,
                Ok(Some(RelaySignal::Begun)) => {
                    self.is_known = false;
                    self.due = Instant::now();
                }
                Ok(Some(RelaySignal::Piece(piece))) => {
                    if self.joins(&piece) {
                        return LiveUpdate::Piece(piece);
                    }
                }
                Ok(Some(RelaySignal::Watched { .. } | RelaySignal::Abort)) => {}
                Ok(None) => {
                    self.listener = None;
                    self.answer = None;
                    self.due = Instant::now() + LISTEN_PAUSE;
                }
            }
        }
    }

    /// Listens to the run, and lets it know.
    async fn keep_listening(&mut self) {
        self.due = Instant::now() + WATCHED_INTERVAL;
        let Some(relay) = &self.relay else { return };
        if self.listener.is_none() {
            self.is_known = false;
            self.listener = relay.listen(&self.session, RelaySide::Watchers).await.ok();
        }
        let watched = RelaySignal::Watched { is_new: !self.is_known };
        let told = self.listener.is_some() && relay.send(&self.session, &watched).await.is_ok();
        self.is_known |= told;
        if !told {
            self.due = Instant::now() + LISTEN_PAUSE;
        }
    }

    /// Whether a piece goes on with the pieces before it. After a gap none does until the next answer, since the rest comes
    /// with the entry.
    fn joins(&mut self, piece: &RelayPiece) -> bool {
        let is_next = piece.number == 0
            || self.answer.as_ref().is_some_and(|(turn, next)| (turn, *next) == (&piece.turn, piece.number));
        self.answer = is_next.then(|| (piece.turn.clone(), piece.number + 1));
        is_next
    }
}

#[cfg(test)]
mod tests {
    use zk_session::MemoryStore;

    use super::*;

    fn piece(turn: &str, number: u64) -> RelaySignal {
        let text = format!("{turn}/{number}");
        RelaySignal::Piece(RelayPiece { turn: turn.into(), number, is_thinking: false, text })
    }

    #[tokio::test(start_paused = true)]
    async fn a_gap_ends_an_answer_and_the_next_one_begins_anew() {
        let store = MemoryStore::new();
        let session: SessionId = "s_1".into();
        let relay = store.relay().unwrap();
        let mut watch = RunWatch::new(&store, session.clone());
        let mut run = relay.listen(&session, RelaySide::Run).await.unwrap();
        assert_eq!(watch.next(Duration::from_millis(1)).await, LiveUpdate::Look);
        assert_eq!(run.next().await, Some(RelaySignal::Watched { is_new: true }));
        for signal in
            [piece("a", 0), piece("a", 1), piece("a", 3), piece("a", 4), piece("b", 0), RelaySignal::Stored]
        {
            relay.send(&session, &signal).await.unwrap();
        }
        let mut seen = Vec::new();
        while let LiveUpdate::Piece(piece) = watch.next(Duration::from_secs(1)).await {
            seen.push(piece.text);
        }
        assert_eq!(seen, ["a/0", "a/1", "b/0"]);
        assert_eq!(watch.next(Duration::from_secs(20)).await, LiveUpdate::Look, "nothing more");
        // A later look renews the watch, and a leg that begins is told of a new watcher.
        assert_eq!(watch.next(Duration::from_secs(1)).await, LiveUpdate::Look);
        assert_eq!(run.next().await, Some(RelaySignal::Watched { is_new: false }));
        relay.send(&session, &RelaySignal::Begun).await.unwrap();
        assert_eq!(watch.next(Duration::from_secs(1)).await, LiveUpdate::Look);
        assert_eq!(run.next().await, Some(RelaySignal::Watched { is_new: true }));
    }
}
