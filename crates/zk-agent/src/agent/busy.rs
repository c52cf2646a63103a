use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::inner::AgentInner;
use crate::run::RunShared;

/// Guard that marks the agent as busy until it is dropped, however the run ends.
pub(crate) struct Busy {
    agent: Arc<AgentInner>,
    run: Arc<RunShared>,
}

impl Busy {
    pub(crate) fn new(agent: &Arc<AgentInner>, run: &Arc<RunShared>) -> Option<Self> {
        let free = agent.running.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok();
        free.then(|| Self { agent: agent.clone(), run: run.clone() })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.agent.running.store(false, Ordering::Release);
        let notices = {
            let mut queues = self.run.queues();
            queues.close();
            std::mem::take(&mut queues.notices)
        };
        if !notices.is_empty() {
            self.agent.state().next_prompt.extend(notices.into_iter().map(Arc::unwrap_or_clone));
        }
        self.agent.idle.notify_waiters();
        self.run.over.cancel();
    }
}
