//! Builds the messages of a request between runs, so that a compaction takes effect at once.

use std::sync::Arc;

use zk_core::events::{ContextTransform, SessionLoaded};
use zk_core::model::{AgentError, TurnId};

use super::busy::Busy;
use crate::Agent;
use crate::budget::BudgetChain;
use crate::run::Control;
use crate::run::RunShared;

impl Agent {
    /// Builds the messages as for a request, without sending one. Counts as a run: it can be stopped, and no
    /// other run can begin until it ends.
    pub(crate) async fn prepare_context(&self) -> Result<(), AgentError> {
        let agent = &self.inner;
        let shared = Arc::new(RunShared::new(agent.token.child_token()));
        let _busy = Busy::new(agent, &shared).ok_or_else(|| {
            AgentError::Usage("this agent is running: stop the run, or wait for its end".into())
        })?;
        let (model, messages, context, session, restored) = {
            let mut state = agent.state();
            state.current = Arc::downgrade(&shared);
            let restored = state.restored.take();
            let (model, messages) = (state.model.clone(), state.history.clone());
            (model, messages, state.context.clone(), state.session.clone(), restored)
        };
        shared.mark_begun();
        let control = Control::new(
            agent.clone(),
            shared.clone(),
            model.clone(),
            agent.tools.clone(),
            BudgetChain::new(agent.ledger.clone(), None),
        );
        let turn_id = TurnId::fresh();
        let cx = control.run_cx(context).for_turn(turn_id.shared());
        if let Some(entries) = restored {
            cx.emit(SessionLoaded { session_id: session, entries }).await?;
        }
        let prepared = cx.emit(ContextTransform::new(turn_id, messages, model.window)).await;
        if shared.stop.is_cancelled() {
            return Err(AgentError::Aborted);
        }
        prepared?;
        Ok(())
    }
}
