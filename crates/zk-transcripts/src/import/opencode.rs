use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::Value;
use zk_core::model::{Block, ModelRef, StopReason, Thinking, ToolCall, Usage};
use zk_core::service::read_regular;

use super::format::{TranscriptFormat, TranscriptRef};
use super::outcome::{self, Outcome};
use super::session_builder::{PROGRAM, SessionBuilder};
use super::transcript::{Facts, Transcript};
use super::value::{block_of_data_url, content_of, count, is_true, list, nano_dollars, text};
use crate::ImportError;

/// Time limit of the wait for a database that opencode is writing to.
const BUSY: Duration = Duration::from_secs(5);

/// Maximum nesting depth of imported sub-agents.
const MAX_DEPTH: usize = 1;

/// Maximum size of an export of opencode in bytes, which is read as a whole.
const MAX_EXPORT_BYTES: u64 = 256 << 20;

/// Source of opencode's sessions: its database, or the JSON that `opencode export` writes.
enum Source {
    Database(Connection),
    Export(Value),
}

/// One message with its parts.
struct Message {
    info: Value,
    parts: Vec<Value>,
}

/// Lists the conversations of a database, oldest first, without those of sub-agents.
pub(super) fn list_sessions(path: &Path) -> Result<Vec<TranscriptRef>, ImportError> {
    let fail = |source| ImportError::Database { path: path.to_path_buf(), source };
    let db = open_database(path)?;
    let is_known: Option<i64> = db
        .query_row("SELECT 1 FROM sqlite_master WHERE type='table' AND name='part'", [], |row| row.get(0))
        .optional()
        .map_err(fail)?;
    if is_known.is_none() {
        return Err(ImportError::Unknown(path.to_path_buf()));
    }
    let mut rows = db
        .prepare("SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_created, id")
        .map_err(fail)?;
    let ids = rows.query_map([], |row| row.get::<_, String>(0)).map_err(fail)?;
    let found = |id| TranscriptRef {
        format: TranscriptFormat::Opencode,
        path: path.to_path_buf(),
        session: Some(id),
    };
    ids.map(|id| Ok(found(id.map_err(fail)?))).collect()
}

fn open_database(path: &Path) -> Result<Connection, ImportError> {
    let fail = |source| ImportError::Database { path: path.to_path_buf(), source };
    let db =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(fail)?;
    db.busy_timeout(BUSY).map_err(fail)?;
    db.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;").map_err(fail)?;
    Ok(db)
}

/// Reads a session of opencode with its sub-agents.
pub(super) fn read(found: &TranscriptRef) -> Result<Transcript, ImportError> {
    let source = match &found.session {
        Some(_) => Source::Database(open_database(&found.path)?),
        None => Source::Export(read_export(&found.path)?),
    };
    let fail = |source| ImportError::Database { path: found.path.clone(), source };
    let (own_id, cwd, title) = match (&source, &found.session) {
        (Source::Database(db), Some(id)) => {
            let session = db.query_row("SELECT directory, title FROM session WHERE id=?1", [id], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            });
            let (cwd, title) = session.map_err(fail)?;
            (id.clone(), PathBuf::from(cwd), title)
        }
        (Source::Export(export), _) => {
            let info = export.get("info").unwrap_or(&Value::Null);
            (text(info, "id").to_owned(), text(info, "directory").into(), text(info, "title").to_owned())
        }
        (Source::Database(_), None) => return Err(ImportError::Unknown(found.path.clone())),
    };
    let mut builder = SessionBuilder::new();
    let mut broken = 0;
    add_session(&mut builder, &source, &own_id, 0, &mut broken).map_err(fail)?;
    let notices = (broken > 0).then(|| format!("{broken} unreadable rows were left out"));
    let title = Some(title).filter(|title| !title.starts_with("New session - "));
    let facts = Facts { own_id, cwd, title, notices: notices.into_iter().collect() };
    facts.into_transcript(found, builder.finish())
}

