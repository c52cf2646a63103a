use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use zk_core::events::{AgentStart, ContextOverflow, ModelSelect, SessionLoaded, SystemSections, TurnAfter};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, Scope};
use zk_core::model::{Message, TurnId};
use zk_core::service::{Clock, ContextId, ContextWindow, LiveEntries, Reduction, SessionLog, WindowFill};

use crate::store::record::{self, Record};
use crate::text::count::{TokenCounter, count_message};
use crate::window::budget::Budget;
use crate::window::conversation::{AskedModel, ConversationWindow, History, PlanLog};
use crate::{LazyCounter, WindowOptions};

/// Maximum number of conversations that are remembered.
const MAX_CONVERSATIONS: usize = 64;

/// Bytes of messages from which on the tokenizer is worth its 80 ms and 26 MB, if the exact count matters.
const TOKENIZER_MIN_BYTES: usize = 64 * 1024;

/// Owner of the context window: decides which messages of each conversation are sent.
pub(crate) struct WindowOwner {
    pub(crate) options: WindowOptions,
    pub(crate) scope: Scope,
    counter: LazyCounter,
    state: Mutex<State>,
    /// Lock held while records are appended, so that the session keeps the order of decisions.
    storing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Most recently used conversations, newest first. Requests without a conversation id share a separate
    /// state.
    conversations: VecDeque<(Option<ContextId>, ConversationWindow)>,
    spare: ConversationWindow,
    /// Targets in bytes for turns that overflowed; keyed by turn, as several conversations may run at a time.
    pub(crate) targets: HashMap<TurnId, usize>,
}

impl State {
    pub(crate) fn conversation(&mut self, context: Option<&ContextId>) -> &mut ConversationWindow {
        let at = self.conversations.iter().position(|(of, _)| of.as_ref() == context);
        let conversation = at.and_then(|at| self.conversations.remove(at));
        let conversation = conversation.unwrap_or_else(|| (context.cloned(), ConversationWindow::default()));
        self.conversations.truncate(MAX_CONVERSATIONS - 1);
        self.conversations.push_front(conversation);
        match self.conversations.front_mut() {
            Some((_, conversation)) => conversation,
            // Inserted just before.
            None => &mut self.spare,
        }
    }

    pub(crate) fn existing_conversation(&self, context: Option<&ContextId>) -> Option<&ConversationWindow> {
        self.conversations.iter().find(|(of, _)| of.as_ref() == context).map(|(_, conversation)| conversation)
    }
}

