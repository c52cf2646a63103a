//! Reads a stream to its end and checks its shape.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use zk_core::model::{Block, ProviderError, StopReason, ToolCall};
use zk_core::service::{EventStream, StreamEvent};

/// Content of a stream, and its stop reason or error.
pub(super) struct Reading {
    pub(super) blocks: Vec<Block>,
    pub(super) outcome: Result<StopReason, ProviderError>,
}

impl Reading {
    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Compares the decoded stream with `other`: stop reason, text and tool calls, without ids that a provider
    /// generates. The error describes the first difference.
    pub(super) fn check_same(&self, other: &Self) -> Result<(), String> {
        let stop = |reading: &Self| reading.outcome.as_ref().ok().cloned();
        let texts = |reading: &Self| {
            let text = |block: &Block| block.as_text().map(str::to_owned);
            reading.blocks.iter().filter_map(text).collect::<String>()
        };
        let calls = |reading: &Self| {
            reading.calls().map(|call| (call.name.clone(), call.args.clone())).collect::<Vec<_>>()
        };
        if let Err(error) = &other.outcome {
            return Err(format!("it fails: {error}"));
        }
        if stop(self) != stop(other) {
            return Err(format!("it ends with {:?} instead of {:?}", stop(other), stop(self)));
        }
        if texts(self) != texts(other) {
            return Err(format!("its text is {:?} instead of {:?}", texts(other), texts(self)));
        }
        if calls(self) != calls(other) {
            return Err(format!("its calls are {:?} instead of {:?}", calls(other), calls(self)));
        }
        Ok(())
    }
}

/// Reads a stream to its end; fails with the first fault of its shape.
pub(super) async fn read(mut events: EventStream) -> Result<Reading, String> {
    let mut shape = Shape::default();
    while let Some(event) = events.next().await {
        let outcome = match event {
            Ok(StreamEvent::Done { stop, .. }) => Ok(stop),
            Ok(event) => {
                shape.check_event(event)?;
                continue;
            }
            Err(error) => Err(error),
        };
        if events.next().await.is_some() {
            return Err("something comes behind the end".to_owned());
        }
        if outcome.is_ok() && shape.open.is_some() {
            return Err("the answer ends with an open block".to_owned());
        }
        return Ok(Reading { blocks: shape.blocks, outcome });
    }
    Err("the stream ends without `Done` or an error".to_owned())
}

/// State of the stream's shape check.
#[derive(Default)]
struct Shape {
    started: bool,
    /// Joined deltas of each incomplete block.
    deltas: BTreeMap<u32, String>,
    open: Option<u32>,
    blocks: Vec<Block>,
}

impl Shape {
    fn check_event(&mut self, event: StreamEvent) -> Result<(), String> {
        match event {
            StreamEvent::Start { .. } if std::mem::replace(&mut self.started, true) => {
                Err("it starts twice".to_owned())
            }
            StreamEvent::Text { block, delta } | StreamEvent::Thinking { block, delta } => {
                if delta.is_empty() {
                    return Err(format!("an empty piece of block {block}"));
                }
                self.open_block(block)?;
                self.deltas.entry(block).or_default().push_str(&delta);
                Ok(())
            }
            StreamEvent::ToolCall { block, .. } | StreamEvent::ToolArgs { block, .. } => {
                self.open_block(block)
            }
            StreamEvent::Block { block, content } => self.close_block(block, content),
            StreamEvent::Start { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Report(_)
            | StreamEvent::Retry(_)
            | StreamEvent::Done { .. } => Ok(()),
        }
    }

    fn open_block(&mut self, block: u32) -> Result<(), String> {
        if !self.started {
            return Err(format!("block {block} comes before the start"));
        }
        let complete = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        if block < complete {
            return Err(format!("more of block {block}, which is complete"));
        }
        self.open = self.open.max(Some(block));
        Ok(())
    }

    fn close_block(&mut self, block: u32, content: Block) -> Result<(), String> {
        let next = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        if block != next {
            return Err(format!("block {block} is complete, and block {next} is not"));
        }
        if let (Some(deltas), Some(text)) = (self.deltas.remove(&block), content.as_text())
            && deltas != text
        {
            return Err(format!("block {block} is {text:?}, and its pieces were {deltas:?}"));
        }
        self.blocks.push(content);
        self.open = self.open.filter(|open| *open > block);
        Ok(())
    }
}
