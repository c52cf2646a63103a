use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zk_core::model::{Block as Part, CallId, Image, Message, MessageId, ModelRef, Role, ToolContent};
use zk_core::service::{Entry, EntryKind};

use super::{Engine, EngineInput};
use crate::{Block, Content, Lines};

/// Block of a stored session with everything that a document shows of it: the full body, images, time and
/// model.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeBlock {
    /// The block, as [`rebuild`](crate::rebuild) returns it.
    pub block: Arc<Block>,
    /// All lines of its body, if the block holds only a part of them.
    pub lines: Option<Lines>,
    /// Images of the message or of the call's result.
    pub images: Vec<Image>,
    /// Time of writing of its message in milliseconds since 1970, if known.
    pub time_ms: Option<u64>,
    /// Model that wrote its message, if known.
    pub model: Option<ModelRef>,
}

/// Metadata of a stored message.
struct Stored<'a> {
    message: &'a Message,
    time_ms: u64,
}

/// Rebuilds the blocks of a stored session like [`rebuild`](crate::rebuild), with their full bodies and images.
///
/// ```
/// assert!(zk_view::rebuild_whole(&[]).is_empty());
/// ```
#[must_use]
pub fn rebuild_whole(entries: &[Entry]) -> Vec<WholeBlock> {
    let mut engine = Engine::new();
    engine.core.unlimit_bodies();
    engine.apply(0, EngineInput::Begin(entries));
    let mut bodies = engine.core.take_bodies();
    let mut messages = HashMap::<&MessageId, Stored<'_>>::new();
    let mut results = HashMap::<(MessageId, CallId), VecDeque<Vec<Image>>>::new();
    let mut answer = None;
    for entry in entries {
        let EntryKind::Message { message, .. } = &entry.kind else { continue };
        if let Some(id) = &message.id {
            messages.insert(id, Stored { message, time_ms: entry.time_ms });
        }
        if message.role == Role::Assistant {
            answer = message.id.as_ref();
        }
        let Some(answer): Option<&MessageId> = answer else { continue };
        for result in message.results() {
            let images = match &result.content {
                ToolContent::Text(_) => Vec::new(),
                ToolContent::Blocks(parts) => images_in(parts),
            };
            results.entry((answer.clone(), result.call_id.clone())).or_default().push_back(images);
        }
    }
    let whole = |block: Arc<Block>| {
        let stored = block.message.as_ref().and_then(|id| messages.get(id));
        let images = match (&block.content, &block.message) {
            (Content::User { .. }, _) => stored.map(|stored| images_in(&stored.message.content)),
            (Content::Call(call), Some(id)) => {
                results.get_mut(&(id.clone(), call.call_id.clone())).and_then(VecDeque::pop_front)
            }
            _ => None,
        };
        WholeBlock {
            lines: bodies.remove(&block.id),
            images: images.unwrap_or_default(),
            time_ms: stored.map(|stored| stored.time_ms),
            model: stored.and_then(|stored| stored.message.origin.clone()),
            block,
        }
    };
    engine.core.view.into_view().blocks.into_iter().map(whole).collect()
}

fn images_in(parts: &[Part]) -> Vec<Image> {
    let image = |part: &Part| match part {
        Part::Image(image) => Some(image.clone()),
        Part::Text(_)
        | Part::Document(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Thinking(_)
        | Part::Compaction(_)
        | Part::Provider(_) => None,
    };
    parts.iter().filter_map(image).collect()
}
