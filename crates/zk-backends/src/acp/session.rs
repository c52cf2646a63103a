use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use zk_core::kernel::Cx;
use zk_core::model::{CheckItem, CheckState, StopReason};

use super::protocol::{PlanEntry, StepUpdate, Update, text_of};
use super::step::Step;
use crate::lock::lock;
use crate::peer::{CallError, Peer};

/// Maximum size of the agent's queued text that the turn has not read, in bytes.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// Maximum number of steps of one prompt.
const MAX_STEPS: usize = 10_000;

/// Blocks of the last prompt, kept until its answer is part of the conversation.
pub(crate) type Delivered = Arc<Mutex<Vec<Value>>>;

/// One session of the agent.
pub(crate) struct AcpSession {
    /// Session id of the agent.
    pub(crate) id: String,
    delivered: Delivered,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

/// Item in the queue from a session to its turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Text(String),
    Thought(String),
    /// A step with this id began.
    Step(String),
    Plan(Vec<CheckItem>),
    /// The prompt is answered.
    End(Result<StopReason, PromptFailure>),
}

/// Reason why a prompt has no complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptFailure {
    /// The agent stopped because it was told to.
    Cancelled,
    /// The agent requires a sign-in.
    SignIn(String),
    /// The agent has ended.
    Gone(String),
    /// The agent answered with an error.
    Refused(String),
}

/// Context and working directory of the session's current run.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) cx: Cx,
    pub(crate) cwd: PathBuf,
}

#[derive(Default)]
struct State {
    phase: Phase,
    waiting: VecDeque<Item>,
    waiting_bytes: usize,
    steps: BTreeMap<String, Step>,
    /// Ids of steps with only a title. They are queued once more is known, or when other content follows.
    bare: Vec<String>,
    place: Option<Place>,
    is_cancelled: bool,
    /// Items of the last plan.
    plan: Vec<String>,
    /// Whether updates replay the history of a loaded session.
    is_replaying: bool,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Prompted,
    Over(Result<StopReason, PromptFailure>),
}

impl AcpSession {
    pub(crate) fn new(id: String, delivered: Delivered, is_replaying: bool) -> Arc<Self> {
        let state = State { is_replaying, ..State::default() };
        Arc::new(Self { id, delivered, state: Mutex::new(state), changes: watch::channel(0).0 })
    }

    /// Ends the replay of a loaded session's history.
    pub(crate) fn end_replay(&self) {
        self.lock_state().is_replaying = false;
    }

    /// Applies an update of the agent.
    ///
    /// # Errors
    /// A message, when the agent sends more than anybody reads.
    pub(crate) fn update(&self, update: Update) -> Result<(), String> {
        let result = {
            let mut state = self.lock_state();
            if state.is_replaying || matches!(state.phase, Phase::Idle | Phase::Over(_)) {
                return Ok(());
            }
            match update {
                Update::AgentMessageChunk { content } => {
                    state.queue_after_steps(Item::Text(text_of(&content)))
                }
                Update::AgentThoughtChunk { content } => {
                    state.queue_after_steps(Item::Thought(text_of(&content)))
                }
                Update::StepBegan(step) | Update::StepChanged(step) => state.update_step(step),
                Update::Plan { entries } => state.queue_after_steps(Item::Plan(check_items(&entries))),
                Update::Other => Ok(()),
            }
        };
        self.notify_change();
        result
    }

    /// Sends a prompt. Its answer arrives in the queue as [`Item`]s.
    pub(crate) fn prompt(self: &Arc<Self>, peer: &Arc<Peer>, prompt: Vec<Value>, place: Place) {
        {
            let mut state = self.lock_state();
            state.phase = Phase::Prompted;
            state.waiting.clear();
            state.waiting_bytes = 0;
            state.steps.clear();
            state.bare.clear();
            state.place = Some(place);
            state.is_cancelled = false;
        }
        let (session, peer) = (self.clone(), peer.clone());
        tokio::spawn(async move {
            let params = json!({ "sessionId": session.id, "prompt": prompt });
            let answer = peer.request("session/prompt", params).await;
            session.finish_prompt(answer);
        });
    }

    fn finish_prompt(&self, answer: Result<Value, CallError>) {
        let over = match answer {
            Ok(answer) => stop_reason(&answer),
            Err(CallError::Refused { code: crate::peer::AUTH_REQUIRED, message }) => {
                Err(PromptFailure::SignIn(message))
            }
            Err(CallError::Gone(why)) => Err(PromptFailure::Gone(why)),
            Err(error) => Err(PromptFailure::Refused(error.to_string())),
        };
        {
            let mut state = self.lock_state();
            let over = if state.is_cancelled { Err(PromptFailure::Cancelled) } else { over };
            let why = match &over {
                Ok(_) => "the agent ended its turn without saying how this went".to_owned(),
                Err(PromptFailure::Cancelled) => "stopped".to_owned(),
                Err(PromptFailure::Gone(why) | PromptFailure::Refused(why) | PromptFailure::SignIn(why)) => {
                    why.clone()
                }
            };
            state.steps.values_mut().for_each(|step| step.fail_if_unfinished(&why));
            state.queue_bare_steps();
            state.phase = Phase::Over(over);
        }
        self.notify_change();
    }

