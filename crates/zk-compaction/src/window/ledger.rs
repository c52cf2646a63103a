use std::collections::HashMap;
use std::sync::Arc;

use zk_core::model::{Block, Message, Role, ToolContent, Usage};

use crate::text::count::{TokenCounter, count_message};

/// Bounds of the ratio between a provider's tokens and those counted here.
const MIN_SCALE: f64 = 0.5;
const MAX_SCALE: f64 = 3.0;

/// Maximum average of text bytes per token over a request, in any vocabulary; prose and code have four.
const MAX_BYTES_PER_TOKEN: u64 = 16;

/// Sizes of one conversation's messages, each counted once.
#[derive(Default)]
pub(crate) struct Ledger {
    counted: Vec<Counted>,
    tokens: u64,
    bytes: usize,
    /// Bytes of plain text in the messages.
    text: u64,
    /// Version of the view at the last count.
    version: u64,
    anchor: Option<Anchor>,
    /// Ratio and overhead according to the last reported usage.
    shown: Option<Shown>,
    /// Version of the counter at the last count.
    counter: u64,
    /// Tokens by another counter, keyed by message address; the messages are kept alive.
    recounted: HashMap<usize, (Arc<Message>, u64)>,
}

struct Counted {
    message: Arc<Message>,
    tokens: u64,
    bytes: usize,
}

/// Difference between a provider's count and the count here, until the model changes.
#[derive(Clone, Copy)]
struct Shown {
    /// Provider's tokens per token counted here.
    scale: f64,
    /// Provider's tokens besides the messages.
    overhead: u64,
}

/// Usage that a provider reported for a request.
struct Anchor {
    /// Number of messages in the request.
    messages: usize,
    /// Input tokens, cached ones included.
    read: u64,
    /// Output tokens.
    output: u64,
}

impl Ledger {
    /// Counts new messages in `sent`. A changed `version` means that earlier ones have changed.
    pub(crate) fn sync(&mut self, sent: &[Arc<Message>], version: u64, counter: &dyn TokenCounter) {
        if self.counter != counter.version() {
            self.change_counter(counter);
        }
        let goes_on = self.version == version && self.is_continued_by(sent);
        if !goes_on {
            self.version = version;
            self.anchor = None;
            let old = std::mem::take(&mut self.counted);
            let known: HashMap<usize, (u64, usize)> =
                old.iter().map(|old| (address(&old.message), (old.tokens, old.bytes))).collect();
            (self.tokens, self.bytes, self.text) = (0, 0, 0);
            for message in sent {
                let known = known.get(&address(message)).copied();
                self.add(message, known.unwrap_or_else(|| measure(message, counter)));
            }
            return;
        }
        for message in sent.iter().skip(self.counted.len()) {
            self.add(message, measure(message, counter));
        }
    }

    /// Whether `counter` has another version, so that all messages should be recounted in the background.
    pub(crate) fn needs_recount(&self, counter: &dyn TokenCounter) -> bool {
        self.counter != counter.version() && self.recounted.is_empty() && !self.counted.is_empty()
    }

