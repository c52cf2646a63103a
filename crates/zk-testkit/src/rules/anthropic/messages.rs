use std::collections::HashSet;

use serde_json::Value;

use super::super::{Checked, IMAGES, Rule, Strictness, is_blank, is_tool_name, reject, text_of};
use super::hosted;
use super::params::thinks_with_budget;

/// Largest image, in bytes of base64.
const LARGEST_IMAGE: usize = 5 * 1024 * 1024;

/// Facts about the history that later checks need.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) tool_blocks: bool,
}

/// Block with its position in the request.
struct Part<'a> {
    place: String,
    block: &'a Value,
}

/// Consecutive messages of one role, merged as by the API.
struct Speech<'a> {
    assistant: bool,
    first: usize,
    parts: Vec<Part<'a>>,
}

impl<'a> Speech<'a> {
    fn blocks(&self) -> Vec<&'a Value> {
        self.parts.iter().map(|part| part.block).collect()
    }
}

pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked<Seen> {
    let messages = match body.get("messages") {
        None => return reject(Rule::NoMessages, "messages: Field required"),
        Some(Value::Array(messages)) => messages,
        Some(_) => return reject(Rule::Shape, "messages: Input should be a valid list"),
    };
    let mut speeches: Vec<Speech<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let assistant = check_role(message, at)?;
        let parts = check_parts(message, at, assistant)?;
        match speeches.last_mut() {
            Some(last) if last.assistant == assistant => {
                if strictness.alternate {
                    return reject(
                        Rule::SameRole,
                        format!(
                            "messages: roles must alternate between \"user\" and \"assistant\", but found \
                             multiple \"{}\" roles in a row",
                            if assistant { "assistant" } else { "user" }
                        ),
                    );
                }
                last.parts.extend(parts);
            }
            _ => speeches.push(Speech { assistant, first: at, parts }),
        }
    }
    match speeches.first() {
        None => return reject(Rule::NoMessages, "messages: at least one message is required"),
        Some(first) if first.assistant => {
            return reject(Rule::FirstNotUser, "messages: first message must use the \"user\" role");
        }
        Some(_) => {}
    }
    let begins_anew =
        speeches.last().is_some_and(|last| last.assistant && !hosted::is_paused(&last.blocks()));
    if !strictness.prefill && begins_anew {
        return reject(
            Rule::LastNotUser,
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        );
    }
    for (at, speech) in speeches.iter().enumerate() {
        hosted::check(&speech.blocks(), at + 1 == speeches.len(), speech.first)?;
    }
    let seen = check_call_result_pairs(strictness, &speeches)?;
    if strictness.thinking_first && thinks_with_budget(body) {
        check_thinking_first(&speeches)?;
    }
    Ok(seen)
}

/// Checks the role of a message; returns whether it is the assistant's.
fn check_role(message: &Value, at: usize) -> Checked<bool> {
    match text_of(message, "role") {
        Some("user") => Ok(false),
        Some("assistant") => Ok(true),
        Some("system") => reject(
            Rule::Role,
            "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \
             \"system\" as an input message role.",
        ),
        Some(_) | None => {
            reject(Rule::Role, format!("messages.{at}.role: Input should be 'user' or 'assistant'"))
        }
    }
}

fn check_parts(message: &Value, at: usize, assistant: bool) -> Checked<Vec<Part<'_>>> {
    let blocks = match message.get("content") {
        Some(Value::String(text)) if is_blank(text) => {
            return reject(Rule::EmptyText, "messages: text content blocks must be non-empty");
        }
        Some(Value::String(_)) => return Ok(Vec::new()),
        Some(Value::Array(blocks)) => blocks,
        Some(_) | None => return reject(Rule::Shape, format!("messages.{at}.content: Field required")),
    };
    if blocks.is_empty() {
        return reject(
            Rule::EmptyMessage,
            format!(
                "messages.{at}: all messages must have non-empty content except for the optional final assistant \
                 message"
            ),
        );
    }
    let mut parts = Vec::new();
    for (part, block) in blocks.iter().enumerate() {
        let place = format!("messages.{at}.content.{part}");
        match (text_of(block, "type"), assistant) {
            (Some("text"), _) => check_text(block, &place)?,
            (Some(kind @ ("image" | "document")), false) => check_media(block, kind, &place)?,
            (Some("tool_result"), false) => check_result(block, &place)?,
            (Some("tool_use"), true) => check_call(block, &place)?,
            (Some("thinking"), true) => check_thinking(block, &place)?,
            (Some("redacted_thinking"), true) => {
                if text_of(block, "data").is_none_or(str::is_empty) {
                    return reject(Rule::Thinking, format!("{place}.redacted_thinking.data: Field required"));
                }
            }
            (Some(kind), true) if hosted::is_kind(kind) => {}
            (Some(kind), _) => {
                let role = if assistant { "assistant" } else { "user" };
                return reject(
                    Rule::Role,
                    format!("{place}: `{kind}` blocks are not permitted in {role} messages"),
                );
            }
            (None, _) => return reject(Rule::Shape, format!("{place}.type: Field required")),
        }
        parts.push(Part { place, block });
    }
    Ok(parts)
}

