use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use zk_core::model::{Block, Display, ModelRef, Thinking, ToolCall, Usage};

use super::format::TranscriptRef;
use super::lines::JsonLines;
use super::outcome::{self, Outcome};
use super::session_builder::{PROGRAM, SessionBuilder};
use super::transcript::{Facts, Transcript};
use super::value::{block_of_data_url, content_of, count, list, text};
use crate::ImportError;
use crate::time::parse_time;

/// Prefixes of texts that codex adds to prompts.
const OWN_TEXTS: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "<skills_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
];

/// Display and duration of a command, which codex reports in an event beside the result.
struct Ended {
    display: Option<Display>,
    elapsed_ms: u64,
}

struct Reader {
    builder: SessionBuilder,
    model: ModelRef,
    own_id: String,
    cwd: PathBuf,
    ended: HashMap<String, Ended>,
}

/// Reads a rollout file of codex.
pub(super) fn read(found: &TranscriptRef) -> Result<Transcript, ImportError> {
    let mut lines = JsonLines::open(&found.path)?;
    let mut reader = Reader {
        builder: SessionBuilder::new(),
        model: ModelRef::new("openai", "codex"),
        own_id: String::new(),
        cwd: PathBuf::new(),
        ended: HashMap::new(),
    };
    while let Some(line) = lines.next_readable::<Value>()? {
        reader.add_line(&line);
    }
    let Reader { builder, mut own_id, cwd, .. } = reader;
    if own_id.is_empty() {
        own_id = found.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    let facts = Facts { own_id, cwd, title: None, notices: lines.notices() };
    facts.into_transcript(found, builder.finish())
}

impl Reader {
    fn add_line(&mut self, line: &Value) {
        self.builder.set_time(parse_time(text(line, "timestamp")));
        let Some(payload) = line.get("payload") else {
            // Older rollouts have items without an envelope, and the session's metadata in the first line.
            if line.get("type").is_none() && self.own_id.is_empty() {
                text(line, "id").clone_into(&mut self.own_id);
            }
            return self.add_item(line);
        };
        match text(line, "type") {
            "session_meta" if self.own_id.is_empty() => {
                text(payload, "id").clone_into(&mut self.own_id);
                self.cwd = text(payload, "cwd").into();
                if !text(payload, "model_provider").is_empty() {
                    text(payload, "model_provider").clone_into(&mut self.model.provider);
                }
            }
            "turn_context" if !text(payload, "model").is_empty() => {
                text(payload, "model").clone_into(&mut self.model.model);
            }
            "response_item" => self.add_item(payload),
            "token_usage_record" => self.set_usage(payload.get("usage")),
            "event_msg" => self.add_event(payload),
            "compacted" => self.builder.add_compaction(text(payload, "message"), 0),
            _ => {}
        }
    }

    fn set_usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let (read, cached) = (count(usage, "input_tokens"), count(usage, "cached_input_tokens"));
        let written = count(usage, "cache_write_input_tokens");
        let usage = Usage {
            input: read.saturating_sub(cached).saturating_sub(written),
            output: count(usage, "output_tokens"),
            cache_read: cached,
            cache_write: written,
            reasoning: count(usage, "reasoning_output_tokens"),
            ..Usage::default()
        };
        self.builder.set_usage(usage, None, false);
    }

    fn add_event(&mut self, event: &Value) {
        match text(event, "type") {
            "token_count" => self.set_usage(event.get("info").and_then(|info| info.get("last_token_usage"))),
            "turn_aborted" => self.builder.mark_stopped(),
            "exec_command_end" => self.record_end(text(event, "call_id"), event),
            "item_completed" => {
                let Some(item) = event.get("item") else { return };
                if text(item, "type") == "CommandExecution" {
                    self.record_end(text(item, "id"), item);
                }
            }
            _ => {}
        }
    }

    fn record_end(&mut self, call_id: &str, item: &Value) {
        let exit = item.get("exit_code").and_then(Value::as_i64);
        let duration = item.get("duration").unwrap_or(&Value::Null);
        let elapsed_ms = count(duration, "secs") * 1000 + count(duration, "nanos") / 1_000_000;
        let display = outcome::command_display(text(item, "aggregated_output"), exit);
        self.ended.insert(call_id.to_owned(), Ended { display, elapsed_ms });
    }

    fn add_item(&mut self, item: &Value) {
        let model = self.model.clone();
        match text(item, "type") {
            "message" => self.add_message(item),
            "reasoning" => {
                let parts = [list(item, "summary"), list(item, "content")].concat();
                let texts: Vec<&str> = parts.iter().map(|part| text(part, "text")).collect();
                // Encrypted reasoning is readable only for the account that wrote it.
                let thinking =
                    Thinking { text: texts.join("\n\n"), origin: Some(model.clone()), ..Thinking::default() };
                self.builder.add_answer("", Some(&model), vec![Block::Thinking(thinking)]);
            }
            "function_call" => {
                let said = text(item, "arguments");
                let args = serde_json::from_str::<Value>(said).ok().filter(Value::is_object);
                let call = match args {
                    Some(args) => ToolCall::new(text(item, "call_id"), text(item, "name"), args),
                    None => ToolCall {
                        malformed: Some(said.to_owned()),
                        ..ToolCall::new(text(item, "call_id"), text(item, "name"), json!({}))
                    },
                };
                self.builder.add_answer("", Some(&model), vec![Block::ToolCall(call)]);
            }
            "custom_tool_call" => {
                let args = json!({ "input": text(item, "input") });
                let call = ToolCall::new(text(item, "call_id"), text(item, "name"), args);
                self.builder.add_answer("", Some(&model), vec![Block::ToolCall(call)]);
            }
            "local_shell_call" => {
                let command = item.get("action").and_then(|action| action.get("command")).cloned();
                let args = json!({ "command": command.unwrap_or_default() });
                let call = ToolCall::new(text(item, "call_id"), "local_shell", args);
                self.builder.add_answer("", Some(&model), vec![Block::ToolCall(call)]);
            }
            "function_call_output" | "custom_tool_call_output" => self.add_output(item),
            _ => {}
        }
    }

    fn add_message(&mut self, item: &Value) {
        let parts: Vec<Block> = list(item, "content").iter().filter_map(message_block).collect();
        let first = parts.iter().find_map(Block::as_text).unwrap_or_default();
        match text(item, "role") {
            "assistant" => {
                let model = self.model.clone();
                self.builder.add_answer("", Some(&model), parts);
            }
            "user" if first.starts_with("<turn_aborted>") => self.builder.mark_stopped(),
            "user" if OWN_TEXTS.iter().any(|own| first.starts_with(own)) => {}
            "user" if first.starts_with('<') && first.trim_end().ends_with('>') => {
                self.builder.add_injected(PROGRAM, parts);
            }
            "user" => self.builder.add_prompt(parts),
            // System and developer messages belong to the other program and are left out.
            _ => {}
        }
    }

    fn add_output(&mut self, item: &Value) {
        let call_id = text(item, "call_id");
        let (content, success) = match item.get("output") {
            Some(Value::String(said)) => (said.as_str().into(), None),
            Some(Value::Array(parts)) => (content_of(parts.iter().filter_map(message_block).collect()), None),
            Some(output) => (text(output, "content").into(), output.get("success").and_then(Value::as_bool)),
            None => ("".into(), None),
        };
        let ended = self.ended.remove(call_id);
        let said = content.to_text();
        let is_unknown =
            said.starts_with("unsupported call") || said.starts_with("unsupported custom tool call");
        let mut outcome = Outcome::new(content, success == Some(false) || is_unknown);
        if let Some(call) = self.builder.find_call(call_id).filter(|_| !outcome.is_error) {
            outcome.display = match call.name.as_str() {
                "apply_patch" => outcome::codex_patch_display(
                    &["input", "patch"].map(|key| text(&call.args, key)).concat(),
                ),
                "update_plan" => outcome::checklist_display(&call.args),
                _ => None,
            };
        }
        if let Some(Ended { display, elapsed_ms }) = ended {
            outcome.display = outcome.display.or(display);
            outcome.elapsed_ms = elapsed_ms;
        }
        self.builder.add_result(call_id, outcome);
    }
}

fn message_block(part: &Value) -> Option<Block> {
    match text(part, "type") {
        "input_text" | "output_text" | "text" => Some(Block::text(text(part, "text"))),
        "input_image" => block_of_data_url(text(part, "image_url"), ""),
        _ => None,
    }
}