    /// Messages counted so far.
    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        self.counted.iter().map(|counted| counted.message.clone()).collect()
    }

    /// Stores counts of another counter for the next update.
    pub(crate) fn store_recounted(&mut self, counted: Vec<(Arc<Message>, u64)>) {
        self.recounted =
            counted.into_iter().map(|(message, tokens)| (address(&message), (message, tokens))).collect();
    }

    /// Recounts all messages with another counter. Reported usage stays valid.
    fn change_counter(&mut self, counter: &dyn TokenCounter) {
        self.counter = counter.version();
        let (before, recounted) = (self.tokens, std::mem::take(&mut self.recounted));
        for counted in &mut self.counted {
            let known = recounted.get(&address(&counted.message)).map(|(_, tokens)| *tokens);
            counted.tokens = known.unwrap_or_else(|| count_message(&counted.message, counter));
        }
        self.tokens = self.counted.iter().map(|counted| counted.tokens).sum();
        if let Some(shown) = &mut self.shown {
            let changed = before as f64 / self.tokens.max(1) as f64;
            shown.scale = (shown.scale * changed).clamp(MIN_SCALE, MAX_SCALE);
        }
    }

    /// Whether `sent` begins with the counted messages, judged by the last one; earlier ones change only with
    /// the version.
    fn is_continued_by(&self, sent: &[Arc<Message>]) -> bool {
        let Some(last) = self.counted.len().checked_sub(1) else { return true };
        let same = |at: usize| match (self.counted.get(at), sent.get(at)) {
            (Some(counted), Some(sent)) => Arc::ptr_eq(&counted.message, sent),
            (None, _) | (_, None) => false,
        };
        same(last) && same(0)
    }

    fn add(&mut self, message: &Arc<Message>, (tokens, bytes): (u64, usize)) {
        self.tokens += tokens;
        self.bytes += bytes;
        self.text += text_bytes(&message.content);
        self.counted.push(Counted { message: message.clone(), tokens, bytes });
    }

    /// Applies the usage that a provider reported for the counted messages. `beside` is the estimate for the
    /// other parts of the request; an excess that no tokenizer explains is added to the rest.
    pub(crate) fn anchor(&mut self, usage: &Usage, beside: u64) {
        let read = usage.context();
        if read == 0 {
            return;
        }
        let scale =
            (read.saturating_sub(beside) as f64 / self.tokens.max(1) as f64).clamp(MIN_SCALE, MAX_SCALE);
        let overhead = read.saturating_sub((self.tokens as f64 * scale) as u64);
        self.shown = Some(Shown { scale, overhead });
        self.anchor = Some(Anchor { messages: self.counted.len(), read, output: usage.output });
    }

    /// Forgets reported usage, since another model counts differently.
    pub(crate) fn forget_usage(&mut self) {
        (self.anchor, self.shown) = (None, None);
    }

    /// Estimated tokens of the next request. `beside` is the estimate for tokens besides the messages until a
    /// usage is reported.
    pub(crate) fn estimate(&self, beside: u64) -> u64 {
        self.counted_estimate(beside).max(self.min_text_tokens())
    }

    /// Estimate without reported usage; another counter changes only this.
    pub(crate) fn counted_estimate(&self, beside: u64) -> u64 {
        let tail = self.scaled(self.tail_tokens());
        match &self.anchor {
            Some(anchor) => anchor.read + tail + if self.has_answer_to(anchor) { anchor.output } else { 0 },
            None => tail + self.shown.map_or(beside, |shown| shown.overhead),
        }
    }

    /// Lower bound of the text's tokens, whatever a provider reports.
    pub(crate) fn min_text_tokens(&self) -> u64 {
        self.text / MAX_BYTES_PER_TOKEN
    }

    /// Tokens of the messages after the last reported usage.
    pub(crate) fn uncounted(&self) -> u64 {
        self.scaled(self.tail_tokens())
    }

    fn tail_tokens(&self) -> u64 {
        let Some(anchor) = &self.anchor else { return self.tokens };
        let from = anchor.messages + usize::from(self.has_answer_to(anchor));
        self.counted.iter().skip(from).map(|counted| counted.tokens).sum()
    }

    /// Whether the answer to the anchor's request is among the messages.
    fn has_answer_to(&self, anchor: &Anchor) -> bool {
        self.counted.get(anchor.messages).is_some_and(|counted| counted.message.role == Role::Assistant)
    }

    fn scaled(&self, tokens: u64) -> u64 {
        self.shown.map_or(tokens, |shown| (tokens as f64 * shown.scale) as u64)
    }

    /// Bytes of the messages, as [`context_size`](zk_core::model::context_size) measures them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

fn measure(message: &Arc<Message>, counter: &dyn TokenCounter) -> (u64, usize) {
    (count_message(message, counter), message.size())
}

