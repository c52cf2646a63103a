//! Child runs and the budget of a run that outlives its worker.

use std::sync::Arc;

use zk_core::kernel::{Bus, Cx};
use zk_core::model::{AgentError, Budget, MailId, Message, MessageId, RunId, Spent};
use zk_core::service::{
    ChildRuns, ChildState, Leg, Mailbox, NewEntry, RUN_BUDGET_ENTRY, SessionLog, StoreError, StoredRunBudget,
    UnfinishedRun, WithinLeg,
};

use super::state::RunState;
use crate::budget::Ledger;
use crate::run::Lineage;

/// Source of the messages that notify a parent of ended sub-agents.
pub(crate) const SUB_AGENTS: &str = "sub-agents";

/// Version of the data of entries about the budget of a run.
const BUDGET_VERSION: u32 = 1;

/// Ledger of a leg's run, as a service of its context.
pub(crate) struct LegLedger(pub(crate) Arc<Ledger>);

impl LegLedger {
    /// Stores the budget of the run of `cx`, whole, so that it survives a power cut.
    pub(crate) async fn store(&self, cx: &Cx, bus: &Bus) -> Result<(), StoreError> {
        let log = cx.service::<dyn SessionLog>();
        let log = log.ok_or_else(|| StoreError::Refused("this conversation has no session".to_owned()))?;
        let stored = StoredRunBudget { of: cx.run_id().into(), budget: self.0.stored() };
        let data = serde_json::to_value(stored).map_err(|error| StoreError::Failed(error.to_string()))?;
        let entry = NewEntry::hidden(RUN_BUDGET_ENTRY, BUDGET_VERSION, data);
        log.append_synced(&bus.scope("zk-agent"), entry).await.map(drop)
    }
}

/// Adds the services of a leg to the context of its run; to that of a run inside of a call of a leg, their marker.
pub(super) fn add_leg_services(
    cx: Cx,
    is_leg: bool,
    unfinished: Option<&UnfinishedRun>,
    ledger: Option<&Arc<Ledger>>,
    lineage: &Lineage,
) -> Cx {
    if !is_leg {
        return if lineage.is_within_leg() { cx.with_service(Arc::new(WithinLeg)) } else { cx };
    }
    let leg = unfinished
        .map(|run| Leg::new(run.questions.clone(), run.answers.clone()).with_waits(run.waits.clone()));
    let cx = cx.with_service(Arc::new(leg.unwrap_or_default()));
    match ledger {
        Some(ledger) => cx.with_service(Arc::new(LegLedger(ledger.clone()))),
        None => cx,
    }
}

impl RunState {
    /// Whether a result of a child run came, so that a run whose model is done goes on.
    ///
    /// # Errors
    /// [`AgentError::AwaitsChildren`] when there are children without a result, and when they cannot be looked up.
    pub(super) async fn take_results_of_children(&self, has_turns_left: bool) -> Result<bool, AgentError> {
        let children = self.unfinished_children().await?;
        self.read_mail().await?;
        {
            let queues = self.shared.queues();
            let is_told = has_turns_left && !queues.notices.is_empty();
            if is_told || !queues.steer.is_empty() || !queues.follow_up.is_empty() {
                return Ok(true);
            }
        }
        match children {
            None => Ok(false),
            Some(waits) => Err(waits),
        }
    }

    /// Returns the error that ends a leg whose run has used up its budget: children that still run return the rest of
    /// their parts.
    pub(super) async fn wait_for_budget(&self, error: AgentError) -> AgentError {
        if self.cx.service::<Leg>().is_none() {
            return error;
        }
        match self.unfinished_children().await {
            Ok(None) => error,
            Ok(Some(waits)) => waits,
            Err(failed) => failed,
        }
    }

    /// Has the results of ended children posted, and takes back the rest of their budgets. Returns the wait for those
    /// that have not ended.
    async fn unfinished_children(&self) -> Result<Option<AgentError>, AgentError> {
        let Some(runs) = self.cx.service::<dyn ChildRuns>().filter(|_| self.cx.service::<Leg>().is_some())
        else {
            return Ok(None);
        };
        let Ok(found) = runs.collect().await else {
            // The next leg asks again: the end of a run without the results of its children would lose them.
            return Ok(Some(AgentError::AwaitsChildren { children: Vec::new() }));
        };
        let mut unfinished = Vec::new();
        for ChildState { run, ended } in found {
            match ended {
                None => unfinished.push(run),
                Some(spent) => self.return_allotment(run, spent).await?,
            }
        }
        Ok((!unfinished.is_empty()).then_some(AgentError::AwaitsChildren { children: unfinished }))
    }

    async fn return_allotment(&self, run: RunId, spent: Spent) -> Result<(), AgentError> {
        let Some(ledger) = self.cx.service::<LegLedger>() else { return Ok(()) };
        if !ledger.0.return_allotment(&run, spent) {
            return Ok(());
        }
        ledger.store(&self.cx, &self.agent.bus).await.map_err(|error| self.mail_error(&error))
    }

    /// Queues a message of the harness that interrupts no call, such as the result of a child.
    pub(super) fn queue_notice(&self, text: String, source: &str, id: &MailId) {
        let message = Message { id: Some(MessageId::from(id.as_str())), ..Message::injected(text, source) };
        // If the run takes no more messages, the mail stays for the next leg.
        let _ = self.shared.queues().add_notice(message.shared());
    }

    /// Sets the budget of the run, for this leg and the later ones.
    pub(super) async fn set_run_budget(
        &self,
        budget: Budget,
        mailbox: &dyn Mailbox,
        id: &MailId,
    ) -> Result<(), StoreError> {
        mailbox.take(id);
        if let Some(ledger) = self.cx.service::<LegLedger>() {
            ledger.0.set_for_run(budget);
            ledger.store(&self.cx, &self.agent.bus).await?;
        }
        Ok(())
    }
}
