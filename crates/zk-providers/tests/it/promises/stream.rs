use std::collections::BTreeMap;

use serde_json::Value;
use zk_core::model::{Block, CallId, ModelRef, ProviderError, Usage};
use zk_core::service::StreamEvent;
use zk_providers::Replay;

use super::Cuts;

/// Parts that a dialect may withdraw after their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voids {
    Nothing,
    /// Withdrawn block that starts again.
    Blocks,
}

pub(super) fn check(make: fn(ModelRef) -> Replay, voids: Voids, bytes: &[u8], cuts: Cuts) {
    let model = || ModelRef::new("fuzzed", "m");
    let whole = Reading::of(make(model()), std::iter::once(bytes));
    whole.keeps_its_promises(voids);
    let split = Reading::of(make(model()), cuts.pieces(bytes));
    assert_eq!(whole, split, "cuts make no difference");
}

/// All a response gave.
#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) events: Vec<StreamEvent>,
    error: Option<ProviderError>,
}

impl Reading {
    pub(super) fn of<'a>(mut replay: Replay, pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut reading = Self { events: Vec::new(), error: None };
        for piece in pieces {
            replay.feed(piece);
            reading.take(&mut replay);
        }
        replay.finish();
        reading.take(&mut replay);
        assert!(reading.is_over(), "the end of the bytes is the end of the stream");
        reading
    }

    fn is_over(&self) -> bool {
        self.error.is_some() || matches!(self.events.last(), Some(StreamEvent::Done { .. }))
    }

    fn take(&mut self, replay: &mut Replay) {
        loop {
            let next = replay.next();
            assert!(!self.is_over() || matches!(next, Ok(None)), "after the end came {next:?}");
            match next {
                Ok(Some(event)) => self.events.push(comparable(event)),
                Ok(None) => return,
                Err(error) => self.error = Some(timeless(error)),
            }
        }
    }

    fn keeps_its_promises(&self, voids: Voids) {
        if let Some(error) = &self.error {
            let shown = error.to_string();
            assert!(!error.message.is_empty() && !shown.contains(char::is_control), "{error:?}");
            assert!(shown.len() < 8 << 10, "an error that fills a screen");
        }
        let mut blocks = BTreeMap::<u32, Came>::new();
        let mut usage = Usage::default();
        let mut starts = 0;
        for event in &self.events {
            match event {
                StreamEvent::Start { .. } => starts += 1,
                StreamEvent::Text { block, delta } => {
                    blocks.entry(*block).or_insert_with(|| Came::Text(String::new())).text(delta);
                }
                StreamEvent::Thinking { block, delta } => {
                    blocks.entry(*block).or_insert_with(|| Came::Thinking(String::new())).thinking(delta);
                }
                StreamEvent::ToolCall { block, id, name } => {
                    let call = Came::Call { id: id.clone(), name: name.clone(), args: String::new() };
                    assert!(blocks.insert(*block, call).is_none(), "block {block} began twice");
                }
                StreamEvent::ToolArgs { block, delta } => {
                    blocks.get_mut(block).expect("a call begins before its arguments").args(delta);
                }
                StreamEvent::Block { block, content } => {
                    blocks.insert(*block, Came::Whole).unwrap_or(Came::Nothing).adds_up_to(content);
                }
                StreamEvent::Usage(counts) => usage = *counts,
                StreamEvent::Report(report) => assert!(report.is_object(), "a report has fields"),
                StreamEvent::Retry(notice) => panic!("a decoder does not retry: {notice:?}"),
                StreamEvent::Done { usage: counts, .. } => {
                    // Some dialects report the cost only at the end.
                    assert!(usage == Usage::default() || usage == *counts, "the last usage is the usage");
                    let open = blocks.values().find(|came| !matches!(came, Came::Whole));
                    assert!(open.is_none() || voids == Voids::Blocks, "never ended: {open:?}");
                }
            }
        }
        assert!(starts <= 1, "a response begins once");
    }
}

/// Contents of a block so far.
#[derive(Debug)]
enum Came {
    Nothing,
    Text(String),
    Thinking(String),
    Call { id: CallId, name: String, args: String },
    Whole,
}

impl Came {
    fn text(&mut self, delta: &str) {
        assert!(!delta.is_empty(), "no empty deltas");
        let Self::Text(text) = self else { panic!("text after {self:?}") };
        text.push_str(delta);
    }

    fn thinking(&mut self, delta: &str) {
        assert!(!delta.is_empty(), "no empty deltas");
        let Self::Thinking(text) = self else { panic!("thinking after {self:?}") };
        text.push_str(delta);
    }

    fn args(&mut self, delta: &str) {
        assert!(!delta.is_empty(), "no empty deltas");
        let Self::Call { args, .. } = self else { panic!("arguments after {self:?}") };
        args.push_str(delta);
    }

    fn adds_up_to(&self, content: &Block) {
        match (self, content) {
            (Self::Text(came), Block::Text(text)) => assert_eq!(*came, text.text),
            (Self::Thinking(came), Block::Thinking(thinking)) => {
                assert_eq!(*came, thinking.text);
                assert!(thinking.origin.is_some(), "thinking names its model");
            }
            (Self::Nothing, Block::Thinking(thinking)) => {
                assert_eq!(thinking.text, "", "text that no delta brought");
                assert!(thinking.origin.is_some(), "thinking names its model");
            }
            (Self::Nothing, Block::Image(_)) => {}
            (Self::Nothing, Block::Provider(block)) => {
                assert!(block.wire.data.is_object(), "it is there whole");
            }
            (Self::Call { id, name, args: came }, Block::ToolCall(call)) => {
                assert_eq!((id, name), (&call.id, &call.name));
                assert!(call.args.is_object(), "arguments are an object");
                let written = call.args.to_string();
                match &call.malformed {
                    Some(raw) => assert_eq!(raw.trim(), came.trim(), "malformed ones are kept as they came"),
                    None if written == *came => {}
                    None => {
                        let parsed: Option<Value> = serde_json::from_str(came).ok();
                        let parsed = parsed.filter(Value::is_object);
                        assert!(parsed.is_none_or(|parsed| parsed == call.args), "{came} is not {call:?}");
                    }
                }
            }
            (came, content) => panic!("{content:?} after {came:?}"),
        }
    }
}

/// Ids that were made up here differ each time.
fn comparable(mut event: StreamEvent) -> StreamEvent {
    const MADE_UP: usize = "call_".len() + 17;
    let id = match &mut event {
        StreamEvent::ToolCall { id, .. } => id,
        StreamEvent::Block { content: Block::ToolCall(call), .. } => &mut call.id,
        _ => return event,
    };
    if id.as_str().starts_with("call_") && id.as_str().len() == MADE_UP {
        *id = CallId::from("made up");
    }
    event
}

fn timeless(error: ProviderError) -> ProviderError {
    let retry_after = error.retry_after.map(|_| std::time::Duration::ZERO);
    ProviderError { elapsed: std::time::Duration::ZERO, retry_after, ..error }
}
