use std::any::Any;
use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::model::{SessionId, TurnId};
use crate::service::StoreError;

/// Channel for live signals about the sessions of a store: pieces of the streamed answer, for watchers, and requests to
/// the running leg.
///
/// Nothing is stored. A signal without a listener is lost, and one may be lost with its connection: the entries of the
/// session say what happened.
///
/// ```
/// use zk_core::service::{RelaySide, RelaySignal};
///
/// let json = RelaySignal::Abort.to_json().unwrap();
/// assert_eq!(RelaySignal::from_json(json.as_bytes()), Some(RelaySignal::Abort));
/// assert_eq!(RelaySignal::Abort.side(), RelaySide::Run);
/// ```
#[async_trait]
pub trait Relay: Send + Sync {
    /// Sends a signal to those who listen on its [side](RelaySignal::side) now.
    ///
    /// # Errors
    /// [`StoreError`] when the signal cannot be sent. Without a listener there is no error.
    async fn send(&self, session: &SessionId, signal: &RelaySignal) -> Result<(), StoreError>;

    /// Listens to the signals for one side of a session, until the listener is dropped. Signals that are sent after this
    /// returned arrive, in their order.
    ///
    /// # Errors
    /// [`StoreError`] when the relay cannot be reached.
    async fn listen(&self, session: &SessionId, side: RelaySide) -> Result<RelayListener, StoreError>;
}

/// Side of a session that a signal is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelaySide {
    /// Running leg of the session, in its worker.
    Run,
    /// Everybody who watches the run.
    Watchers,
}

/// Live signal about a session, which no store keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum RelaySignal {
    /// To watchers: a piece of the answer that is being received.
    Piece(RelayPiece),
    /// To watchers: entries may have been stored.
    Stored,
    /// To watchers: a run begins to listen, and has not heard of them.
    Begun,
    /// To the run: somebody watches, for the next [`WATCH_TIME`](Self::WATCH_TIME).
    Watched {
        /// Whether it is somebody new, for whom the answer on its way is sent again from its beginning.
        is_new: bool,
    },
    /// To the run: end as aborted. The engine has been told as well, and decides what becomes of the run.
    Abort,
}

/// Piece of an answer that is being received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayPiece {
    /// Turn of the answer.
    pub turn: TurnId,
    /// Number of the piece in the answer, from 0. An answer that is asked for or sent again begins at 0 again; after a gap,
    /// the rest of the answer comes with its entry.
    pub number: u64,
    /// Whether it is reasoning rather than text.
    pub is_thinking: bool,
    /// Text to append to the answer.
    pub text: String,
}

impl RelaySignal {
    /// Time for which a run sends pieces after [`RelaySignal::Watched`].
    pub const WATCH_TIME: std::time::Duration = std::time::Duration::from_secs(30);

    /// Maximum number of bytes of a signal as JSON, which a notification of PostgreSQL holds.
    pub const MAX_BYTES: usize = 7_900;

    /// Returns the side that the signal is meant for.
    #[must_use]
    pub fn side(&self) -> RelaySide {
        match self {
            Self::Piece(_) | Self::Stored | Self::Begun => RelaySide::Watchers,
            Self::Watched { .. } | Self::Abort => RelaySide::Run,
        }
    }

    /// Writes the signal as JSON.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a signal over [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn to_json(&self) -> Result<String, StoreError> {
        let json = serde_json::to_string(self).map_err(|error| StoreError::Failed(error.to_string()))?;
        if json.len() > Self::MAX_BYTES {
            let (bytes, most) = (json.len(), Self::MAX_BYTES);
            return Err(StoreError::Refused(format!("a live signal of {bytes} bytes is over {most}")));
        }
        Ok(json)
    }

    /// Reads a signal; `None` for one of another version.
    #[must_use]
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Receiver of the signals for one side of a session.
pub struct RelayListener {
    signals: mpsc::Receiver<RelaySignal>,
    _guard: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for RelayListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayListener").finish_non_exhaustive()
    }
}

impl RelayListener {
    /// Maximum number of signals that wait for a listener. Those beyond are lost.
    pub const MAX_WAITING: usize = 256;

    /// Creates a listener of a channel with [`MAX_WAITING`](Self::MAX_WAITING) places. `guard` is dropped with it.
    #[must_use]
    pub fn new(signals: mpsc::Receiver<RelaySignal>, guard: impl Any + Send + Sync) -> Self {
        Self { signals, _guard: Box::new(guard) }
    }

    /// Waits for the next signal; `None` once the relay is gone.
    pub async fn next(&mut self) -> Option<RelaySignal> {
        self.signals.recv().await
    }
}
