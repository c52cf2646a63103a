//! Strict check of a canonical history.

use std::collections::HashSet;

use serde_json::Value;
use zk_core::model::{
    Block, CallId, Message, Role, StopReason, ThinkingReplay, ToolCall, ToolContent, ToolResult, WireData,
    WireReady, WireRules,
};

use super::{Checked, Rule, has_nul, is_blank, is_tool_name, reject};

/// Checks that `ready` is acceptable for any provider with `rules`: roles alternate from user to user, every
/// call has one result directly after it, results come first, nothing is empty, ids and names are valid, ids
/// are unique, and nothing is hidden from the target.
///
/// ```
/// use zk_core::model::{Message, ModelRef, WireReady, WireRules};
///
/// let rules = WireRules::tolerant(ModelRef::new("any", "model"));
/// let ready = WireReady::normalise(&[Message::user_text("hello").shared()], &rules);
/// assert_eq!(zk_testkit::rules::check_wire(&ready, &rules), Ok(()));
/// ```
///
/// # Errors
/// The first [`Violation`](super::Violation).
pub fn check_wire(ready: &WireReady, rules: &WireRules) -> Result<(), super::Violation> {
    let messages = ready.messages();
    match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => {
            if first.role != Role::User {
                return reject(Rule::FirstNotUser, "messages[0] is not the user's");
            }
            let is_paused = matches!(last.stop, Some(StopReason::PauseTurn | StopReason::Compaction));
            if last.role != Role::User && !(rules.resumes && is_paused) {
                return reject(Rule::LastNotUser, "the last message is not the user's");
            }
        }
        _ => return reject(Rule::NoMessages, "there are no messages"),
    }
    let mut used: HashSet<&CallId> = HashSet::new();
    let mut open: Vec<&CallId> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let expected = if at % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != expected {
            return reject(Rule::SameRole, format!("messages[{at}] has the role of the message before it"));
        }
        if message.content.is_empty() {
            return reject(Rule::EmptyMessage, format!("messages[{at}] has no content"));
        }
        match message.role {
            Role::User => check_user(message, at, &std::mem::take(&mut open), rules)?,
            Role::Assistant => open = check_assistant(message, at, &mut used, rules)?,
        }
    }
    Ok(())
}

/// Checks an assistant message; returns its calls.
fn check_assistant<'a>(
    message: &'a Message,
    at: usize,
    used: &mut HashSet<&'a CallId>,
    rules: &WireRules,
) -> Checked<Vec<&'a CallId>> {
    let mut open = Vec::new();
    let mut speaks = false;
    for (part, block) in message.content.iter().enumerate() {
        let place = format!("messages[{at}].content[{part}]");
        match block {
            Block::Text(text) => {
                speaks = true;
                check_text(&text.text, text.wire.as_ref(), &place, rules)?;
            }
            Block::ToolCall(call) => {
                speaks = true;
                check_call(call, message, &place, rules)?;
                if !used.insert(&call.id) {
                    return reject(Rule::DuplicateId, format!("{place}: the id {} was used before", call.id));
                }
                open.push(&call.id);
            }
            Block::Thinking(thinking) => {
                let own = thinking.origin.as_ref() == Some(&rules.target);
                let proven = thinking.signature.is_some() || thinking.redacted.is_some();
                let may_go = match rules.thinking {
                    ThinkingReplay::Never => false,
                    ThinkingReplay::Signed => own && proven,
                    ThinkingReplay::Echo => own,
                };
                if !may_go {
                    return reject(Rule::Thinking, format!("{place}: this thinking must not be sent"));
                }
            }
            Block::Image(image) if rules.image_in_answer && is_accepted_media(block, rules) => {
                speaks = true;
                check_wire_data(image.wire.as_ref(), &place, rules)?;
            }
            Block::Image(_) | Block::Document(_) => {
                return reject(Rule::Media, format!("{place}: this answer may not carry it"));
            }
            Block::ToolResult(_) => {
                return reject(Rule::Role, format!("{place}: a result in an assistant message"));
            }
            Block::Provider(block) => {
                speaks = true;
                check_wire_data(Some(&block.wire), &place, rules)?;
            }
            Block::Compaction(_) => {
                return reject(Rule::Foreign, format!("{place}: no provider knows compaction markers"));
            }
        }
    }
    if !speaks {
        return reject(Rule::EmptyMessage, format!("messages[{at}] says nothing"));
    }
    Ok(open)
}

