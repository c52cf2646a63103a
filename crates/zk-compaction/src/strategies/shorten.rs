use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Message, Role};
use zk_core::service::{WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::plan::cut::is_prompt;
use crate::strategies::summary::summary_of;
use crate::text::short_results::{answer_before, clipped, without_results};
use crate::window::plugin;
use crate::window::view::is_pinned;

/// Smallest result of the newest turn that is clipped, in bytes.
const MIN_RESULT_BYTES: usize = 1024;

/// Source of the note about omitted messages.
const NOTE: &str = "compaction";

/// Last resort among the strategies: makes a conversation fit its model's window without a model.
///
/// A conversation that fits is not changed. Otherwise it leaves out, until the target is reached, the tool
/// results before the newest turn, the oldest messages except the first, and the middle of the newest
/// results.
///
/// ```
/// use zk_compaction::{Shorten, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default()).unwrap();
/// bus.install(&Shorten).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Shorten;

impl Plugin for Shorten {
    fn name(&self) -> &'static str {
        "compaction-shorten"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        plugin::register(scope, "shorten", *self)
    }
}

#[async_trait]
impl WindowStrategy for Shorten {
    fn order(&self) -> i32 {
        900
    }

    async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        Ok(match view.cause {
            WindowCause::Turn | WindowCause::Soft => None,
            WindowCause::Full => Some(plan_shortening(view)),
        })
    }
}

fn plan_shortening(view: &WindowView<'_>) -> WindowPlan {
    let target = view.target;
    let mut messages = view.messages.to_vec();
    let answered = messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
    // Pinned messages are attached again in any case.
    let mut size = size_of(&messages);
    let mut plan = WindowPlan::default();
    let mut replace = |at: usize, message: &mut Arc<Message>, (new, results): (Arc<Message>, usize)| {
        plan.results += results;
        plan.replace.push((at, new.clone()));
        *message = new;
    };
    for (at, message) in messages.iter_mut().enumerate().take(answered) {
        if size <= target {
            break;
        }
        if let Some(new) = without_results(message, answer_before(view.messages, at)) {
            size = size.saturating_sub(message.size().saturating_sub(new.0.size()));
            replace(at, message, new);
        }
    }
    let cut = (size > target).then(|| oldest_to_omit(&messages, answered, target)).flatten();
    if let Some((start, end)) = cut {
        size = size.saturating_sub(size_of(messages.get(start..end).unwrap_or_default()));
    }
    if size > target {
        let newest = messages.get(answered..).unwrap_or_default();
        let results: usize = newest.iter().map(|message| message.results().count()).sum();
        let share = (target / 2 / results.max(1)).max(MIN_RESULT_BYTES);
        for (at, message) in messages.iter_mut().enumerate().skip(answered) {
            if let Some(new) = clipped(message, answer_before(view.messages, at), share) {
                replace(at, message, new);
            }
        }
    }
    let Some((start, end)) = cut else { return plan };
    let notes = messages
        .get(start..end)
        .unwrap_or_default()
        .iter()
        .filter(|message| stands_for_omitted(message))
        .count();
    let gone = view.left_out + (end - start) - notes;
    let note = format!(
        "[{gone} earlier message{} left out here to save context: what follows goes on later in the same conversation.]",
        if gone == 1 { " was" } else { "s were" }
    );
    plan.cut(start..end, vec![Message::injected(note, NOTE).shared()])
}

/// Range of the oldest messages to leave out: as few as needed, and none of the newest turn.
fn oldest_to_omit(messages: &[Arc<Message>], answered: usize, target: usize) -> Option<(usize, usize)> {
    // The task, or a summary of earlier work, is kept unless it fills the window itself.
    let is_summary = |message: &Arc<Message>| summary_of(message).is_some();
    let first = messages.first().filter(|first| is_prompt(first) || is_summary(first));
    let second = first.and_then(|_| messages.get(1)).filter(|second| is_summary(second));
    let mut kept = 0;
    let fits = |message: &&Arc<Message>| {
        kept += message.size();
        kept <= target / 4
    };
    let start = first.into_iter().chain(second).take_while(fits).count();
    let kept = size_of(messages.get(..start).unwrap_or_default());
    let mut rest = size_of(messages.get(start..).unwrap_or_default());
    let mut best = None;
    for (at, message) in messages.iter().enumerate().take(answered + 1).skip(start) {
        let leaves =
            messages.get(start..at).unwrap_or_default().iter().any(|message| !stands_for_omitted(message));
        // A result must not stay without its call.
        if leaves && message.results().next().is_none() {
            best = Some((start, at));
            if kept + rest <= target {
                break;
            }
        }
        rest = rest.saturating_sub(size_of(std::slice::from_ref(message)));
    }
    best
}

/// Bytes of the messages that may be left out.
fn size_of(messages: &[Arc<Message>]) -> usize {
    messages.iter().filter(|message| !is_pinned(message)).map(|message| message.size()).sum()
}

/// Whether a message represents omitted ones.
fn stands_for_omitted(message: &Arc<Message>) -> bool {
    message.injected_by.as_deref() == Some(NOTE) || is_pinned(message)
}
