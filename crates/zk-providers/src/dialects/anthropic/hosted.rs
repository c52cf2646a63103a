//! Blocks of tools that the provider runs itself, when they are sent back.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use zk_core::model::{Block, Message, ProviderBlock, Role, StopReason, ToolCall};

/// Returns the block to send back; `None` for a container, which is named next to the messages instead.
pub(super) fn block_to_send(block: &ProviderBlock) -> Option<&Value> {
    Some(&block.wire.data).filter(|data| data.get("type").is_some())
}

/// Whether a call of a provider's tool has no result in a response that was not paused. Such a call is
/// rejected by the API; the calls of a paused response get their results when it continues.
pub(super) fn is_unanswered(block: &Block, message: &Message) -> bool {
    let goes_on = match &message.stop {
        Some(StopReason::ToolUse | StopReason::PauseTurn | StopReason::Compaction) => true,
        // The message was created by a program.
        None => true,
        Some(_) => false,
    };
    if goes_on {
        return false;
    }
    let field = |block: &Block, name: &str| {
        block.as_provider()?.wire.data.get(name).and_then(Value::as_str).map(str::to_owned)
    };
    field(block, "id").is_some_and(|id| {
        !message.content.iter().any(|other| field(other, "tool_use_id").as_deref() == Some(&*id))
    })
}

/// Returns the id of the container in which the last response ran code, unless it has expired. Code that
/// waits for the result of a call needs its container in any case.
pub(super) fn container(history: &[Arc<Message>], now: SystemTime) -> Option<&str> {
    let last = history.iter().rev().find(|message| message.role == Role::Assistant)?;
    let container =
        last.content.iter().rev().find_map(|block| block.as_provider()?.wire.data.get("container"))?;
    let is_there = || {
        let ends = container.get("expires_at").and_then(Value::as_str).and_then(parse_time);
        ends.is_some_and(|ends| ends > now)
    };
    let is_of_code = |call: &ToolCall| {
        let kind = call.wire.as_ref().and_then(|wire| wire.data.pointer("/caller/type")?.as_str());
        kind.is_some_and(|kind| kind != "direct")
    };
    let is_waited_for = || last.calls().any(is_of_code);
    let id = container.get("id")?.as_str()?;
    (is_waited_for() || is_there()).then_some(id)
}

/// Parses a time such as `2025-10-14T10:02:00.044495Z`, to the second.
fn parse_time(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !text.ends_with('Z') || year < 1970 || !(1..=12).contains(&month) {
        return None;
    }
    // Days of the civil calendar, with the year beginning in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::parse_time;

    #[test]
    fn a_moment_is_read_to_the_second() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:01Z", Some(951_825_601)),
            ("2025-10-14T10:02:00.044495Z", Some(1_760_436_120)),
            ("2025-10-14T10:02:00+02:00", None),
            ("soon", None),
        ] {
            let expected = seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}
