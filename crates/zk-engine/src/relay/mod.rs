mod leg;
mod watch;

pub(crate) use leg::LegRelay;
pub use watch::{LiveUpdate, RunWatch};

use zk_core::model::{RunId, SessionId};
use zk_core::service::{EngineRun, Relay, RelaySignal, RunFilter, RunPhase};

use crate::runs::{Runs, RunsError};

impl Runs {
    /// Cancels a run and its descendants in the engine, and meanwhile aborts their running legs by the relay of the store, if
    /// there is one: the leg of the run hears it though the engine cannot be reached.
    ///
    /// # Errors
    /// [`RunsError::Engine`] as [`Engine::cancel`](zk_core::service::Engine::cancel); the leg may have heard of it nevertheless.
    pub async fn cancel(&self, run: &EngineRun) -> Result<(), RunsError> {
        let relay = self.store().relay();
        let aborting = async {
            // The session of a run that is over may have another one by now.
            if let Some(relay) = relay.filter(|_| !run.phase.is_finished()) {
                send_abort(&*relay, run.job.session()).await;
                self.abort_descendants(&*relay, run.job.run().clone()).await;
            }
        };
        let (cancelled, ()) = tokio::join!(self.engine().cancel(run.job.run()), aborting);
        Ok(cancelled?)
    }

    /// Aborts the running legs below a run, as far as the engine lists them.
    async fn abort_descendants(&self, relay: &dyn Relay, top: RunId) {
        let mut above = vec![top];
        while let Some(parent) = above.pop() {
            let of_parent = RunFilter { parent: Some(parent), ..RunFilter::default() };
            let Ok(children) = self.engine().list(&of_parent).await else { return };
            for child in children {
                if child.phase == RunPhase::Running {
                    send_abort(relay, child.job.session()).await;
                }
                above.push(child.job.run().clone());
            }
        }
    }
}

async fn send_abort(relay: &dyn Relay, session: &SessionId) {
    // Without the signal the leg learns it from its engine.
    let _ = relay.send(session, &RelaySignal::Abort).await;
}
