//! Strategies that track the agent's subgoals, and keep the messages of the current one longest.

mod extract;
mod registry;
mod score;
mod stored;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use zk_core::events::SessionLoaded;
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::model::{Message, MessageId, Role};
use zk_core::service::{
    ContextId, DebugDump, RunControl, SessionLog, WindowCause, WindowPlan, WindowStrategy, WindowView,
};

use self::extract::Extracted;
use self::registry::{Registry, Tier};
use self::score::Block;
use self::stored::Record;
use crate::plan::cut::{self, is_prompt};
use crate::strategies::summary::{self, is_from_before};
use crate::text::short_results::{answer_before, without_results};
use crate::window::plugin;

/// Number of turns after which the model is asked for its subgoal again.
const MAX_TURNS_BETWEEN_QUESTIONS: usize = 6;

/// Failed answers in a row after which the model is not asked before the next prompt.
const MAX_FAILURES: u32 = 3;

/// Expected size of a summary, in bytes.
const EXPECTED_SUMMARY_BYTES: usize = 16_000;

/// Maximum number of conversations whose subgoals are remembered.
const MAX_CONVERSATIONS: usize = 64;

/// Keeps the messages of the current subgoal; leaves out first the results of no subgoal, then those of
/// completed ones.
///
/// The run's model is asked now and then for its current subgoal, in a background request about the newest
/// messages. When the conversation has to shrink, results are left out by their subgoal. If that is not
/// enough, a summary replaces the oldest messages, as few as possible, and messages of the current subgoal
/// only if they alone fill the window. Subgoals are stored with the conversation, and restored when it is
/// resumed.
///
/// [`Subgoal::by_gain`] also considers the information of a result that no more relevant one contains.
///
/// Contradicts [`Tail`](crate::Tail), which leaves results out by age alone: installing both on one bus
/// fails.
///
/// ```
/// use zk_compaction::{Shorten, Subgoal, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default())?;
/// bus.install(&Subgoal::default())?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Subgoal {
    gain: bool,
}

impl Subgoal {
    /// Variant that removes the less relevant of two results with the same information first (`subgoal_mig`).
    #[must_use]
    pub fn by_gain() -> Self {
        Self { gain: true }
    }
}

/// Name of the strategies on the bus.
pub(crate) const SUBGOAL: &str = "subgoal";

impl Plugin for Subgoal {
    fn name(&self) -> &'static str {
        "compaction-subgoal"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        plugin::refuse_beside(scope, SUBGOAL, crate::strategies::tail::TAIL)?;
        let state = Arc::<Mutex<Conversations>>::default();
        let (known, source) = (state.clone(), scope.source().to_string());
        scope.on_sync_at(Reach::Own, move |event: &SessionLoaded, cx: &Cx| {
            let registry = stored::restore(&event.entries, &source);
            let context = cx.service::<ContextId>().map(|context| (*context).clone());
            lock(&known).insert(context, ConversationState::resumed(registry));
        });
        plugin::register(scope, SUBGOAL, Subgoals { gain: self.gain, scope: scope.clone(), state })
    }
}

struct Subgoals {
    gain: bool,
    scope: Scope,
    state: Arc<Mutex<Conversations>>,
}

type Conversations = HashMap<Option<ContextId>, ConversationState>;

/// State of one conversation.
#[derive(Default)]
struct ConversationState {
    registry: Registry,
    /// Position in the conversation of the last question to the model.
    asked: Option<usize>,
    /// Number of turns since the last question.
    turns: usize,
    failures: u32,
    at_work: bool,
    /// Records that are not stored yet.
    unstored: Vec<Record>,
}

impl ConversationState {
    /// State of a resumed conversation; with a known subgoal the model is not asked at once.
    fn resumed(registry: Registry) -> Self {
        let asked = registry.active().map(|_| registry.position());
        Self { registry, asked, ..Self::default() }
    }
}

fn lock(state: &Mutex<Conversations>) -> MutexGuard<'_, Conversations> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl WindowStrategy for Subgoals {
    fn order(&self) -> i32 {
        500
    }

    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        let context = cx.service::<ContextId>().map(|context| (*context).clone());
        self.add_messages(view.messages, context.clone(), cx);
        match view.cause {
            WindowCause::Turn | WindowCause::Soft => Ok(None),
            WindowCause::Full => {
                let known = lock(&self.state)
                    .get(&context)
                    .map(|conversation| Known::of(&conversation.registry, view.messages));
                self.compact(view, known.unwrap_or_default(), cx).await
            }
        }
    }
}

/// Parts of the registry that one plan needs.
#[derive(Default)]
struct Known {
    tiers: Vec<Tier>,
    active_from: Option<usize>,
    notes: Option<String>,
    dump: String,
}

impl Known {
    fn of(registry: &Registry, messages: &[Arc<Message>]) -> Self {
        Self {
            tiers: (0..messages.len()).map(|index| registry.tier(index)).collect(),
            active_from: registry.active_from(),
            notes: notes_for_summary(registry),
            dump: registry.dump(),
        }
    }
}