fn check_text(block: &Value, place: &str) -> Checked {
    match text_of(block, "text") {
        Some("") => reject(Rule::EmptyText, "messages: text content blocks must be non-empty"),
        Some(text) if is_blank(text) => {
            reject(Rule::EmptyText, "messages: text content blocks must contain non-whitespace text")
        }
        Some(_) => Ok(()),
        None => reject(Rule::Shape, format!("{place}.text.text: Field required")),
    }
}

fn check_media(block: &Value, kind: &str, place: &str) -> Checked {
    let source = |key: &str| block.pointer(&format!("/source/{key}")).and_then(Value::as_str);
    match source("type") {
        Some("base64") if source("data").is_none_or(str::is_empty) => {
            reject(Rule::Media, format!("{place}.{kind}.source.base64.data: {kind} cannot be empty"))
        }
        Some("base64") if source("media_type").is_none_or(|kind| !kind.contains('/')) => {
            reject(Rule::Media, format!("{place}.{kind}.source.base64.media_type: Field required"))
        }
        Some("base64")
            if kind == "image" && source("data").is_some_and(|data| data.len() > LARGEST_IMAGE) =>
        {
            reject(Rule::Media, format!("{place}.image.source.base64: image exceeds 5 MB maximum"))
        }
        Some("base64") => {
            let types = if kind == "image" { IMAGES } else { &["application/pdf"][..] };
            match source("media_type").is_some_and(|given| types.contains(&given)) {
                true => Ok(()),
                false => reject(
                    Rule::Media,
                    format!(
                        "{place}.{kind}.source.base64.media_type: Input should be {}",
                        types.join(" or ")
                    ),
                ),
            }
        }
        Some("text") if source("media_type") != Some("text/plain") => reject(
            Rule::Media,
            format!("{place}.{kind}.source.text.media_type: Input should be 'text/plain'"),
        ),
        Some(_) => Ok(()),
        None => reject(Rule::Shape, format!("{place}.{kind}.source: Field required")),
    }
}

fn check_thinking(block: &Value, place: &str) -> Checked {
    if text_of(block, "signature").is_none_or(str::is_empty) {
        return reject(Rule::Thinking, format!("{place}.thinking.signature: Field required"));
    }
    if text_of(block, "thinking").is_none() {
        return reject(Rule::Thinking, format!("{place}.thinking.thinking: Field required"));
    }
    Ok(())
}

fn check_call(block: &Value, place: &str) -> Checked {
    if text_of(block, "id").is_none() {
        return reject(Rule::Shape, format!("{place}.tool_use.id: Field required"));
    }
    if !text_of(block, "name").is_some_and(is_tool_name) {
        return reject(
            Rule::ToolName,
            format!("{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"),
        );
    }
    if !block.get("input").is_some_and(Value::is_object) {
        return reject(
            Rule::Arguments,
            format!("{place}.tool_use.input: Input should be a valid dictionary"),
        );
    }
    Ok(())
}