/// Reads the JSON that `opencode export` wrote.
fn read_export(path: &Path) -> Result<Value, ImportError> {
    let read = |source| ImportError::Read { path: path.to_path_buf(), source };
    let bytes = match read_regular(path, MAX_EXPORT_BYTES) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Err(ImportError::Unknown(path.to_path_buf()));
        }
        bytes => bytes.map_err(read)?,
    };
    serde_json::from_slice(&bytes).map_err(|_| ImportError::Unknown(path.to_path_buf()))
}

/// Whether a value is what `opencode export` writes.
pub(super) fn is_export(value: &Value) -> bool {
    value.get("messages").is_some_and(Value::is_array)
        && value.get("info").is_some_and(|info| info.get("id").is_some())
}

fn read_messages(source: &Source, session: &str, broken: &mut u64) -> rusqlite::Result<Vec<Message>> {
    let db = match source {
        Source::Database(db) => db,
        Source::Export(export) => {
            let message = |message: &Value| Message {
                info: message.get("info").cloned().unwrap_or_default(),
                parts: list(message, "parts").to_vec(),
            };
            return Ok(list(export, "messages").iter().map(message).collect());
        }
    };
    let mut read = |json: String| {
        let value = serde_json::from_str::<Value>(&json).ok();
        *broken += u64::from(value.is_none());
        value
    };
    let mut parts: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut rows = db.prepare("SELECT message_id, data FROM part WHERE session_id=?1 ORDER BY id")?;
    let mut rows = rows.query([session])?;
    while let Some(row) = rows.next()? {
        if let Some(part) = read(row.get(1)?) {
            parts.entry(row.get(0)?).or_default().push(part);
        }
    }
    let mut messages = Vec::new();
    let mut rows =
        db.prepare("SELECT id, data FROM message WHERE session_id=?1 ORDER BY time_created, id")?;
    let mut rows = rows.query([session])?;
    while let Some(row) = rows.next()? {
        let (id, Some(info)) = (row.get::<_, String>(0)?, read(row.get(1)?)) else { continue };
        messages.push(Message { parts: parts.remove(&id).unwrap_or_default(), info });
    }
    Ok(messages)
}

/// Adds the messages of a session.
fn add_session(
    builder: &mut SessionBuilder,
    source: &Source,
    session: &str,
    depth: usize,
    broken: &mut u64,
) -> rusqlite::Result<()> {
    for Message { info, parts } in read_messages(source, session, broken)? {
        let time = info.get("time").unwrap_or(&Value::Null);
        builder.set_time(Some(count(time, "created")));
        if text(&info, "role") == "user" {
            add_prompt(builder, &parts);
            continue;
        }
        let model = ModelRef::new(text(&info, "providerID"), text(&info, "modelID"));
        if is_true(&info, "summary") {
            let summary: Vec<&str> = parts
                .iter()
                .filter(|part| text(part, "type") == "text")
                .map(|part| text(part, "text"))
                .collect();
            builder.add_compaction(&summary.join("\n"), 0);
            continue;
        }
        for part in &parts {
            match text(part, "type") {
                "step-start" => builder.end_answer(),
                "reasoning" => {
                    let thinking = Thinking {
                        text: text(part, "text").to_owned(),
                        origin: Some(model.clone()),
                        ..Thinking::default()
                    };
                    builder.add_answer("", Some(&model), vec![Block::Thinking(thinking)]);
                }
                "text" => builder.add_answer("", Some(&model), vec![Block::text(text(part, "text"))]),
                "tool" => add_call(builder, source, part, &model, depth, broken)?,
                "step-finish" => {
                    let tokens = part.get("tokens").unwrap_or(&Value::Null);
                    set_usage(builder, tokens, part.get("cost"));
                }
                _ => {}
            }
        }
        // Older messages report their usage only at their end.
        set_usage(builder, info.get("tokens").unwrap_or(&Value::Null), info.get("cost"));
        builder.set_stop(match text(&info, "finish") {
            "stop" => Some(StopReason::EndTurn),
            "tool-calls" => Some(StopReason::ToolUse),
            "length" => Some(StopReason::MaxTokens),
            _ => None,
        });
        if text(info.get("error").unwrap_or(&Value::Null), "name") == "MessageAbortedError" {
            builder.set_stop(Some(StopReason::Aborted));
            builder.mark_stopped();
        }
        builder.set_time(Some(count(time, "completed")));
        builder.end_answer();
    }
    Ok(())
}