impl Subgoals {
    /// Adds the messages, and asks the model in the background if the subgoal may have changed.
    fn add_messages(&self, messages: &[Arc<Message>], context: Option<ContextId>, cx: &Cx) {
        let mut state = lock(&self.state);
        if state.len() >= MAX_CONVERSATIONS && !state.contains_key(&context) {
            state.retain(|_, conversation| conversation.at_work);
        }
        let conversation = state.entry(context.clone()).or_default();
        let before = conversation.registry.position();
        conversation.registry.extend(messages);
        let new = conversation.registry.position().saturating_sub(before).min(messages.len());
        let new = messages.get(messages.len() - new..).unwrap_or_default();
        conversation.turns += extract::turns(new);
        let is_asked = new.iter().any(|message| is_prompt(message));
        if is_asked {
            conversation.failures = 0;
        }
        let is_due =
            conversation.asked.is_none() || is_asked || conversation.turns >= MAX_TURNS_BETWEEN_QUESTIONS;
        // A single prompt without an answer is the subgoal by itself.
        let is_answered = messages.iter().any(|message| message.role == Role::Assistant);
        let is_worth = is_answered && conversation.failures < MAX_FAILURES;
        if is_due
            && is_worth
            && !conversation.at_work
            && let Some(run) = cx.service::<dyn RunControl>()
        {
            let position = conversation.registry.position();
            (conversation.asked, conversation.turns, conversation.at_work) = (Some(position), 0, true);
            let active = conversation.registry.active().map(|active| active.text.clone());
            let call = extract::request(self.scope.source(), messages, active.as_deref());
            let at = QuestionPosition { position, after: messages.last().and_then(|last| last.id.clone()) };
            let work = AtWork { state: self.state.clone(), context };
            let (log, scope) = (cx.service::<dyn SessionLog>(), self.scope.clone());
            self.scope.spawn(async move {
                let answer = run.side_call(call).await;
                let extracted =
                    answer.map_or_else(|_| Extracted::default(), |answer| extract::parse(&answer.text));
                work.apply_answer(extracted, &at);
                work.store_records(log.as_deref(), &scope).await;
            });
        }
    }

    async fn compact(
        &self,
        view: &WindowView<'_>,
        known: Known,
        cx: &Cx,
    ) -> Result<Option<WindowPlan>, BoxError> {
        if let Some(dump) = cx.service::<dyn DebugDump>() {
            dump.write("subgoal-registry", &known.dump);
        }
        let messages = view.messages;
        let Some(old) = cut::find(messages, view.keep) else { return Ok(None) };
        let mut plan = WindowPlan::default();
        let mut size = view.bytes;
        for index in self.results_to_omit(messages, old.end, &known.tiers).await? {
            if size <= view.target {
                break;
            }
            if let Some(message) = messages.get(index)
                && let Some((new, results)) = without_results(message, answer_before(messages, index))
            {
                size = size.saturating_sub(message.size().saturating_sub(new.size()));
                plan.results += results;
                plan.replace.push((index, new));
            }
        }
        if size <= view.target {
            return Ok((plan.results > 0).then_some(plan));
        }
        let limit = old.end.min(protected_from(messages, known.active_from, view.target));
        let Some(cut) = oldest_to_omit(messages, &plan, limit, view.target) else {
            return Ok((plan.results > 0).then_some(plan));
        };
        match summary::of(self.scope.source(), view, cut.clone(), known.notes.as_deref(), cx).await {
            Ok(Some(summary)) => {
                plan.replace.retain(|(index, _)| *index >= cut.end);
                plan.results = plan.replace.iter().map(|(_, new)| new.results().count()).sum();
                Ok(Some(plan.cut(cut, vec![summary])))
            }
            Ok(None) => Ok((plan.results > 0).then_some(plan)),
            Err(error) if plan.results == 0 => Err(error),
            // The results leave without a summary, too; the next strategy does the rest.
            Err(_) => Ok(Some(plan)),
        }
    }

    /// Indices of the messages before `end` whose results may be left out, in this order.
    async fn results_to_omit(
        &self,
        messages: &[Arc<Message>],
        end: usize,
        tiers: &[Tier],
    ) -> Result<Vec<usize>, BoxError> {
        let gain = self.gain;
        let blocks = messages.iter().zip(tiers).enumerate().filter(|(_, (message, _))| {
            // A message that represents omitted ones has no results.
            !is_from_before(message) && message.results().next().is_some()
        });
        let block = |(index, (message, tier)): (usize, (&Arc<Message>, &Tier))| {
            let mut text = String::new();
            if gain {
                for result in message.results() {
                    text.push_str(&result.content.to_text());
                    text.push('\n');
                }
            }
            Block { index, tier: *tier, text }
        };
        let blocks: Vec<Block> = blocks.map(block).collect();
        let mut order = if gain {
            tokio::task::spawn_blocking(move || score::order_by_gain(&blocks)).await?
        } else {
            score::order_by_tier(&blocks)
        };
        order.retain(|index| *index < end);
        Ok(order)
    }
}

