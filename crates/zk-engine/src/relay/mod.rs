mod leg;
mod watch;

pub(crate) use leg::LegRelay;
pub use watch::{LiveUpdate, RunWatch};

use zk_core::service::{EngineRun, RelaySignal};

use crate::runs::{Runs, RunsError};

impl Runs {
    /// Cancels a run and its descendants in the engine, and aborts its running leg by the relay of the store, if there is
    /// one. Legs of descendants learn it from the engine.
    ///
    /// # Errors
    /// [`RunsError::Engine`] as [`Engine::cancel`](zk_core::service::Engine::cancel).
    pub async fn cancel(&self, run: &EngineRun) -> Result<(), RunsError> {
        self.engine().cancel(run.job.run()).await?;
        if let Some(relay) = self.store().relay() {
            // Without the signal the leg learns it from its engine.
            let _ = relay.send(run.job.session(), &RelaySignal::Abort).await;
        }
        Ok(())
    }
}