/// Checks that a user message begins with the results of exactly `open`.
fn check_user(message: &Message, at: usize, open: &[&CallId], rules: &WireRules) -> Checked {
    let mut waiting = open.to_vec();
    let mut others = false;
    for (part, block) in message.content.iter().enumerate() {
        let place = format!("messages[{at}].content[{part}]");
        match block {
            Block::ToolResult(result) => {
                if others {
                    return reject(Rule::ResultsNotFirst, format!("{place}: a result after other content"));
                }
                let Some(found) = waiting.iter().position(|id| **id == result.call_id) else {
                    let rule = if open.contains(&&result.call_id) {
                        Rule::DuplicateResult
                    } else {
                        Rule::OrphanResult
                    };
                    return reject(
                        rule,
                        format!("{place}: nothing waits for a result of {}", result.call_id),
                    );
                };
                waiting.remove(found);
                check_result(result, &place, rules)?;
                continue;
            }
            Block::Text(text) => check_text(&text.text, text.wire.as_ref(), &place, rules)?,
            Block::Image(_) | Block::Document(_) if !is_accepted_media(block, rules) => {
                return reject(Rule::Media, format!("{place}: the model cannot take it"));
            }
            Block::Image(_) | Block::Document(_) => {}
            Block::ToolCall(_) | Block::Thinking(_) | Block::Provider(_) => {
                return reject(Rule::Role, format!("{place}: only the model says this"));
            }
            Block::Compaction(_) => {
                return reject(Rule::Foreign, format!("{place}: no provider knows compaction markers"));
            }
        }
        others = true;
    }
    match waiting.first() {
        None => Ok(()),
        Some(id) => reject(Rule::UnansweredCall, format!("messages[{at}] does not answer {id}")),
    }
}

fn is_accepted_media(block: &Block, rules: &WireRules) -> bool {
    match block {
        Block::Image(image) => {
            let media = rules.media;
            rules.vision && media.takes_image(&image.media_type) && !media.is_too_large(&image.data)
        }
        Block::Document(document) => {
            let is_text = document.media_type.to_lowercase().starts_with("text/");
            (rules.vision || is_text) && rules.media.takes_document(&document.media_type)
        }
        _ => true,
    }
}

fn check_text(text: &str, wire: Option<&WireData>, place: &str, rules: &WireRules) -> Checked {
    if is_blank(text) {
        return reject(Rule::EmptyText, format!("{place}: the text is empty"));
    }
    if text.contains('\0') {
        return reject(Rule::Nul, format!("{place}: the text contains NUL"));
    }
    check_wire_data(wire, place, rules)
}

fn check_wire_data(wire: Option<&WireData>, place: &str, rules: &WireRules) -> Checked {
    match wire {
        Some(wire) if wire.origin != rules.target => {
            reject(Rule::Foreign, format!("{place}: carries data of {}", wire.origin))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_call(call: &ToolCall, message: &Message, place: &str, rules: &WireRules) -> Checked {
    // The target accepts ids that it issued itself in any form.
    let id = call.id.as_str();
    let is_given =
        message.origin.as_ref() == Some(&rules.target) && !id.is_empty() && !call.id.is_made_here();
    if !rules.ids.allows(id) && !is_given {
        return reject(Rule::IllegalId, format!("{place}: the id `{}` is not legal", call.id));
    }
    if !is_tool_name(&call.name) {
        return reject(Rule::ToolName, format!("{place}: the name `{}` is not legal", call.name));
    }
    if !matches!(call.args, Value::Object(_)) || call.malformed.is_some() {
        return reject(Rule::Arguments, format!("{place}: the arguments are not an object"));
    }
    if has_nul(&call.args) {
        return reject(Rule::Nul, format!("{place}: the arguments contain NUL"));
    }
    check_wire_data(call.wire.as_ref(), place, rules)
}

fn check_result(result: &ToolResult, place: &str, rules: &WireRules) -> Checked {
    let blocks = match &result.content {
        ToolContent::Text(text) if text.is_empty() => {
            return reject(Rule::EmptyText, format!("{place}: the result is empty"));
        }
        ToolContent::Text(text) if text.contains('\0') => {
            return reject(Rule::Nul, format!("{place}: the result contains NUL"));
        }
        ToolContent::Text(_) => return Ok(()),
        ToolContent::Blocks(blocks) if blocks.is_empty() => {
            return reject(Rule::EmptyMessage, format!("{place}: the result has no content"));
        }
        ToolContent::Blocks(blocks) => blocks,
    };
    for block in blocks {
        match block {
            Block::Text(text) => check_text(&text.text, text.wire.as_ref(), place, rules)?,
            Block::Image(_) | Block::Document(_) if result.is_error => {
                return reject(Rule::MediaInError, format!("{place}: media in a failed result"));
            }
            Block::Image(_) | Block::Document(_)
                if !rules.image_in_tool_result || !is_accepted_media(block, rules) =>
            {
                return reject(Rule::Media, format!("{place}: media in a result"));
            }
            Block::Image(_) | Block::Document(_) => {}
            Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => {
                return reject(Rule::Shape, format!("{place}: a result carries only text and media"));
            }
        }
    }
    Ok(())
}
