use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::Value;
use zk_core::model::{Block, ModelRef, StopReason, Thinking, ToolCall, Usage};

use super::format::TranscriptRef;
use super::lines::JsonLines;
use super::outcome::{self, Outcome};
use super::session_builder::{PROGRAM, SessionBuilder};
use super::transcript::{Facts, Transcript};
use super::value::{content_of, count, is_true, list, media_block, nano_dollars, text};
use crate::ImportError;
use crate::time::parse_time;

/// Newest known version of pi's session files.
const KNOWN_VERSION: u64 = 3;

/// Reads a session of pi: the branch of its last entry.
pub(super) fn read(found: &TranscriptRef) -> Result<Transcript, ImportError> {
    let mut lines = JsonLines::open(&found.path)?;
    let (mut own_id, mut cwd, mut title) = (String::new(), PathBuf::new(), None);
    let mut entries: Vec<Value> = Vec::new();
    while let Some(line) = lines.next_readable::<Value>()? {
        match text(&line, "type") {
            "session" if own_id.is_empty() => {
                let version = count(&line, "version");
                if version > KNOWN_VERSION {
                    return Err(ImportError::TooNew {
                        path: found.path.clone(),
                        found: version.to_string(),
                        known: "3",
                    });
                }
                text(&line, "id").clone_into(&mut own_id);
                cwd = text(&line, "cwd").into();
            }
            "session_info" => title = Some(text(&line, "name").to_owned()),
            _ => entries.push(line),
        }
    }
    let (branch, left) = present_branch(&entries);
    let mut builder = SessionBuilder::new();
    // In the new session, a summary precedes the entries that its compaction kept.
    let kept =
        |line: &&Value| text(line, "type") == "compaction" && !text(line, "firstKeptEntryId").is_empty();
    let summaries: HashMap<&str, &Value> =
        branch.iter().copied().filter(kept).map(|line| (text(line, "firstKeptEntryId"), line)).collect();
    let ids: HashSet<&str> = branch.iter().map(|line| text(line, "id")).collect();
    for line in &branch {
        builder.set_time(parse_time(text(line, "timestamp")));
        if let Some(summary) = summaries.get(text(line, "id")) {
            builder.add_compaction(text(summary, "summary"), count(summary, "tokensBefore"));
        }
        let is_placed = ids.contains(text(line, "firstKeptEntryId"));
        match text(line, "type") {
            "message" => add_message(&mut builder, line.get("message").unwrap_or(&Value::Null)),
            "custom_message" => builder.add_injected(text(line, "customType"), message_blocks(line)),
            "compaction" if !is_placed => {
                builder.add_compaction(text(line, "summary"), count(line, "tokensBefore"));
            }
            "branch_summary" => {
                builder.add_injected("branch summary", vec![Block::text(text(line, "summary"))])
            }
            _ => {}
        }
    }
    let mut notices = lines.notices();
    if left > 0 {
        notices.push(format!("{left} messages of branches that were left are not imported"));
    }
    if own_id.is_empty() {
        own_id = found.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    Facts { own_id, cwd, title, notices }.into_transcript(found, builder.finish())
}

/// Entries from the root to the last one, and the number of messages on other branches.
fn present_branch(entries: &[Value]) -> (Vec<&Value>, u64) {
    let by_id: HashMap<&str, &Value> =
        entries.iter().map(|entry| (text(entry, "id"), entry)).filter(|(id, _)| !id.is_empty()).collect();
    if by_id.is_empty() {
        // The first version of the format had no tree of entries.
        return (entries.iter().collect(), 0);
    }
    let mut branch = Vec::new();
    let mut seen = HashSet::new();
    let mut next = entries.iter().rfind(|entry| !text(entry, "id").is_empty());
    while let Some(entry) = next {
        if !seen.insert(text(entry, "id")) {
            break;
        }
        branch.push(entry);
        next = by_id.get(text(entry, "parentId")).copied();
    }
    branch.reverse();
    let is_left = |entry: &&Value| text(entry, "type") == "message" && !seen.contains(text(entry, "id"));
    let left = entries.iter().filter(is_left).count() as u64;
    (branch, left)
}

fn add_message(builder: &mut SessionBuilder, message: &Value) {
    match text(message, "role") {
        "user" => builder.add_prompt(message_blocks(message)),
        "assistant" => add_answer(builder, message),
        "toolResult" => {
            let call_id = text(message, "toolCallId");
            let mut outcome = Outcome::new(content_of(message_blocks(message)), is_true(message, "isError"));
            let details = message.get("details").unwrap_or(&Value::Null);
            if let Some(call) = builder.find_call(call_id).filter(|_| !outcome.is_error) {
                let path = text(&call.args, "path").to_owned();
                outcome.display = match text(message, "toolName") {
                    "edit" => outcome::diff_display(&path, &strip_line_numbers(text(details, "diff"))),
                    "bash" => outcome::command_display(&outcome.content.to_text(), Some(0)),
                    "todo" | "todowrite" => outcome::checklist_display(&call.args),
                    _ => None,
                };
            }
            builder.add_result(call_id, outcome);
        }
        "bashExecution" => {
            let said = format!("$ {}\n{}", text(message, "command"), text(message, "output"));
            builder.add_injected("shell", vec![Block::text(said)]);
        }
        "compactionSummary" => {
            builder.add_compaction(text(message, "summary"), count(message, "tokensBefore"))
        }
        "branchSummary" | "custom" | "hookMessage" => builder.add_injected(PROGRAM, message_blocks(message)),
        _ => {}
    }
}

/// Converts a diff of pi, whose lines have a number after the sign, to one with signs only.
fn strip_line_numbers(diff: &str) -> String {
    let line = |line: &str| {
        let (sign, rest) = match line.chars().next() {
            Some(sign @ ('+' | '-' | ' ')) => (sign, line.get(1..).unwrap_or_default()),
            _ => return line.to_owned(),
        };
        let rest = rest.trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let text = rest.get(digits..).unwrap_or_default();
        format!("{sign}{}", text.strip_prefix(' ').unwrap_or(text))
    };
    diff.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn add_answer(builder: &mut SessionBuilder, message: &Value) {
    let model = ModelRef::new(text(message, "provider"), text(message, "model"));
    let part = |part: &Value| match text(part, "type") {
        "text" => Some(Block::text(text(part, "text"))),
        "thinking" => {
            // Only signatures of Anthropic's interface are kept: those of others are field names or ids of
            // items.
            let signature = text(part, "thinkingSignature").to_owned();
            let is_proof = text(message, "api") == "anthropic-messages" && !signature.is_empty();
            Some(Block::Thinking(Thinking {
                text: text(part, "thinking").to_owned(),
                signature: is_proof.then_some(signature),
                origin: Some(model.clone()),
                ..Thinking::default()
            }))
        }
        "toolCall" => {
            let args = part.get("arguments").filter(|args| args.is_object()).cloned();
            let args = args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            Some(Block::ToolCall(ToolCall::new(text(part, "id"), text(part, "name"), args)))
        }
        _ => None,
    };
    let parts = list(message, "content").iter().filter_map(part).collect();
    let group = format!("{}-{}", text(message, "responseId"), count(message, "timestamp"));
    builder.add_answer(&group, Some(&model), parts);
    let stop = match text(message, "stopReason") {
        "stop" => Some(StopReason::EndTurn),
        "toolUse" => Some(StopReason::ToolUse),
        "length" => Some(StopReason::MaxTokens),
        "error" => Some(StopReason::Error),
        "aborted" => Some(StopReason::Aborted),
        _ => None,
    };
    if stop == Some(StopReason::Aborted) {
        builder.mark_stopped();
    }
    builder.set_stop(stop);
    if let Some(usage) = message.get("usage") {
        let cost = usage.get("cost").and_then(|cost| cost.get("total")).and_then(Value::as_f64);
        let cost = cost.filter(|cost| *cost > 0.0);
        let usage = Usage {
            input: count(usage, "input"),
            output: count(usage, "output"),
            cache_read: count(usage, "cacheRead"),
            cache_write: count(usage, "cacheWrite"),
            billed: cost.and_then(nano_dollars),
            ..Usage::default()
        };
        builder.set_usage(usage, cost, true);
    }
}

/// Blocks of a message, whose content is a text or a list.
fn message_blocks(message: &Value) -> Vec<Block> {
    match message.get("content") {
        Some(Value::String(said)) => vec![Block::text(said.as_str())],
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| match text(part, "type") {
                "text" => Some(Block::text(text(part, "text"))),
                "image" => Some(media_block(text(part, "mimeType"), text(part, "data"), "")),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
