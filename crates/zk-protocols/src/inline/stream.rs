use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::model::{Block, CallId, StopReason, ToolCall};
use zk_core::service::StreamEvent;

use super::extract::{CallExtractor, CallFormat, CallPiece, CallReader, ExtractedCall};
use crate::rewrite::RewriteAnswer;

/// Stream rewriter that parses inline tool calls out of text deltas and emits them as `ToolCall` events.
pub(crate) struct InlineAnswer {
    extractor: Arc<dyn CallExtractor>,
    format: CallFormat,
    /// Index of the next block.
    next: u32,
    /// Indices of passed-on blocks, by the provider's index.
    numbers: BTreeMap<u32, u32>,
    /// Unfinished texts, by the provider's index.
    texts: BTreeMap<u32, OpenText>,
    has_calls: bool,
}

struct OpenText {
    reader: Box<dyn CallReader>,
    /// Index of the current block of text, and its content.
    open: Option<(u32, String)>,
    has_begun: bool,
}

impl InlineAnswer {
    pub(crate) fn new(extractor: Arc<dyn CallExtractor>, format: CallFormat) -> Self {
        Self {
            extractor,
            format,
            next: 0,
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            has_calls: false,
        }
    }

    fn index_of(&mut self, block: u32) -> u32 {
        *self.numbers.entry(block).or_insert_with(|| {
            let number = self.next;
            self.next = self.next.saturating_add(1);
            number
        })
    }

    fn take_index(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    fn text_mut(&mut self, block: u32) -> &mut OpenText {
        let (extractor, format) = (&self.extractor, self.format);
        self.texts.entry(block).or_insert_with(|| OpenText {
            reader: extractor.reader(format),
            open: None,
            has_begun: false,
        })
    }

    fn read_delta(&mut self, block: u32, delta: &str, out: &mut Vec<StreamEvent>) {
        let text = self.text_mut(block);
        text.has_begun |= !delta.is_empty();
        let pieces = text.reader.push(delta);
        self.add_pieces(block, pieces, out);
    }

    fn add_pieces(&mut self, block: u32, pieces: Vec<CallPiece>, out: &mut Vec<StreamEvent>) {
        for piece in pieces {
            match piece {
                CallPiece::Text(delta) => {
                    let number = match self.texts.get(&block).and_then(|text| text.open.as_ref()) {
                        Some((number, _)) => *number,
                        None => self.take_index(),
                    };
                    if let Some(text) = self.texts.get_mut(&block) {
                        text.open.get_or_insert_with(|| (number, String::new())).1.push_str(&delta);
                    }
                    out.push(StreamEvent::Text { block: number, delta });
                }
                CallPiece::Call(call) => {
                    self.close_text(block, out);
                    self.has_calls = true;
                    let number = self.take_index();
                    add_call(number, call, out);
                }
            }
        }
    }

    fn close_text(&mut self, block: u32, out: &mut Vec<StreamEvent>) {
        let open = self.texts.get_mut(&block).and_then(|text| text.open.take());
        out.extend(open.map(|(block, text)| StreamEvent::Block { block, content: Block::text(text) }));
    }

    fn finish(&mut self, block: u32, is_cut: bool, out: &mut Vec<StreamEvent>) {
        let pieces = self.texts.get_mut(&block).map(|text| text.reader.finish(is_cut));
        self.add_pieces(block, pieces.unwrap_or_default(), out);
        self.close_text(block, out);
        self.texts.remove(&block);
    }
}

/// Adds the events of a call.
fn add_call(block: u32, call: ExtractedCall, out: &mut Vec<StreamEvent>) {
    let id = CallId::fresh();
    let (call, text) = match call {
        ExtractedCall::Whole { name, arguments } => {
            let text = arguments.to_string();
            (ToolCall::new(id, name, arguments), text)
        }
        ExtractedCall::Malformed { name, text } => {
            let call = ToolCall::new(id, name, serde_json::json!({}));
            (ToolCall { malformed: Some(text.clone()), ..call }, text)
        }
    };
    out.push(StreamEvent::ToolCall { block, id: call.id.clone(), name: call.name.clone() });
    out.push(StreamEvent::ToolArgs { block, delta: text });
    out.push(StreamEvent::Block { block, content: Block::ToolCall(call) });
}

impl RewriteAnswer for InlineAnswer {
    fn push(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        match event {
            StreamEvent::Text { block, delta } => self.read_delta(block, &delta, out),
            // Ends with the answer: only its stop reason tells whether a call was cut.
            StreamEvent::Block { block, content: Block::Text(text) } => {
                if !self.text_mut(block).has_begun {
                    self.read_delta(block, &text.text, out);
                }
            }
            StreamEvent::Thinking { block, delta } => {
                out.push(StreamEvent::Thinking { block: self.index_of(block), delta });
            }
            StreamEvent::ToolCall { block, id, name } => {
                self.has_calls = true;
                out.push(StreamEvent::ToolCall { block: self.index_of(block), id, name });
            }
            StreamEvent::ToolArgs { block, delta } => {
                out.push(StreamEvent::ToolArgs { block: self.index_of(block), delta });
            }
            StreamEvent::Block { block, content } => {
                out.push(StreamEvent::Block { block: self.index_of(block), content });
            }
            StreamEvent::Retry(notice) => {
                *self = Self::new(self.extractor.clone(), self.format);
                out.push(StreamEvent::Retry(notice));
            }
            StreamEvent::Done { stop, usage } => {
                let is_cut = stop == StopReason::MaxTokens;
                let blocks: Vec<u32> = self.texts.keys().copied().collect();
                blocks.into_iter().for_each(|block| self.finish(block, is_cut, out));
                let stop = match stop {
                    StopReason::EndTurn if self.has_calls => StopReason::ToolUse,
                    other => other,
                };
                out.push(StreamEvent::Done { stop, usage });
            }
            event @ (StreamEvent::Start { .. } | StreamEvent::Usage(_) | StreamEvent::Report(_)) => {
                out.push(event)
            }
        }
    }

    fn break_off(&mut self, out: &mut Vec<StreamEvent>) {
        let blocks: Vec<u32> = self.texts.keys().copied().collect();
        blocks.into_iter().for_each(|block| self.finish(block, true, out));
        // A call of an answer that broke off is never answered.
        let is_text = |event: &StreamEvent| {
            matches!(event, StreamEvent::Text { .. } | StreamEvent::Block { content: Block::Text(_), .. })
        };
        out.retain(is_text);
    }
}