    /// Cancels the prompt unless it is cancelled already; returns whether it was cancelled now.
    pub(crate) fn cancel(&self, peer: &Peer) -> bool {
        {
            let mut state = self.lock_state();
            if !matches!(state.phase, Phase::Prompted) {
                return false;
            }
            if std::mem::replace(&mut state.is_cancelled, true) {
                return true;
            }
        }
        peer.notify("session/cancel", &json!({ "sessionId": self.id }));
        self.notify_change();
        true
    }

    /// Waits until no prompt is in progress.
    pub(crate) async fn wait_for_prompt_end(&self) {
        let mut changes = self.changes.subscribe();
        while matches!(self.lock_state().phase, Phase::Prompted) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits for the next item. The end of the prompt, once taken, closes the prompt. Cancel-safe.
    pub(crate) async fn next(&self) -> Item {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(item) = self.take_prompt_end() {
                return item;
            }
            if changes.changed().await.is_err() {
                return Item::End(Err(PromptFailure::Gone("it has ended".to_owned())));
            }
        }
    }

    fn take_prompt_end(&self) -> Option<Item> {
        let mut state = self.lock_state();
        if let Some(item) = state.take_item() {
            return Some(item);
        }
        match std::mem::take(&mut state.phase) {
            Phase::Over(over) => {
                state.place = None;
                Some(Item::End(over))
            }
            phase => {
                state.phase = phase;
                None
            }
        }
    }

    /// Takes the next item if it is a step or a plan.
    pub(crate) fn take_step_or_plan(&self) -> Option<Item> {
        let mut state = self.lock_state();
        match state.waiting.front() {
            Some(Item::Step(_) | Item::Plan(_)) => state.take_item(),
            _ => None,
        }
    }

    /// Whether a prompt is unanswered, or its end was not taken yet.
    pub(crate) fn has_open_prompt(&self) -> bool {
        !matches!(self.lock_state().phase, Phase::Idle)
    }

    /// Discards the remaining items of a prompt that has ended.
    pub(crate) fn discard_prompt(&self) {
        let mut state = self.lock_state();
        state.phase = Phase::Idle;
        state.waiting.clear();
        state.waiting_bytes = 0;
        state.place = None;
    }

    /// Returns the current state of a step.
    pub(crate) fn current_step(&self, id: &str) -> Option<Step> {
        self.lock_state().steps.get(id).cloned()
    }

    /// Waits until a step has ended; meanwhile passes its text to `progress`.
    pub(crate) async fn wait_for_step(&self, id: &str, progress: impl Fn(&str)) -> Option<Step> {
        let mut changes = self.changes.subscribe();
        let mut shown = String::new();
        loop {
            let step = self.current_step(id)?;
            if step.is_over() {
                return Some(step);
            }
            let text = step.text();
            if let Some(more) = text.strip_prefix(shown.as_str()) {
                progress(more);
            }
            shown = text;
            changes.changed().await.ok()?;
        }
    }

    /// Returns a step with the details of a request for permission applied.
    pub(crate) fn step_of_request(&self, update: StepUpdate) -> Step {
        let asked = {
            let mut state = self.lock_state();
            // A request may be about a step that the agent does not show.
            let mut asked = state.steps.get(&update.tool_call_id).cloned().unwrap_or_default();
            asked.update(update.clone());
            if let Some(step) = state.steps.get_mut(&update.tool_call_id) {
                step.update(update.without_words());
            }
            state.queue_bare_steps();
            asked
        };
        self.notify_change();
        asked
    }

    /// Whether a plan differs from the last one in its items, beyond their state.
    pub(crate) fn has_changed_items(&self, items: &[CheckItem]) -> bool {
        let items: Vec<String> = items.iter().map(|item| item.text.clone()).collect();
        let mut state = self.lock_state();
        let before = std::mem::replace(&mut state.plan, items);
        before != state.plan
    }

    /// Returns the place of the current run, unless it was cancelled.
    pub(crate) fn active_place(&self) -> Option<Place> {
        let state = self.lock_state();
        state.place.clone().filter(|_| matches!(state.phase, Phase::Prompted) && !state.is_cancelled)
    }

    /// Sets the context and working directory for the agent's later requests.
    pub(crate) fn set_place(&self, place: Place) {
        self.lock_state().place = Some(place);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock_state().is_cancelled
    }

    pub(crate) fn store_delivered(&self, blocks: Vec<Value>) {
        *lock(&self.delivered) = blocks;
    }

    /// Clears the delivered blocks, since their answer is part of the conversation.
    pub(crate) fn clear_delivered(&self) {
        lock(&self.delivered).clear();
    }