impl WindowOwner {
    pub(crate) fn new(options: WindowOptions, scope: Scope) -> Self {
        Self {
            options,
            scope,
            counter: LazyCounter::default(),
            state: Mutex::default(),
            storing: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counter(&self) -> &dyn TokenCounter {
        &self.counter
    }

    /// Counts a long conversation with the tokenizer. Loading it and recounting happen in the background.
    pub(crate) async fn count_exactly(&self, context: Option<&ContextId>) {
        let messages = {
            let mut state = self.lock();
            let conversation = state.conversation(context);
            if self.options.tokenizer
                && conversation.fill.bytes >= TOKENIZER_MIN_BYTES
                && conversation.hinges_on_count
            {
                self.counter.load_in_background();
            }
            if !conversation.ledger.needs_recount(&self.counter) {
                return;
            }
            conversation.ledger.messages()
        };
        let counter = self.counter.clone();
        let count = move || {
            let tokens = |message: &Arc<Message>| count_message(message, &counter);
            messages.into_iter().map(|message| (message.clone(), tokens(&message))).collect::<Vec<_>>()
        };
        if let Ok(counted) = tokio::task::spawn_blocking(count).await {
            self.lock().conversation(context).ledger.store_recounted(counted);
        }
    }

    pub(crate) fn overflowed(&self, event: &ContextOverflow, _: &Cx) {
        let target = Budget::new(&self.options, event.window).target(event.window, event.size);
        self.lock().targets.insert(event.turn_id.clone(), target);
    }

    fn model_selected(&self, event: &ModelSelect) {
        for (_, conversation) in &mut self.lock().conversations {
            // A running turn keeps its old model, whose requests still have to shrink.
            conversation.model.has_changed = true;
            conversation.model.current = Some(event.to.clone());
            conversation.ledger.forget_usage();
            conversation.trigger.reset();
            conversation.announced.pinned_tokens = None;
        }
    }

    /// Measures a conversation for another window; returns the turn of its last request.
    fn measure_for_window(&self, context: &ContextId, window: Option<u64>) -> Option<TurnId> {
        let mut state = self.lock();
        state.existing_conversation(Some(context))?;
        let conversation = state.conversation(Some(context));
        let turn = conversation.turn.clone()?;
        conversation.measure(&Budget::new(&self.options, window), window);
        Some(turn)
    }

    pub(crate) fn run_started(&self, event: &AgentStart, cx: &Cx) {
        if let Some(context) = cx.service::<ContextId>() {
            let mut state = self.lock();
            let conversation = state.conversation(Some(&context));
            conversation.model.current = Some(event.model.clone());
            conversation.overhead = None;
        }
    }

    pub(crate) fn sections_sized(&self, event: &SystemSections, cx: &Cx) {
        if let Some(context) = cx.service::<ContextId>() {
            self.lock().conversation(Some(&context)).sections =
                event.sections.iter().map(|section| section.bytes).sum();
        }
    }

    pub(crate) fn turn_ended(&self, event: &TurnAfter, cx: &Cx) {
        let Some(context) = cx.service::<ContextId>() else { return };
        let usage = &event.usage;
        // Repeated reads of the same tokens within an answer fill the window once.
        let tokens = usage.context() + usage.output;
        let mut state = self.lock();
        let conversation = state.conversation(Some(&context));
        conversation.fill.tokens = (tokens > 0).then_some(tokens);
        // The usage of an interrupted answer is incomplete, and that of another request does not apply.
        if event.error.is_none() && conversation.turn.as_ref() == Some(&event.turn_id) {
            conversation.ledger.anchor(usage, conversation.overhead.unwrap_or_default());
        }
    }

    /// Restores the sent form of a resumed conversation.
    pub(crate) fn loaded(&self, event: &SessionLoaded, cx: &Cx) {
        let restored = record::read(&event.entries, self.scope.source().as_str());
        let context = cx.service::<ContextId>();
        let earlier = cx.service::<dyn SessionLog>().map_or(0, |log| log.earlier());
        let looked_up =
            LiveEntries::looked_up(&event.entries).iter().filter_map(|entry| entry.kind.message()).cloned();
        let mut state = self.lock();
        let conversation = state.conversation(context.as_deref());
        // A compaction that was requested before the conversation was loaded stays requested.
        conversation.trigger.reset();
        *conversation = ConversationWindow {
            model: AskedModel {
                current: conversation.model.current.take(),
                has_changed: false,
                restored_usage: restored.usage,
            },
            trigger: conversation.trigger.clone(),
            wishes: std::mem::take(&mut conversation.wishes),
            plans: PlanLog { taken_back: restored.taken_back, ..PlanLog::default() },
            history: History { earlier, looked_up: looked_up.collect(), ..History::default() },
            ..ConversationWindow::default()
        };
        if earlier > 0 && conversation.plans.taken_back.is_some() {
            // The conversation may have been read again for an undo.
            conversation.trigger.ignore_thresholds();
        }
        if !restored.plans.is_empty() {
            conversation.plans.number =
                restored.plans.iter().map(|plan| plan.number).max().unwrap_or_default();
            conversation.fill.compactions = record::count_compactions(&restored.plans);
            conversation.fill.last = restored.last;
            record::replay(&restored.plans, &mut conversation.view, &record::messages(&event.entries));
            conversation.plans.held = restored.plans;
        }
    }

    /// Appends pending records to the session, if the conversation is stored.
    pub(crate) async fn store(&self, context: Option<&ContextId>, cx: &Cx) -> Result<(), BoxError> {
        if self.lock().conversation(context).plans.unstored.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.storing.lock().await;
        self.store_all(context, None, cx).await.map(drop)
    }

    /// Appends the unstored plans to the session, then `last`; on an error the plans stay unstored and `last` is dropped.
    /// Returns the number of plans before `last`: later plans are appended after it. The caller holds the `storing` lock.
    async fn store_all(
        &self,
        context: Option<&ContextId>,
        last: Option<Record>,
        cx: &Cx,
    ) -> Result<usize, BoxError> {
        let Some(log) = cx.service::<dyn SessionLog>() else {
            let mut state = self.lock();
            let conversation = state.conversation(context);
            conversation.plans.unstored.clear();
            return Ok(conversation.plans.held.len());
        };
        let count = loop {
            let (next, plans) = {
                let mut state = self.lock();
                let conversation = state.conversation(context);
                (conversation.plans.unstored.first().cloned(), conversation.plans.held.len())
            };
            let Some(record) = next else { break plans };
            // If this future is dropped, the next request appends the record.
            log.append(&self.scope, record.to_entry()?).await?;
            let mut state = self.lock();
            let unstored = &mut state.conversation(context).plans.unstored;
            // Another conversation may have been loaded since.
            if unstored.first() == Some(&record) {
                unstored.remove(0);
            }
        };
        if let Some(last) = last {
            log.append(&self.scope, last.to_entry()?).await?;
        }
        Ok(count)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms(cx: &Cx) -> u64 {
    let since = <dyn Clock>::now_in(cx).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Handler<ModelSelect> for WindowOwner {
    async fn call(&self, event: &ModelSelect, cx: &Cx) -> Answer<ModelSelect> {
        if event.from.as_ref() == Some(&event.to) {
            return Ok(None);
        }
        self.model_selected(event);
        let Some(context) = cx.service::<ContextId>() else { return Ok(None) };
        if let Some(turn) = self.measure_for_window(&context, event.window) {
            self.announce_fill(&turn, Some(&context), cx).await?;
        }
        Ok(None)
    }
}

#[async_trait]
impl ContextWindow for WindowOwner {
    fn fill(&self, context: &ContextId) -> Option<WindowFill> {
        self.lock()
            .existing_conversation(Some(context))
            .filter(|conversation| conversation.turn.is_some())
            .map(|conversation| conversation.fill)
    }

    fn sent(&self, context: &ContextId, history: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
        let mut state = self.lock();
        let view = &mut state.conversation(Some(context)).view;
        (!view.is_whole()).then(|| view.sent(history).into_owned())
    }

    fn reduce(&self, context: &ContextId, how: Reduction) {
        let mut state = self.lock();
        let conversation = state.conversation(Some(context));
        conversation.wishes = how;
        conversation.trigger.ask();
    }

    async fn restore(&self, context: &ContextId, cx: &Cx) -> Result<bool, BoxError> {
        // Append the undo before applying it, so that a resumed session matches memory.
        let stored = self.storing.lock().await;
        {
            let mut state = self.lock();
            let plans = &state.conversation(Some(context)).plans;
            if record::count_compactions(&plans.held) == 0 {
                return Ok(false);
            }
            // Another record would also undo the compaction before it.
            if plans.undo_pending == Some(plans.number) {
                return Ok(true);
            }
        }
        let count = self.store_all(Some(context), Some(Record::Undo), cx).await?;
        let mut state = self.lock();
        let conversation = state.conversation(Some(context));
        // Otherwise the omitted messages are available once the host has read the conversation again.
        if conversation.history.earlier == 0 {
            conversation.undo(count);
        } else {
            conversation.plans.undo_pending = Some(conversation.plans.number);
        }
        drop(state);
        drop(stored);
        Ok(true)
    }

    fn take_refusal(&self, context: &ContextId) -> Option<String> {
        self.lock().conversation(Some(context)).refusal.take()
    }
}