/// Range of the oldest messages to leave out, as few as needed: the rest, as `plan` sends it, and a summary
/// have to fit. Ends before `limit`.
fn oldest_to_omit(
    messages: &[Arc<Message>],
    plan: &WindowPlan,
    limit: usize,
    target: usize,
) -> Option<Range<usize>> {
    let room = target.saturating_sub(EXPECTED_SUMMARY_BYTES.min(target / 4));
    let mut sizes: Vec<usize> = messages.iter().map(|message| message.size()).collect();
    for (index, new) in &plan.replace {
        if let Some(size) = sizes.get_mut(*index) {
            *size = new.size();
        }
    }
    let mut rest: usize = sizes.iter().sum();
    let too_much = sizes.iter().take_while(|size| {
        let is_too_much = rest > room;
        rest = rest.saturating_sub(**size);
        is_too_much
    });
    let end = too_much.count().max(1);
    // Rounded up: one message more is better than a conversation that is still too large.
    let is_cut = |at: &usize| messages.get(*at).is_some_and(|message| message.results().next().is_none());
    let first = (end..=limit).find(is_cut).unwrap_or(limit);
    // A cut before a prompt is preferred, so that no turn loses its beginning.
    let size = |from: usize, to: usize| sizes.iter().take(to).skip(from).sum::<usize>();
    let asked = (first..=limit).find(|at| messages.get(*at).is_some_and(|message| is_prompt(message)));
    let end = asked.filter(|at| size(first, *at) <= target / 8).unwrap_or(first);
    cut::omitted_range(messages, end)
}

/// Index of the first protected message of the active subgoal: the newest ones, in up to three quarters of
/// `target`.
fn protected_from(messages: &[Arc<Message>], active_from: Option<usize>, target: usize) -> usize {
    let Some(active_from) = active_from else { return messages.len() };
    let room = target / 4 * 3;
    let mut size = 0;
    let newest = messages.iter().enumerate().rev().take_while(|(_, message)| {
        size += message.size();
        size <= room
    });
    let fitting = newest.last().map_or(messages.len(), |(at, _)| at);
    active_from.max(fitting)
}

/// Notes on the subgoals for the summariser; `None` without subgoals.
fn notes_for_summary(registry: &Registry) -> Option<String> {
    let done: Vec<&str> = registry.completed().collect();
    let active = registry.active().map(|active| active.text.as_str());
    if done.is_empty() && active.is_none() {
        return None;
    }
    let newest = done.get(done.len().saturating_sub(20)..).unwrap_or_default().join("; ");
    let done =
        if newest.is_empty() { String::new() } else { format!("Finished steps, oldest first: {newest}. ") };
    let active = active.map(|active| format!("The present step, whose newest part stays: {active}."));
    Some(format!("{done}{}", active.unwrap_or_default()))
}

/// Position in a conversation at which the model was asked for its subgoal.
struct QuestionPosition {
    position: usize,
    /// Id of the last message before the position, if it has one.
    after: Option<MessageId>,
}

/// Running request about a conversation; the drop marks it as done.
struct AtWork {
    state: Arc<Mutex<Conversations>>,
    context: Option<ContextId>,
}

impl AtWork {
    fn apply_answer(&self, extracted: Extracted, at: &QuestionPosition) {
        let mut state = lock(&self.state);
        let Some(conversation) = state.get_mut(&self.context) else { return };
        if extracted == Extracted::default() {
            conversation.failures += 1;
            return;
        }
        conversation.failures = 0;
        if extracted.is_completed && conversation.registry.active().is_some() {
            conversation.registry.complete(at.position);
            conversation.unstored.push(Record::Completed { after: at.after.clone() });
        }
        let Some(subgoal) = extracted.subgoal else { return };
        let is_same =
            conversation.registry.active().is_some_and(|active| active.text.eq_ignore_ascii_case(&subgoal));
        if !is_same {
            conversation.registry.begin(subgoal.clone(), at.position);
            conversation.unstored.push(Record::Preparation { text: subgoal, after: at.after.clone() });
        }
    }

    /// Stores the pending records; failed ones are tried again with the next change.
    async fn store_records(&self, log: Option<&dyn SessionLog>, scope: &Scope) {
        let records = lock(&self.state)
            .get_mut(&self.context)
            .map(|conversation| std::mem::take(&mut conversation.unstored));
        let (Some(log), Some(records)) = (log, records) else { return };
        let left = stored::append(records, log, scope).await;
        if let Some(conversation) = lock(&self.state).get_mut(&self.context) {
            conversation.unstored.splice(0..0, left);
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(conversation) = lock(&self.state).get_mut(&self.context) {
            conversation.at_work = false;
        }
    }
}
