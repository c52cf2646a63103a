//! The marks that say how far a request is to be kept, and be looked for, in the cache.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use zk_core::model::{Message, Role};

/// The mark behind which the provider keeps what it has read.
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

/// Number of blocks the provider looks back from a mark, itself included, for the end of what it has kept.
const LOOKS_BACK: usize = 20;

/// Whether the mark of the request before stood on the message `at`, and out of sight of the mark on the last
/// message: a turn of many calls brings more blocks than the provider looks back. Nothing of the conversation
/// would be found in the cache then, unless the old mark is there still.
pub(super) fn is_far_back(at: usize, history: &[Arc<Message>]) -> bool {
    let Some((_, before)) = history.split_last() else { return false };
    let was_last = before.iter().rposition(|message| message.role == Role::User);
    let news = history.iter().skip(at + 1).map(|message| message.content.len());
    was_last == Some(at) && news.sum::<usize>() >= LOOKS_BACK
}

/// Whether somebody else has put marks into a request: of the four it may have, three are usual here.
pub(super) fn has_others(extra: &Map<String, Value>, hosted_tools: &[Value]) -> bool {
    extra.contains_key("cache_control") || hosted_tools.iter().any(|tool| tool.get("cache_control").is_some())
}
