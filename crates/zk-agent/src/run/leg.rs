//! Legs of a run that outlives its worker: handover, questions and mail.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use zk_core::events::{CallRef, SteerKind};
use zk_core::kernel::{Cause, EmitError, HookError};
use zk_core::model::{AgentError, EntryId, MailId, Message, MessageId};
use zk_core::service::{
    ANSWER_ENTRY, Clock, Leg, LegAnswer, MailKind, Mailbox, NewEntry, ParkedQuestion, ParkedWait,
    QUESTION_ENTRY, RunStatus, SessionLog, StoreError, StoredQuestion, StoredWait, WAIT_ENTRY,
};

use super::handle::message_of;
use super::leg_children::SUB_AGENTS;
use super::shared::Leaving;
use super::state::RunState;
use crate::tools::LeftOpen;
use crate::turn::Turn;
use crate::{Machine, Stop};

/// Version of the data of stored questions, answers and waits.
const QUESTION_VERSION: u32 = 1;

/// Minimum pause before a call that was parked until a time in the past is looked at again.
const MIN_WAIT: Duration = Duration::from_secs(1);

impl RunState {
    fn leg(&self) -> Option<Arc<Leg>> {
        self.cx.service::<Leg>()
    }

    /// Whether this worker leaves the run to another one.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leg().is_some() && self.shared.leaving().is_some()
    }

    /// Returns the error with which a leg ends: `error`, unless the run goes to another worker.
    pub(crate) fn leaving_error(&self, error: AgentError) -> AgentError {
        let of_store = failed_store(&error).and_then(leg_error);
        match (self.shared.leaving(), of_store) {
            (Some(Leaving::Fenced), _) | (_, Some(AgentError::Fenced)) => AgentError::Fenced,
            (_, Some(lost)) if self.leg().is_some() => lost,
            (Some(Leaving::Handover), _) if self.is_leaving() && self.shared.stop.is_cancelled() => {
                AgentError::HandedOver
            }
            (Some(Leaving::Handover) | None, _) => error,
        }
    }

    /// Whether another leg goes on after this error of the store. What this leg adds until its end would stand in the way: an
    /// answer without its calls counts as the last word of the model.
    pub(crate) fn is_store_lost(&self, error: &AgentError) -> bool {
        self.leg().is_some() && failed_store(error).is_some_and(|store| leg_error(store).is_some())
    }

    /// Ends the leg with its turn open, stores the question or the wait of a parked call, and returns the error that ends
    /// the leg.
    pub(crate) async fn leave_open(
        &self,
        turn: &Turn,
        left: LeftOpen,
        failure: Option<AgentError>,
    ) -> AgentError {
        if let Some(error) = failure {
            return error;
        }
        let LeftOpen::Parked { call, reason, wait } = left else { return AgentError::HandedOver };
        let tool = call.name.clone();
        let stored = match wait {
            ParkedWait::Answer(question) => {
                let entry = self.store_question(turn, &call, &reason, *question).await;
                entry.map(|entry| AgentError::Parked { tool: tool.clone(), reason, question: Some(entry) })
            }
            ParkedWait::Until(until) => self.store_wait(turn, &call, reason, until).await,
        };
        match stored {
            Ok(parked) => parked,
            Err(error) => leg_error(&error).unwrap_or_else(|| {
                AgentError::Usage(format!(
                    "the wait of a call of `{tool}` was not stored, so no other leg can go on with it: {error}"
                ))
            }),
        }
    }

    /// Stores the question about a call, unless it was stored before, and returns its entry.
    async fn store_question(
        &self,
        turn: &Turn,
        call: &CallRef,
        reason: &str,
        asked: ParkedQuestion,
    ) -> Result<EntryId, StoreError> {
        if let Some(entry) = self.leg().and_then(|leg| leg.asked(call, &asked.digest)) {
            return Ok(entry);
        }
        let stored = StoredQuestion {
            run_id: self.shared.id.clone(),
            turn_id: turn.id.clone(),
            call_id: call.call_id.clone(),
            tool: call.name.clone(),
            reason: reason.to_owned(),
            digest: asked.digest,
            question: asked.question,
        };
        self.store_entry(QUESTION_ENTRY, &stored).await
    }

    /// Stores the time for which a call waits, unless it was stored before, and returns the error that ends the leg.
    async fn store_wait(
        &self,
        turn: &Turn,
        call: &CallRef,
        reason: String,
        until: SystemTime,
    ) -> Result<AgentError, StoreError> {
        let until = round_up_to_ms(until);
        if self.leg().and_then(|leg| leg.waits_until(call)) != Some(until) {
            let stored = StoredWait {
                run_id: self.shared.id.clone(),
                turn_id: turn.id.clone(),
                call_id: call.call_id.clone(),
                tool: call.name.clone(),
                reason: reason.clone(),
                until,
            };
            self.store_entry(WAIT_ENTRY, &stored).await?;
        }
        let now = <dyn Clock>::now_in(&self.cx);
        // A gate that parks until a time in the past keeps no worker busy.
        let until = if until > now { until } else { now + MIN_WAIT };
        Ok(AgentError::AwaitsTime { tool: call.name.clone(), reason, until })
    }

    /// Reads the session's mail: queues messages, stores answers, and stops the run if asked to.
    pub(crate) async fn read_mail(&self) -> Result<(), AgentError> {
        let Some((leg, mailbox)) = self.leg().zip(self.cx.service::<dyn Mailbox>()) else { return Ok(()) };
        let unread = mailbox.unread().await.map_err(|error| self.mail_error(&error))?;
        for mail in unread {
            match mail.kind {
                MailKind::Steer { text } => self.queue_mail(SteerKind::Steer, text, &mail.id),
                MailKind::FollowUp { text } => self.queue_mail(SteerKind::FollowUp, text, &mail.id),
                MailKind::Abort { reason } => {
                    mailbox.take(&mail.id);
                    self.shared.abort(reason.as_deref());
                }
                MailKind::Result { text, .. } => self.queue_notice(text, SUB_AGENTS, &mail.id),
                MailKind::Notice { source, text } => self.queue_notice(text, &source, &mail.id),
                MailKind::Budget { budget } => {
                    let set = self.set_run_budget(budget, &*mailbox, &mail.id).await;
                    set.map_err(|error| self.mail_error(&error))?;
                }
                MailKind::Answer { question, answer } => {
                    mailbox.take(&mail.id);
                    if let Some(answer) = leg.add_answer(&question, answer) {
                        self.store_answer(&answer).await.map_err(|error| self.mail_error(&error))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a run whose end an earlier leg stored goes on with mail that came after it had read its last.
    pub(crate) async fn has_late_mail(&self, ended: RunStatus) -> Result<bool, AgentError> {
        if ended != RunStatus::Completed {
            return Ok(false);
        }
        self.read_mail().await?;
        let queues = self.shared.queues();
        Ok(!(queues.steer.is_empty() && queues.follow_up.is_empty() && queues.notices.is_empty()))
    }

    fn queue_mail(&self, kind: SteerKind, text: String, id: &MailId) {
        let message = Message { id: Some(MessageId::from(id.as_str())), ..message_of(kind, text) }.shared();
        // If the run takes no more messages, the mail stays for the next run.
        let _ = self.shared.queues().add(kind, message);
    }

    /// Marks mail as taken if a handler of `input` consumed its message.
    pub(crate) fn take_consumed_mail(&self, sent: &[Arc<Message>], read: &[Arc<Message>]) {
        let Some(mailbox) = self.leg().and_then(|_| self.cx.service::<dyn Mailbox>()) else { return };
        for message in sent.iter().filter(|sent| read.iter().all(|read| read.id != sent.id)) {
            if let Some(id) = &message.id {
                mailbox.take(&id.as_str().into());
            }
        }
    }

    async fn store_answer(&self, answer: &LegAnswer) -> Result<(), StoreError> {
        self.store_entry(ANSWER_ENTRY, answer).await.map(drop)
    }

    async fn store_entry(&self, kind: &str, data: &impl serde::Serialize) -> Result<EntryId, StoreError> {
        let Some(log) = self.cx.service::<dyn SessionLog>() else {
            return Err(StoreError::Refused("this conversation has no session".to_owned()));
        };
        let data = serde_json::to_value(data).map_err(|error| StoreError::Failed(error.to_string()))?;
        let scope = self.agent.bus.scope("zk-agent");
        // The engine parks the run at this entry, and a person answers it: it has to survive a power cut.
        log.append_synced(&scope, NewEntry::hidden(kind, QUESTION_VERSION, data)).await
    }

    pub(super) fn mail_error(&self, error: &StoreError) -> AgentError {
        let refused = || AgentError::Usage(format!("the mail of the session cannot be taken: {error}"));
        leg_error(error).unwrap_or_else(refused)
    }
}

/// Reports the end of a turn to the machine; returns the error that ends the leg, if the turn stays open.
pub(super) fn end_turn(
    machine: &mut Machine,
    ended: Result<bool, AgentError>,
) -> Result<Option<AgentError>, AgentError> {
    match ended {
        Ok(ended) => machine.turn_done(ended),
        Err(error @ (AgentError::Parked { question: Some(_), .. } | AgentError::AwaitsTime { .. })) => {
            machine.turn_left_open(Stop::Parked);
            return Ok(Some(error));
        }
        Err(error @ AgentError::HandedOver) => {
            machine.turn_left_open(Stop::Handover);
            return Ok(Some(error));
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

/// Rounds a time up to whole milliseconds, as sessions and engines store it.
fn round_up_to_ms(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let excess = since.subsec_nanos() % 1_000_000;
    let missing = if excess == 0 { 0 } else { 1_000_000 - excess };
    time.checked_add(Duration::from_nanos(u64::from(missing))).unwrap_or(time)
}

/// Result of a run whose end an earlier leg stored.
pub(super) fn stored_result(status: RunStatus) -> Result<(), AgentError> {
    match status {
        RunStatus::Completed => Ok(()),
        RunStatus::Aborted => Err(AgentError::Aborted),
        RunStatus::Error => Err(AgentError::Usage(
            "this run ended with an error on another worker; its session has the reason".into(),
        )),
    }
}

/// Error with which a leg ends that another one continues; `None` for an error of the store that ends the run.
fn leg_error(error: &StoreError) -> Option<AgentError> {
    match error {
        StoreError::Fenced { .. } => Some(AgentError::Fenced),
        error => error.is_temporary().then(|| AgentError::StoreFailed { error: error.to_string() }),
    }
}

/// Returns the error of the store that a handler failed with.
fn failed_store(error: &AgentError) -> Option<&StoreError> {
    let AgentError::Hook(EmitError::Hook(HookError { cause: Cause::Failed(cause), .. })) = error else {
        return None;
    };
    cause.downcast_ref()
}