    /// Removes the blocks that the agent already received with an earlier prompt that failed without an
    /// answer.
    pub(crate) fn without_delivered(&self, mut blocks: Vec<Value>) -> Vec<Value> {
        let delivered = lock(&self.delivered);
        if blocks.len() > delivered.len() && blocks.starts_with(&delivered) {
            blocks.drain(..delivered.len());
        }
        blocks
    }

    fn notify_change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Queues content after all earlier steps.
    fn queue_after_steps(&mut self, item: Item) -> Result<(), String> {
        self.queue_bare_steps();
        self.queue(item)
    }

    /// Queues the steps with a title only.
    fn queue_bare_steps(&mut self) {
        let steps = std::mem::take(&mut self.bare).into_iter().map(Item::Step);
        self.waiting.extend(steps);
    }

    /// Queues content; text is appended to preceding text.
    fn queue(&mut self, item: Item) -> Result<(), String> {
        if let Item::Text(text) | Item::Thought(text) = &item {
            self.waiting_bytes += text.len();
            if self.waiting_bytes > MAX_WAITING_BYTES {
                let megabytes = MAX_WAITING_BYTES >> 20;
                return Err(format!("it sent more than {megabytes} MB that nobody could read in time"));
            }
        }
        match (self.waiting.back_mut(), item) {
            (Some(Item::Text(before)), Item::Text(more))
            | (Some(Item::Thought(before)), Item::Thought(more)) => before.push_str(&more),
            (Some(Item::Plan(before)), Item::Plan(plan)) => *before = plan,
            (_, item) => self.waiting.push_back(item),
        }
        Ok(())
    }

    fn take_item(&mut self) -> Option<Item> {
        let item = self.waiting.pop_front()?;
        if let Item::Text(text) | Item::Thought(text) = &item {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(text.len());
        }
        Some(item)
    }

    fn update_step(&mut self, update: StepUpdate) -> Result<(), String> {
        let id = update.tool_call_id.clone();
        if let Some(step) = self.steps.get_mut(&id) {
            step.update(update);
            if !step.has_only_title() && self.bare.contains(&id) {
                self.queue_bare_steps();
            }
            return Ok(());
        }
        if self.steps.len() >= MAX_STEPS {
            return Err(format!("it began more than {MAX_STEPS} tool calls for one prompt"));
        }
        let mut step = Step::default();
        step.update(update);
        let is_bare = step.has_only_title();
        self.steps.insert(id.clone(), step);
        if is_bare {
            self.bare.push(id);
            return Ok(());
        }
        self.queue_after_steps(Item::Step(id))
    }
}

fn check_items(entries: &[PlanEntry]) -> Vec<CheckItem> {
    let state = |status: &str| match status {
        "completed" => CheckState::Done,
        "in_progress" => CheckState::Current,
        _ => CheckState::Open,
    };
    entries
        .iter()
        .map(|entry| CheckItem { text: entry.content.clone(), state: state(&entry.status) })
        .collect()
}

fn stop_reason(answer: &Value) -> Result<StopReason, PromptFailure> {
    match answer.get("stopReason").and_then(Value::as_str) {
        Some("end_turn") => Ok(StopReason::EndTurn),
        Some("max_tokens") => Ok(StopReason::MaxTokens),
        Some("refusal") => Ok(StopReason::Refusal(None)),
        Some("cancelled") => Err(PromptFailure::Cancelled),
        Some(other) => Ok(StopReason::Other(other.to_owned())),
        None => Err(PromptFailure::Refused("its answer to the prompt has no `stopReason`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use zk_core::kernel::Bus;

    use super::*;

    fn step_began(fields: &Value) -> Update {
        let mut update =
            json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "title": "shell", "status": "pending" });
        let own = fields.as_object().cloned().unwrap_or_default();
        update.as_object_mut().unwrap().extend(own);
        serde_json::from_value(update).unwrap()
    }

    #[test]
    fn a_step_with_nothing_but_a_title_is_shown_once_more_is_known_or_anything_else_happens() {
        let text =
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "t" } });
        let text: Update = serde_json::from_value(text).unwrap();
        let step = Item::Step("a".to_owned());
        let more = [
            (step_began(&json!({ "rawInput": { "command": "ls" } })), vec![step.clone()]),
            (step_began(&json!({ "status": "in_progress" })), vec![step.clone()]),
            (text, vec![step, Item::Text("t".to_owned())]),
            (step_began(&json!({ "title": "other" })), Vec::new()),
        ];
        for (more, shown) in more {
            let session = AcpSession::new("s".to_owned(), Arc::default(), false);
            session.lock_state().phase = Phase::Prompted;
            session.set_place(Place { cx: Bus::new().cx(), cwd: PathBuf::from("/") });
            session.update(step_began(&json!({}))).unwrap();
            assert_eq!(session.lock_state().take_item(), None);
            session.update(more).unwrap();
            let items: Vec<Item> = std::iter::from_fn(|| session.lock_state().take_item()).collect();
            assert_eq!(items, shown);
        }
    }
}
