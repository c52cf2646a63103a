use std::collections::VecDeque;

use serde_json::Value;

use super::StreamEvent;
use crate::model::{Block, CallId, ModelRef, ProviderError, StopReason, Text, Thinking, ToolCall, Usage};

/// Result of reading one event of a stream.
type Next = Result<StreamEvent, ProviderError>;

/// Kind of the open block, to which deltas are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growing {
    Text,
    Thinking,
}

/// Stream events of an answer that arrives as pieces of text, of reasoning, and whole calls: it numbers the
/// blocks, closes each before the next begins, and keeps the events until they are read.
///
/// ```
/// use zk_core::model::{StopReason, Usage};
/// use zk_core::service::{BlockWriter, StreamEvent};
///
/// let mut answer = BlockWriter::new(None);
/// answer.add_thinking("hm".to_owned());
/// answer.add_text("yes".to_owned());
/// answer.finish(StopReason::EndTurn, Usage::default());
/// let events: Vec<_> = std::iter::from_fn(|| answer.next_event()).collect::<Result<_, _>>().unwrap();
/// let names = events.iter().map(|event| match event {
///     StreamEvent::Thinking { block, .. } => format!("thinking {block}"),
///     StreamEvent::Text { block, .. } => format!("text {block}"),
///     StreamEvent::Block { block, .. } => format!("end of {block}"),
///     _ => "done".to_owned(),
/// });
/// assert_eq!(names.collect::<Vec<_>>(), ["thinking 0", "end of 0", "text 1", "end of 1", "done"]);
/// ```
#[derive(Debug)]
pub struct BlockWriter {
    ready: VecDeque<Next>,
    open: Option<(Growing, String)>,
    /// Index of the open block, or of the next block if none is open.
    block: u32,
    origin: Option<ModelRef>,
}

impl BlockWriter {
    /// Creates the writer of one answer; `origin` is the model recorded with its reasoning.
    #[must_use]
    pub fn new(origin: Option<ModelRef>) -> Self {
        Self { ready: VecDeque::new(), open: None, block: 0, origin }
    }

    /// Adds the event that begins the response.
    pub fn start(&mut self) {
        self.ready.push_back(Ok(StreamEvent::Start { model: None, request_id: None }));
    }

    /// Adds a piece of text.
    pub fn add_text(&mut self, delta: String) {
        self.append_delta(Growing::Text, &delta);
        self.ready.push_back(Ok(StreamEvent::Text { block: self.block, delta }));
    }

    /// Adds a piece of reasoning.
    pub fn add_thinking(&mut self, delta: String) {
        self.append_delta(Growing::Thinking, &delta);
        self.ready.push_back(Ok(StreamEvent::Thinking { block: self.block, delta }));
    }

    /// Adds a complete call, after closing the open block.
    pub fn add_call(&mut self, id: CallId, name: String, args: Value) {
        self.close_block();
        let block = self.block;
        self.ready.push_back(Ok(StreamEvent::ToolCall { block, id: id.clone(), name: name.clone() }));
        self.end_block(Block::ToolCall(ToolCall::new(id, name, args)));
    }

    /// Closes the open block, and ends the response.
    pub fn finish(&mut self, stop: StopReason, usage: Usage) {
        self.close_block();
        self.ready.push_back(Ok(StreamEvent::Done { stop, usage }));
    }

    /// Ends the response with an error; the open block stays open.
    pub fn fail(&mut self, error: ProviderError) {
        self.ready.push_back(Err(error));
    }

    /// Removes and returns the next event.
    pub fn next_event(&mut self) -> Option<Next> {
        self.ready.pop_front()
    }

    fn append_delta(&mut self, kind: Growing, delta: &str) {
        if self.open.as_ref().is_some_and(|(before, _)| *before != kind) {
            self.close_block();
        }
        self.open.get_or_insert_with(|| (kind, String::new())).1.push_str(delta);
    }

    fn close_block(&mut self) {
        let content = match self.open.take() {
            None => return,
            Some((Growing::Text, text)) => Block::Text(Text { text, wire: None }),
            Some((Growing::Thinking, text)) => {
                Block::Thinking(Thinking { text, origin: self.origin.clone(), ..Thinking::default() })
            }
        };
        self.end_block(content);
    }

    fn end_block(&mut self, content: Block) {
        self.ready.push_back(Ok(StreamEvent::Block { block: self.block, content }));
        self.block = self.block.saturating_add(1);
    }
}