fn check_result(block: &Value, place: &str) -> Checked {
    if text_of(block, "tool_use_id").is_none() {
        return reject(Rule::Shape, format!("{place}.tool_result.tool_use_id: Field required"));
    }
    let failed = block.get("is_error") == Some(&Value::Bool(true));
    match block.get("content") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => {
            for (at, inner) in blocks.iter().enumerate() {
                let place = format!("{place}.tool_result.content.{at}");
                match text_of(inner, "type") {
                    Some("text") => check_text(inner, &place)?,
                    Some("image" | "document" | "search_result" | "tool_reference") if failed => {
                        return reject(
                            Rule::MediaInError,
                            format!("{place}: all content must be type \"text\" if `is_error` is true"),
                        );
                    }
                    Some(kind @ ("image" | "document")) => check_media(inner, kind, &place)?,
                    Some("search_result" | "tool_reference") => {}
                    Some(kind) => {
                        return reject(
                            Rule::Shape,
                            format!("{place}: `{kind}` is not permitted in a tool_result"),
                        );
                    }
                    None => return reject(Rule::Shape, format!("{place}.type: Field required")),
                }
            }
            Ok(())
        }
        Some(_) => reject(Rule::Shape, format!("{place}.tool_result.content: Input should be a valid list")),
    }
}

/// Checks that every call has one result at the beginning of the next user message, and every result a call.
fn check_call_result_pairs(strictness: &Strictness, speeches: &[Speech<'_>]) -> Checked<Seen> {
    let mut seen = Seen::default();
    let mut ids: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut asked_at = 0;
    for speech in speeches {
        if speech.assistant {
            asked_at = speech.first;
            for part in speech.parts.iter().filter(|part| text_of(part.block, "type") == Some("tool_use")) {
                let id = text_of(part.block, "id").unwrap_or_default();
                if !strictness.ids.allows(id) {
                    return reject(
                        Rule::IllegalId,
                        format!("{}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", part.place),
                    );
                }
                if !ids.insert(id) {
                    return reject(Rule::DuplicateId, "messages: `tool_use` ids must be unique");
                }
                open.push(id);
                seen.tool_blocks = true;
            }
            continue;
        }
        let mut answered: Vec<&str> = Vec::new();
        let mut others = false;
        for part in &speech.parts {
            if text_of(part.block, "type") != Some("tool_result") {
                others = true;
                continue;
            }
            seen.tool_blocks = true;
            let id = text_of(part.block, "tool_use_id").unwrap_or_default();
            if !open.contains(&id) {
                return reject(
                    Rule::OrphanResult,
                    format!(
                        "{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` \
                         block must have a corresponding `tool_use` block in the previous message.",
                        part.place
                    ),
                );
            }
            if answered.contains(&id) {
                return reject(
                    Rule::DuplicateResult,
                    format!(
                        "{}: each tool_use must have a single result. Found multiple `tool_result` blocks with \
                         id: {id}",
                        part.place
                    ),
                );
            }
            if others {
                return reject_unanswered(Rule::ResultsNotFirst, asked_at, &[id]);
            }
            answered.push(id);
        }
        open.retain(|id| !answered.contains(id));
        if !open.is_empty() {
            return reject_unanswered(Rule::UnansweredCall, asked_at, &open);
        }
    }
    if open.is_empty() { Ok(seen) } else { reject_unanswered(Rule::UnansweredCall, asked_at, &open) }
}

fn reject_unanswered<T>(rule: Rule, at: usize, ids: &[&str]) -> Checked<T> {
    reject(
        rule,
        format!(
            "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
             `tool_use` block must have a corresponding `tool_result` block in the next message.",
            ids.join(", ")
        ),
    )
}

/// Checks that the last assistant message of an unfinished tool loop begins with its thinking.
fn check_thinking_first(speeches: &[Speech<'_>]) -> Checked {
    let [.., asking, answering] = speeches else { return Ok(()) };
    let kind = |part: &Part<'_>| text_of(part.block, "type").unwrap_or_default().to_owned();
    let in_loop = answering.parts.first().map(kind).as_deref() == Some("tool_result");
    match asking.parts.first().map(|part| (kind(part), &part.place)) {
        Some((found, place)) if in_loop && !matches!(&*found, "thinking" | "redacted_thinking") => reject(
            Rule::Thinking,
            format!(
                "{place}.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` \
                 is enabled, a final `assistant` message must start with a thinking block."
            ),
        ),
        Some(_) | None => Ok(()),
    }
}
