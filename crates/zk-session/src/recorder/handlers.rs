//! Handlers that store entries for each event.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use zk_core::events::{
    AgentStart, Cause, ModelSelect, SessionEnd, SessionEntry, SessionMessages, SessionOpenTurn, SessionStart,
    SideCallEnd, ThinkingSelect, ToolBegin, ToolEnd, ToolResultsAfter, UsageUpdate,
};
use zk_core::kernel::{Answer, Cx, Handler, Scope};
use zk_core::model::{EntryId, MailId, Message, Role, TurnId, TurnUsage, Usage};
use zk_core::service::{
    AgentPart, CustomEntry, Durability, Entry, EntryKind, Leg, Mail, Mailbox, MessageVisitor, NewEntry,
    Redactor, RunControl, SessionLog, SideCallOf, StoreError,
};

use super::log::Log;
use super::redact::redact_entry;
use crate::Earlier;
use crate::find::is_prompt;
use crate::history::Reader;

/// Longest time that the beginning of a run waits for the name of the branch, which a slow disk may hold back.
const BRANCH_LIMIT: Duration = Duration::from_secs(1);

/// Source of the stored usage of sub-agents.
const SUB_AGENT_SOURCE: &str = "spawn";

#[async_trait]
impl SessionLog for Log {
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        self.append_custom(scope, entry, Durability::Process).await
    }

    async fn append_synced(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        self.append_custom(scope, entry, Durability::Disk).await
    }

    fn join_results(&self, scope: &Scope, entry: NewEntry) -> bool {
        let entry = entry.by(scope.source());
        let mut queue = self.queue();
        queue.joined.retain(|other| (&other.source, &other.kind) != (&entry.source, &entry.kind));
        queue.joined.push(entry);
        true
    }

    async fn entries(&self, scope: &Scope) -> Result<Vec<CustomEntry>, StoreError> {
        {
            let mut state = self.state.lock().await;
            self.await_appends(&mut state).await?;
        }
        let own: Arc<Mutex<Vec<CustomEntry>>> = Arc::default();
        let (found, source) = (own.clone(), scope.source().to_string());
        let visit = Box::new(move |entry: Entry, _: usize| {
            if let EntryKind::Custom(entry) = entry.kind
                && entry.source == source
            {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            }
            ControlFlow::Continue(())
        });
        self.session.scan(visit).await?;
        Ok(std::mem::take(&mut *own.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn earlier(&self) -> u64 {
        self.earlier.as_ref().map_or(0, |earlier| earlier.messages)
    }

    async fn visit_earlier(&self, mut visit: MessageVisitor) -> Result<(), StoreError> {
        let Some(Earlier { before, .. }) = self.earlier.clone() else { return Ok(()) };
        let mut reader = Reader::default();
        let visit = Box::new(move |entry: Entry, _: usize| {
            if entry.id == before {
                return ControlFlow::Break(());
            }
            reader.add(&entry);
            reader.loaded.custom.clear();
            reader.loaded.messages.drain(..).try_for_each(|message| visit(&message))
        });
        // Unreadable entries are reported when the whole session is shown.
        self.session.scan(visit).await.map(drop)
    }
}

impl Log {
    /// Appends the entry of a plugin after all earlier entries, and announces it.
    async fn append_custom(
        &self,
        scope: &Scope,
        entry: NewEntry,
        durability: Durability,
    ) -> Result<EntryId, StoreError> {
        let mut state = self.state.lock().await;
        self.await_appends(&mut state).await?;
        // Entries whose append failed before come first.
        self.start_append(&mut state, Vec::new(), Durability::Process).await?;
        self.await_appends(&mut state).await?;
        if state.lost {
            return Err(StoreError::Failed("this conversation is not stored".to_owned()));
        }
        let mut entry = EntryKind::Custom(entry.by(scope.source()));
        if let Some(redactor) = scope.bus().and_then(|bus| bus.service::<Redactor>()) {
            entry = redact_entry(entry, &redactor);
        }
        let mail = self.queue().mail_taken_by(&[]);
        let appended = self.session.append_taking(vec![entry.clone()], mail.clone(), durability).await;
        if let Err(error @ StoreError::Fenced { .. }) = appended {
            self.lose_session();
            return Err(error);
        }
        let ids = appended?;
        self.queue().forget_mail(&mail);
        state.stored = true;
        state.answered |= !is_prompt(&entry);
        drop(state);
        if let (EntryKind::Custom(entry), Some(bus)) = (entry, scope.bus()) {
            // The entry is stored; a failure of an observer is reported by the bus.
            let _ = bus.cx().emit(SessionEntry { entry }).await;
        }
        let none = || StoreError::Failed("the store gave no id to an entry".to_owned());
        ids.into_iter().next().ok_or_else(none)
    }
}

#[async_trait]
impl Mailbox for Log {
    async fn unread(&self) -> Result<Vec<Mail>, StoreError> {
        let mut waiting = self.session.mail().await?;
        let mut queue = self.queue();
        waiting.retain(|mail| queue.read_mail.insert(mail.id.clone()));
        Ok(waiting)
    }

    fn take(&self, id: &MailId) {
        self.queue().taken_mail.insert(id.clone());
    }
}

impl Handler<SessionStart> for Log {
    async fn call(&self, ev: &SessionStart, cx: &Cx) -> Answer<SessionStart> {
        {
            let mut queue = self.queue();
            queue.run = cx.service::<dyn RunControl>().map(|run| Arc::downgrade(&run));
            let is_stored = queue.continues.take().is_some_and(|run| run == ev.run_id);
            if !is_stored {
                // Queued only, since an empty run needs no file yet: the prompt follows.
                queue.entries.push(EntryKind::RunStart { run_id: ev.run_id.clone() });
            }
        }
        if let Some(read) = self.read_branch.get().cloned()
            && let Ok(Ok(Some(branch))) =
                tokio::time::timeout(BRANCH_LIMIT, tokio::task::spawn_blocking(move || read())).await
        {
            self.session.note_branch(branch);
        }
        Ok(None)
    }
}

impl Handler<SessionMessages> for Log {
    async fn call(&self, ev: &SessionMessages, cx: &Cx) -> Answer<SessionMessages> {
        {
            let mut queue = self.queue();
            let news = queue.take_new(&ev.messages);
            let entries = match (&ev.usage, ev.messages.is_empty()) {
                (Some(usage), true) => {
                    vec![EntryKind::Usage { usage: usage.clone().into(), side_call: None }]
                }
                (usage, _) => messages(&news, usage.as_ref()),
            };
            queue.entries.extend(redacted(entries, cx));
        }
        self.flush(Durability::Process).await?;
        if let Some(origin) = ev.messages.iter().rev().find_map(|message| message.origin.as_ref()) {
            self.state.lock().await.model = Some(origin.clone());
        }
        Ok(None)
    }
}

impl Handler<SideCallEnd> for Log {
    async fn call(&self, ev: &SideCallEnd, _: &Cx) -> Answer<SideCallEnd> {
        let SideCallEnd { source, purpose, part, usage: _ } = ev.clone();
        let side_call = Some(SideCallOf { source, purpose, part });
        let entry = EntryKind::Usage { usage: ev.usage.clone().into(), side_call };
        self.write(vec![entry], Durability::Process).await?;
        Ok(None)
    }
}

/// Stores the usage of sub-agents' turns. The turns of the session's own agent are stored with its messages.
pub(super) struct SubAgentUsage {
    pub(super) log: Arc<Log>,
    /// Depth of the session's own agent.
    pub(super) depth: u32,
}

impl Handler<UsageUpdate> for SubAgentUsage {
    async fn call(&self, ev: &UsageUpdate, cx: &Cx) -> Answer<UsageUpdate> {
        if cx.origin().depth == self.depth || ev.turn.usage == Usage::default() {
            return Ok(None);
        }
        let part = cx.service::<AgentPart>().map(|part| part.0.clone());
        let (source, purpose) = (SUB_AGENT_SOURCE.to_owned(), cx.origin().agent.to_string());
        let side_call = Some(SideCallOf { source, purpose, part });
        let entry = EntryKind::Usage { usage: ev.turn.clone().into(), side_call };
        self.log.write(vec![entry], Durability::Process).await?;
        Ok(None)
    }
}

impl Handler<AgentStart> for Log {
    async fn call(&self, ev: &AgentStart, _: &Cx) -> Answer<AgentStart> {
        let mut state = self.state.lock().await;
        let entries =
            [state.model_entry(&ev.model), state.thinking_entry(ev.thinking)].into_iter().flatten().collect();
        self.start_append(&mut state, entries, Durability::Process).await?;
        Ok(None)
    }
}

impl Handler<ModelSelect> for Log {
    async fn call(&self, ev: &ModelSelect, _: &Cx) -> Answer<ModelSelect> {
        let entry = self.state.lock().await.model_entry(&ev.to);
        match ev.cause {
            Cause::Set => self.write(entry.into_iter().collect(), Durability::Process).await?,
            Cause::Restore => {}
        }
        Ok(None)
    }
}

impl Handler<ThinkingSelect> for Log {
    async fn call(&self, ev: &ThinkingSelect, _: &Cx) -> Answer<ThinkingSelect> {
        let entry = self.state.lock().await.thinking_entry(ev.to);
        match ev.cause {
            Cause::Set => self.write(entry.into_iter().collect(), Durability::Process).await?,
            Cause::Restore => {}
        }
        Ok(None)
    }
}

impl Handler<SessionOpenTurn> for Log {
    async fn call(&self, ev: &SessionOpenTurn, cx: &Cx) -> Answer<SessionOpenTurn> {
        let (turn_id, message, usage) = (ev.turn_id.clone(), ev.message.clone(), ev.usage.clone());
        let open = EntryKind::OpenTurn { turn_id, message, usage: usage.into() };
        self.announce(redacted_entry(open, cx), Durability::Process).await?;
        Ok(None)
    }
}

impl Handler<ToolBegin> for Log {
    async fn call(&self, ev: &ToolBegin, cx: &Cx) -> Answer<ToolBegin> {
        if !ev.read_only {
            let begin = EntryKind::CallBegin {
                turn_id: ev.call.turn_id.clone(),
                call_id: ev.call.call_id.clone(),
                name: ev.call.name.clone(),
                args: ev.args.clone(),
                summary: Some(ev.summary.clone()),
            };
            // Ends of earlier calls are synced with it; one that arrives meanwhile is not.
            let had_unsynced_end = std::mem::take(&mut self.queue().has_unsynced_end);
            let announced = self.announce(redacted_entry(begin, cx), Durability::Disk).await;
            if announced.is_err() && had_unsynced_end {
                self.queue().has_unsynced_end = true;
            }
            announced?;
        }
        Ok(None)
    }
}

impl Handler<ToolEnd> for Log {
    async fn call(&self, ev: &ToolEnd, cx: &Cx) -> Answer<ToolEnd> {
        if ev.read_only {
            self.queue().call_data.push(EntryKind::CallData {
                turn_id: ev.call.turn_id.clone(),
                call_id: ev.call.call_id.clone(),
                summary: Some(ev.summary.clone()),
                display: ev.display.clone().map(Box::new),
                details: ev.details.clone(),
                elapsed_ms: ev.elapsed_ms,
            });
        } else {
            let end = EntryKind::CallEnd {
                turn_id: ev.call.turn_id.clone(),
                call_id: ev.call.call_id.clone(),
                summary: Some(ev.summary.clone()),
                result: Box::new(ev.result.clone()),
                display: ev.display.clone().map(Box::new),
                details: ev.details.clone(),
                elapsed_ms: ev.elapsed_ms,
            };
            self.write(vec![redacted_entry(end, cx)], Durability::Process).await?;
            self.queue().has_unsynced_end = true;
        }
        Ok(None)
    }
}

impl Handler<ToolResultsAfter> for Log {
    async fn call(&self, ev: &ToolResultsAfter, cx: &Cx) -> Answer<ToolResultsAfter> {
        let (durability, joined) = {
            let mut queue = self.queue();
            let joined = redacted(queue.joined.drain(..).map(EntryKind::Custom).collect(), cx);
            let mut entries = std::mem::take(&mut queue.call_data);
            // Drops data of earlier turns that never got results.
            entries.retain(|entry| is_of_turn(entry, &ev.usage.turn_id));
            entries.extend(messages(
                &queue.take_new(&[ev.assistant.clone(), ev.results.clone()]),
                Some(&ev.usage),
            ));
            queue.entries.extend(redacted(entries, cx));
            queue.entries.extend(joined.iter().cloned());
            let has_unsynced_end = std::mem::take(&mut queue.has_unsynced_end);
            (if has_unsynced_end { Durability::Disk } else { Durability::Process }, joined)
        };
        if let Err(error) = self.flush(durability).await {
            // The next append makes up for the results alone: the plugins were not told that their entries are stored.
            self.state.lock().await.unstored.retain(|entry| !joined.contains(entry));
            self.queue().entries.retain(|entry| !joined.contains(entry));
            return Err(error.into());
        }
        let mut state = self.state.lock().await;
        state.model = Some(ev.usage.model.clone());
        let is_lost = state.lost;
        drop(state);
        if is_lost {
            return Ok(None);
        }
        for entry in joined {
            if let EntryKind::Custom(entry) = entry {
                // The entry is stored; a failure of an observer is reported by the bus.
                let _ = cx.emit(SessionEntry { entry }).await;
            }
        }
        Ok(None)
    }
}

impl Handler<SessionEnd> for Log {
    async fn call(&self, ev: &SessionEnd, cx: &Cx) -> Answer<SessionEnd> {
        // Left by a turn whose results were not stored.
        self.queue().joined.clear();
        let mut entries: Vec<_> = ev.entries.iter().cloned().map(EntryKind::Custom).collect();
        if cx.service::<Leg>().is_none_or(|leg| !leg.goes_on()) {
            entries.push(EntryKind::RunEnd { run_id: ev.run_id.clone(), status: ev.status });
        }
        let written = self.write(redacted(entries, cx), Durability::Process).await;
        self.queue().run = None;
        written?;
        Ok(None)
    }
}

/// Entries for messages; the usage is attached to the last answer.
fn messages(all: &[Arc<Message>], usage: Option<&TurnUsage>) -> Vec<EntryKind> {
    let answer = all.iter().rposition(|message| message.role == Role::Assistant);
    let usage_of = |index| usage.filter(|_| Some(index) == answer).cloned().map(Box::new);
    let entry = |(index, message): (usize, &Arc<Message>)| EntryKind::Message {
        message: message.clone(),
        usage: usage_of(index),
    };
    all.iter().enumerate().map(entry).collect()
}

/// Entries with secrets removed, if the host provides a redactor.
fn redacted(entries: Vec<EntryKind>, cx: &Cx) -> Vec<EntryKind> {
    match cx.service::<Redactor>() {
        Some(redactor) => entries.into_iter().map(|entry| redact_entry(entry, &redactor)).collect(),
        None => entries,
    }
}

fn redacted_entry(entry: EntryKind, cx: &Cx) -> EntryKind {
    match cx.service::<Redactor>() {
        Some(redactor) => redact_entry(entry, &redactor),
        None => entry,
    }
}

fn is_of_turn(entry: &EntryKind, turn: &TurnId) -> bool {
    matches!(entry, EntryKind::CallData { turn_id, .. } if turn_id == turn)
}
