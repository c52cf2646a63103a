//! Size limits of a response in bytes, so that no server can exhaust the memory. An answer is in memory
//! several times: on arrival, as the draft, in events, in the history and on its way to the store.

use std::fmt;

use zk_core::model::{Block, ErrorKind};
use zk_core::service::StreamEvent;

use crate::wire::error::WireError;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Size limit of one event or line of a stream, in bytes. Images come as one event.
pub(crate) const EVENT: usize = 16 * MIB;
/// Size limit of an answer's text, thinking, arguments and provider data together, in bytes. The longest answers of
/// models have about 2 MiB.
pub(crate) const ANSWER: usize = 8 * MIB;
/// Size limit of the images of one answer, in bytes.
pub(crate) const MEDIA: usize = 16 * MIB;
/// Size limit of the arguments of one call, in bytes.
pub(crate) const ARGUMENTS: usize = 4 * MIB;
/// Size limit of events that are not passed on (keep-alives, and parts that are assembled first), in bytes.
pub(crate) const UNSEEN: usize = 32 * MIB;
/// Size limit of an error body, in bytes.
pub(crate) const ERROR_BODY: usize = 64 * KIB;
/// Size limit of a response that is no stream, such as a list of models, in bytes.
pub(crate) const DOCUMENT: usize = 8 * MIB;

/// Size of a call's overhead besides id, name and arguments, in bytes.
const CALL_OVERHEAD_BYTES: usize = 512;

/// A number of bytes, formatted for people.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(MIB) => write!(f, "{} MiB", bytes / MIB),
            bytes if bytes.is_multiple_of(KIB) => write!(f, "{} KiB", bytes / KIB),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Creates the error for an answer that exceeded a limit. A retry would exceed it too.
pub(crate) fn exceeded(what: &str, cap: usize) -> WireError {
    let message = format!("{what} than {}, the most zk takes: the answer was cut there", Size(cap));
    WireError::new(ErrorKind::Malformed, message)
        .hint(
            "The model or its server repeats itself without end: ask for less at once, or take another model",
        )
        .never_retry()
}

/// Counter of the bytes of one answer.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    answer: usize,
    media: usize,
    unseen: usize,
    /// Bytes of arguments so far, by block.
    arguments: Vec<(u32, usize)>,
}

impl Meter {
    /// Counts an event of `bytes` bytes and the stream events decoded from it.
    ///
    /// # Errors
    /// A limit was exceeded; the message names it.
    pub(crate) fn count<'a>(
        &mut self,
        bytes: usize,
        read: impl Iterator<Item = &'a StreamEvent>,
    ) -> Result<(), WireError> {
        let mut is_seen = false;
        for event in read {
            is_seen = true;
            match event {
                StreamEvent::Text { delta, .. } | StreamEvent::Thinking { delta, .. } => {
                    self.answer += delta.len();
                }
                StreamEvent::ToolCall { block, id, name } => {
                    self.answer += id.as_str().len() + name.len() + CALL_OVERHEAD_BYTES;
                    self.arguments.push((*block, 0));
                }
                StreamEvent::ToolArgs { block, delta } => {
                    self.answer += delta.len();
                    if let Some((_, arguments)) = self.arguments.iter_mut().rfind(|(open, _)| open == block) {
                        *arguments += delta.len();
                        if *arguments > ARGUMENTS {
                            return Err(exceeded("the arguments of a tool call are longer", ARGUMENTS));
                        }
                    }
                }
                StreamEvent::Block { block, content } => {
                    self.arguments.retain(|(open, _)| open != block);
                    self.count_block(content);
                }
                StreamEvent::Start { .. }
                | StreamEvent::Usage(_)
                | StreamEvent::Report(_)
                | StreamEvent::Retry(_)
                | StreamEvent::Done { .. } => {}
            }
        }
        if !is_seen {
            self.unseen += bytes;
        }
        if self.answer > ANSWER {
            return Err(exceeded("the answer is longer", ANSWER));
        }
        if self.media > MEDIA {
            return Err(exceeded("the pictures of the answer are larger", MEDIA));
        }
        if self.unseen > UNSEEN {
            return Err(exceeded("the parts of the answer that nobody sees are longer", UNSEEN));
        }
        Ok(())
    }

    /// Counts content of a finished block that was not in its deltas.
    fn count_block(&mut self, content: &Block) {
        match content {
            Block::Image(image) => self.media += image.data.len(),
            Block::Thinking(thinking) => {
                let proof = thinking.signature.as_ref().map_or(0, String::len);
                self.answer += proof + thinking.redacted.as_ref().map_or(0, String::len);
            }
            Block::Provider(block) => {
                self.answer += CALL_OVERHEAD_BYTES + block.text.len() + json_size(&block.wire.data)
            }
            Block::Text(_)
            | Block::Document(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Compaction(_) => {}
        }
    }
}

/// Estimates the size of a JSON value in bytes.
fn json_size(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(json_size).sum::<usize>() + items.len(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + json_size(value) + 4).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}
