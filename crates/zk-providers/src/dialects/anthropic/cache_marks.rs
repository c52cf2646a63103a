//! Marks that tell the provider which prefix of a request to cache, and to look for in the cache.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use zk_core::model::{Message, Role};

/// A cache mark on a block: the provider caches the request up to there.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheControl {
    pub(super) fn new(ttl: super::CacheTtl) -> Self {
        let ttl = match ttl {
            super::CacheTtl::FiveMinutes => None,
            super::CacheTtl::OneHour => Some("1h"),
        };
        Self { kind: "ephemeral", ttl }
    }
}

/// Number of blocks before a mark, itself included, within which the provider looks for a cached prefix.
const LOOK_BACK_BLOCKS: usize = 20;

/// Whether the message `at` had the mark of the last request, and is beyond the range of the mark on the last
/// message: a turn with many calls adds more blocks than the provider looks back. Without the old mark,
/// nothing of the conversation would be found in the cache then.
pub(super) fn is_far_back(at: usize, history: &[Arc<Message>]) -> bool {
    let Some((_, before)) = history.split_last() else { return false };
    let was_last = before.iter().rposition(|message| message.role == Role::User);
    let news = history.iter().skip(at + 1).map(|message| message.content.len());
    was_last == Some(at) && news.sum::<usize>() >= LOOK_BACK_BLOCKS
}

/// Whether options or the person's extra fields set cache marks too. A request may have four marks, and this
/// dialect sets three.
pub(super) fn has_other_marks(extra: &Map<String, Value>, hosted_tools: &[Value]) -> bool {
    extra.contains_key("cache_control") || hosted_tools.iter().any(|tool| tool.get("cache_control").is_some())
}
