use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Message, Role};
use zk_core::service::{ContextId, WindowPlan, WindowStrategy, WindowView};

use crate::text::short_results::{answer_before, result_bytes, without_results};
use crate::window::plugin;

/// Leaves old tool results out of requests once all results together exceed a threshold; the newest turns
/// keep theirs. Texts, images and the stored history are not changed.
///
/// Omitted results stay out, and more are left out only when the rest exceeds the threshold again. So the
/// prompt cache's prefix changes rarely, not with every turn.
#[derive(Clone, Debug)]
pub struct Tail {
    threshold: usize,
    keep_turns: usize,
    summed: Arc<Mutex<HashMap<Option<ContextId>, Summed>>>,
}

/// Name of the strategy on the bus.
pub(crate) const TAIL: &str = "tail";

/// Maximum number of conversations whose sums of results are cached.
const CACHED_SUMS: usize = 64;

/// Bytes of a conversation's results up to a message. Results that were replaced since count fully, so the
/// Index of the first message that counts.
#[derive(Debug)]
struct Summed {
    /// First message that counts.
    from: usize,
    last: Arc<Message>,
    count: usize,
    bytes: usize,
}

impl Default for Tail {
    /// Threshold of 128 KiB of results; the newest four turns are kept.
    fn default() -> Self {
        Self { threshold: 131_072, keep_turns: 4, summed: Arc::default() }
    }
}

impl Tail {
    /// Sets the threshold in bytes: if all results together are larger, old ones are left out. Sizes are
    /// measured by [`output_bytes`](zk_core::model::output_bytes).
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    /// Sets the number of newest turns whose results are always kept.
    #[must_use]
    pub fn keep_turns(mut self, turns: usize) -> Self {
        self.keep_turns = turns;
        self
    }
}

impl Tail {
    /// Upper bound for the bytes of sent results, updated with each turn from a cached sum.
    fn max_result_bytes(&self, view: &WindowView<'_>, cx: &Cx) -> usize {
        let (messages, from) = (view.messages, view.taken_back);
        let Some(last) = messages.last() else { return 0 };
        let context = cx.service::<ContextId>().map(|context| (*context).clone());
        let mut summed = self.summed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = summed.remove(&context).filter(|known| {
            let end = known.count.checked_sub(1).and_then(|end| messages.get(end));
            known.from == from && end.is_some_and(|end| Arc::ptr_eq(end, &known.last))
        });
        let (count, bytes) = known.map_or((from, 0), |known| (known.count, known.bytes));
        let bytes = bytes + (count..messages.len()).map(|at| result_bytes(messages, at)).sum::<usize>();
        if summed.len() >= CACHED_SUMS {
            summed.clear();
        }
        summed.insert(context, Summed { from, last: last.clone(), count: messages.len(), bytes });
        bytes
    }

    fn forget_byte_sum(&self, cx: &Cx) {
        let context = cx.service::<ContextId>().map(|context| (*context).clone());
        self.summed.lock().unwrap_or_else(PoisonError::into_inner).remove(&context);
    }
}

impl Plugin for Tail {
    fn name(&self) -> &'static str {
        "compaction-tail"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        plugin::refuse_beside(scope, TAIL, crate::strategies::subgoal::SUBGOAL)?;
        plugin::register(scope, TAIL, self.clone())
    }
}

#[async_trait]
impl WindowStrategy for Tail {
    fn order(&self) -> i32 {
        100
    }

    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if self.max_result_bytes(view, cx) <= self.threshold {
            return Ok(None);
        }
        self.forget_byte_sum(cx);
        let counted = view.taken_back..view.messages.len();
        let bytes: usize = counted.map(|at| result_bytes(view.messages, at)).sum();
        if bytes <= self.threshold {
            return Ok(None);
        }
        let mut plan = WindowPlan::default();
        let old = old_results(view.messages, self.keep_turns).filter(|(at, _)| *at >= view.taken_back);
        for (at, message) in old {
            if let Some((new, results)) = without_results(message, answer_before(view.messages, at)) {
                plan.results += results;
                plan.replace.push((at, new));
            }
        }
        Ok((plan.results > 0).then_some(plan))
    }
}

