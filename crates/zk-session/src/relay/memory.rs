use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::mpsc::{Sender, channel};
use zk_core::model::SessionId;
use zk_core::service::{Relay, RelayListener, RelaySide, RelaySignal, StoreError};

/// Live signals within one process.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_core::service::{Relay, RelaySide, RelaySignal};
/// use zk_session::MemoryRelay;
///
/// let (relay, session) = (MemoryRelay::new(), "s_1".into());
/// let mut run = relay.listen(&session, RelaySide::Run).await.unwrap();
/// relay.send(&session, &RelaySignal::Abort).await.unwrap();
/// assert_eq!(run.next().await, Some(RelaySignal::Abort));
/// # });
/// ```
#[derive(Clone, Default)]
pub struct MemoryRelay(Arc<Mutex<Listeners>>);

type Listeners = HashMap<(SessionId, RelaySide), Vec<Sender<RelaySignal>>>;

impl fmt::Debug for MemoryRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRelay").finish_non_exhaustive()
    }
}

impl MemoryRelay {
    /// Creates a relay without listeners.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Relay for MemoryRelay {
    async fn send(&self, session: &SessionId, signal: &RelaySignal) -> Result<(), StoreError> {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let side = (session.clone(), signal.side());
        let Some(of_side) = listeners.get_mut(&side) else { return Ok(()) };
        // A listener that does not keep up loses the signal.
        of_side.retain(|listener| !listener.is_closed());
        of_side.iter().for_each(|listener| _ = listener.try_send(signal.clone()));
        if of_side.is_empty() {
            listeners.remove(&side);
        }
        Ok(())
    }

    async fn listen(&self, session: &SessionId, side: RelaySide) -> Result<RelayListener, StoreError> {
        let (sender, signals) = channel(RelayListener::MAX_WAITING);
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.entry((session.clone(), side)).or_default().push(sender);
        Ok(RelayListener::new(signals, ()))
    }
}