/// Bytes of text that a model reads. Thinking does not count, as most of it is not sent again.
fn text_bytes(blocks: &[Block]) -> u64 {
    let bytes = |block: &Block| match block {
        Block::Text(text) => text.text.len() as u64,
        Block::ToolCall(_) => block.size() as u64,
        Block::Compaction(compaction) => compaction.summary.len() as u64,
        Block::ToolResult(result) => match &result.content {
            ToolContent::Text(text) => text.len() as u64,
            ToolContent::Blocks(blocks) => text_bytes(blocks),
        },
        Block::Image(_) | Block::Document(_) | Block::Thinking(_) | Block::Provider(_) => 0,
    };
    blocks.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use zk_core::model::Block;

    use super::*;
    use crate::ByteCounter;

    fn said(role: Role, bytes: usize) -> Arc<Message> {
        let block = vec![Block::text("x".repeat(bytes))];
        match role {
            Role::User => Message::user(block).shared(),
            Role::Assistant => Message::assistant(block).shared(),
        }
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn the_providers_count_and_a_count_of_what_came_since_make_the_estimate() {
        let mut ledger = Ledger::default();
        let mut sent = vec![said(Role::User, 400)];
        ledger.sync(&sent, 0, &ByteCounter);
        assert_eq!(ledger.estimate(50), 104 + 50, "before any usage it is counted here");
        ledger.anchor(&usage(154, 70), 50);
        sent.extend([said(Role::Assistant, 40), said(Role::User, 80)]);
        ledger.sync(&sent, 0, &ByteCounter);
        assert_eq!(ledger.estimate(50), 154 + 70 + 24, "the answer counts as the provider counted it");
    }

    #[test]
    fn after_a_compaction_what_is_sent_beside_the_messages_is_still_known() {
        let mut ledger = Ledger::default();
        let sent = vec![said(Role::User, 4000), said(Role::Assistant, 4000), said(Role::User, 400)];
        ledger.sync(&sent, 0, &ByteCounter);
        ledger.anchor(&usage(2112 + 500, 10), 500);
        ledger.sync(&sent[2..], 1, &ByteCounter);
        assert_eq!(ledger.estimate(0), 104 + 500);
        assert_eq!(ledger.bytes(), 400);
    }

    #[test]
    fn a_provider_that_counts_twice_as_much_does_so_after_a_compaction() {
        let mut ledger = Ledger::default();
        let sent = vec![said(Role::User, 4000), said(Role::User, 400)];
        ledger.sync(&sent, 0, &ByteCounter);
        ledger.anchor(&usage(2 * 1108, 0), 0);
        ledger.sync(&sent[1..], 1, &ByteCounter);
        assert_eq!(ledger.estimate(0), 208);
    }

    /// Counts a token for each byte.
    #[derive(Debug)]
    struct Bytewise;

    impl TokenCounter for Bytewise {
        fn count(&self, text: &str) -> u64 {
            text.len() as u64
        }

        fn version(&self) -> u64 {
            1
        }
    }

    #[test]
    fn another_counter_changes_what_comes_later_and_not_what_the_provider_counted() {
        let mut ledger = Ledger::default();
        let mut sent = vec![said(Role::User, 4000)];
        ledger.sync(&sent, 0, &ByteCounter);
        ledger.anchor(&usage(1004, 0), 0);
        assert!(ledger.needs_recount(&Bytewise));
        ledger.store_recounted(vec![(sent[0].clone(), 4004)]);
        assert!(!ledger.needs_recount(&Bytewise), "it was done elsewhere");
        sent.push(said(Role::User, 2000));
        ledger.sync(&sent, 0, &Bytewise);
        let estimate = ledger.estimate(0);
        assert!((1004 + 1000..1004 + 1010).contains(&estimate), "scaled by half, the least: {estimate}");
        assert!(!ledger.needs_recount(&Bytewise));
    }

    #[test]
    fn the_usage_of_another_model_does_not_count() {
        let mut ledger = Ledger::default();
        ledger.sync(&[said(Role::User, 400)], 0, &ByteCounter);
        ledger.anchor(&usage(9999, 1), 0);
        ledger.forget_usage();
        assert_eq!(ledger.estimate(7), 104 + 7);
    }
}