fn set_usage(builder: &mut SessionBuilder, tokens: &Value, cost: Option<&Value>) {
    if tokens.is_null() {
        return;
    }
    let cache = tokens.get("cache").unwrap_or(&Value::Null);
    let (output, reasoning) = (count(tokens, "output"), count(tokens, "reasoning"));
    let cost = cost.and_then(Value::as_f64).filter(|cost| *cost > 0.0);
    let usage = Usage {
        input: count(tokens, "input"),
        output: output.saturating_add(reasoning),
        cache_read: count(cache, "read"),
        cache_write: count(cache, "write"),
        reasoning,
        billed: cost.and_then(nano_dollars),
        ..Usage::default()
    };
    builder.set_usage(usage, cost, false);
}

fn add_prompt(builder: &mut SessionBuilder, parts: &[Value]) {
    let (mut said, mut added) = (Vec::new(), Vec::new());
    for part in parts {
        match text(part, "type") {
            "text" if is_true(part, "synthetic") => added.push(Block::text(text(part, "text"))),
            "text" => said.push(Block::text(text(part, "text"))),
            "file" => said.extend(block_of_data_url(text(part, "url"), text(part, "filename"))),
            _ => {}
        }
    }
    builder.add_prompt(said);
    builder.add_injected(PROGRAM, added);
}

fn add_call(
    builder: &mut SessionBuilder,
    source: &Source,
    part: &Value,
    model: &ModelRef,
    depth: usize,
    broken: &mut u64,
) -> rusqlite::Result<()> {
    let (name, call_id) = (text(part, "tool"), text(part, "callID"));
    let state = part.get("state").unwrap_or(&Value::Null);
    let args = state.get("input").filter(|input| input.is_object()).cloned();
    let args = args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    builder.add_answer("", Some(model), vec![Block::ToolCall(ToolCall::new(call_id, name, args.clone()))]);
    let details = state.get("metadata").unwrap_or(&Value::Null);
    let mut outcome = match text(state, "status") {
        "completed" => {
            let mut blocks = vec![Block::text(text(state, "output"))];
            let files = list(state, "attachments").iter();
            blocks.extend(
                files.filter_map(|file| block_of_data_url(text(file, "url"), text(file, "filename"))),
            );
            Outcome::new(content_of(blocks), false)
        }
        "error" => Outcome::new(text(state, "error").into(), true),
        // A call in another state was interrupted and has no result.
        _ => return Ok(()),
    };
    if !outcome.is_error {
        outcome.display = match name {
            "edit" | "write" | "multiedit" | "apply_patch" | "patch" => {
                let path = text(&args, "filePath");
                outcome::diff_display(path, &without_header(text(details, "diff")))
            }
            "bash" => {
                let exit = details.get("exit").and_then(Value::as_i64);
                outcome::command_display(text(details, "output"), exit)
            }
            "todowrite" => outcome::checklist_display(&args),
            _ => None,
        };
    }
    let time = state.get("time").unwrap_or(&Value::Null);
    outcome.elapsed_ms = count(time, "end").saturating_sub(count(time, "start"));
    // A message may contain several steps; the next one begins after this result.
    let child = text(details, "sessionId");
    builder.add_result_in_turn(call_id, outcome);
    if !child.is_empty() && depth < MAX_DEPTH && matches!(source, Source::Database(_)) {
        let mut inner = SessionBuilder::new();
        add_session(&mut inner, source, child, depth + 1, broken)?;
        let agent = text(&args, "subagent_type");
        builder.add_agent(agent, Some(call_id), inner.into_agent_entries());
    }
    Ok(())
}

/// Diff without the header above its first hunk.
fn without_header(diff: &str) -> String {
    let lines = diff.lines().skip_while(|line| !line.starts_with("@@") && !line.starts_with("---"));
    lines.collect::<Vec<_>>().join("\n")
}