/// Messages with results before the newest `keep` turns, oldest first.
fn old_results(messages: &[Arc<Message>], keep: usize) -> impl Iterator<Item = (usize, &Arc<Message>)> {
    let turns = messages.iter().filter(|message| message.role == Role::Assistant).count();
    let mut seen = 0;
    messages.iter().enumerate().filter(move |(at, message)| {
        if message.role == Role::Assistant {
            seen += 1;
        }
        seen + keep <= turns && result_bytes(messages, *at) > 0
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::events::ContextTransform;
    use zk_core::kernel::Bus;
    use zk_core::model::{Block, ToolCall};

    use super::*;
    use crate::Window;
    use crate::text::short_results::STUB;

    fn turn(number: usize, bytes: usize) -> [Arc<Message>; 2] {
        let id = format!("c{number}");
        let call = Block::ToolCall(ToolCall::new(&*id, "shell", json!({})));
        let result = Block::result(&*id, "x".repeat(bytes), false);
        [Message::assistant(vec![call]).shared(), Message::user(vec![Block::text("note"), result]).shared()]
    }

    fn history(turns: usize, bytes: usize) -> Vec<Arc<Message>> {
        let mut messages = vec![Message::user_text("go").shared()];
        messages.extend((0..turns).flat_map(|number| turn(number, bytes)));
        messages
    }

    async fn sent(bus: &Bus, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let event = ContextTransform::new("t".into(), messages.to_vec(), None);
        bus.cx().emit(event).await.unwrap().messages
    }

    fn bus(threshold: usize) -> Bus {
        let bus = Bus::new();
        bus.install(&Window::default()).unwrap();
        bus.install(&Tail::default().threshold(threshold).keep_turns(2)).unwrap();
        bus
    }

    fn left_out(messages: &[Arc<Message>]) -> usize {
        messages.iter().flat_map(|message| message.results()).filter(|r| r.content == STUB.into()).count()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn below_the_threshold_nothing_changes() {
        let messages = history(5, 100);
        let sent = sent(&bus(500), &messages).await;
        assert!(sent.iter().zip(&messages).all(|(sent, stored)| Arc::ptr_eq(sent, stored)));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn above_the_threshold_older_results_become_stubs() {
        let messages = history(5, 101);
        let sent = sent(&bus(500), &messages).await;
        assert_eq!(left_out(&sent), 3);
        assert_eq!(left_out(sent.get(7..).unwrap()), 0, "the newest two turns keep theirs");
        assert_eq!(left_out(&messages), 0, "the stored history is untouched");
        let text = sent.get(2).unwrap().content.first().and_then(Block::as_text);
        assert_eq!(text, Some("note"), "text stays");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_text_of_a_skill_stays_as_it_is_however_old_it_is() {
        let mut messages = history(5, 101);
        let skill = format!("<skill_content name=\"pdf\">\n{}</skill_content>", "Do it. ".repeat(100));
        let given = Block::result("c0", skill.as_str(), false);
        let result = Message::user(vec![Block::text("note"), given]).shared();
        let asked = Block::ToolCall(ToolCall::new("c0", "skills_use", json!({"skill": "pdf"})));
        let call = std::mem::replace(&mut messages[1], Message::assistant(vec![asked]).shared());
        messages[2] = result.clone();
        let kept = sent(&bus(350), &messages).await;
        assert_eq!(left_out(&kept), 2, "those of the other old turns");
        assert!(Arc::ptr_eq(&kept[2], &messages[2]));
        // A result of another tool with this text is no skill.
        (messages[1], messages[2]) = (call, Message::clone(&result).shared());
        assert_eq!(left_out(&sent(&bus(350), &messages).await), 3);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_was_left_out_of_a_conversation_stays_out_when_it_is_read_again() {
        let with_id = |message: &Arc<Message>| Message::clone(message).identified().shared();
        let mut messages: Vec<_> = history(5, 101).iter().map(with_id).collect();
        let bus = bus(500);
        assert_eq!(left_out(&sent(&bus, &messages).await), 3);
        messages.iter_mut().for_each(|message| *message = Message::clone(message).shared());
        messages.truncate(7);
        assert_eq!(
            left_out(&sent(&bus, &messages).await),
            3,
            "below the threshold by now, but it was sent so"
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_prefix_stays_the_same_until_the_rest_exceeds_the_threshold_again() {
        let bus = bus(500);
        let mut messages = history(5, 101);
        let first = sent(&bus, &messages).await;
        for number in 5..8 {
            messages.extend(turn(number, 90));
            let next = sent(&bus, &messages).await;
            let same = next.iter().zip(&first).all(|(next, first)| Arc::ptr_eq(next, first));
            assert!(same, "turn {number}");
        }
        messages.extend(turn(8, 90));
        assert_eq!(left_out(&sent(&bus, &messages).await), 7);
    }
}
