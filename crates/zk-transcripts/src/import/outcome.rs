use serde_json::Value;
use zk_core::model::{CheckItem, CheckState, CommandExit, Display, ToolContent};

use super::value::{list, text};

/// Maximum number of lines of a command's output that are kept for display.
const SHOWN_LINES: usize = 2000;

/// Result of a call of another program: the content for the model, and the display for people.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) content: ToolContent,
    pub(super) is_error: bool,
    pub(super) summary: Option<String>,
    pub(super) display: Option<Display>,
    pub(super) elapsed_ms: u64,
}

impl Outcome {
    pub(super) fn new(content: ToolContent, is_error: bool) -> Self {
        Self { content, is_error, summary: None, display: None, elapsed_ms: 0 }
    }
}

/// One-line summary of a call of another program; `None` for an unknown tool.
pub(super) fn summary(tool: &str, args: &Value) -> Option<String> {
    let path = ["file_path", "filePath", "path", "notebook_path"].map(|key| text(args, key));
    let path = path.into_iter().find(|path| !path.is_empty());
    match tool.to_ascii_lowercase().as_str() {
        "bash" | "shell" | "exec_command" | "local_shell" | "shell_command" => {
            let command = match args.get("command").or_else(|| args.get("cmd"))? {
                Value::String(command) => command.clone(),
                Value::Array(words) => {
                    // Of `bash -lc SCRIPT` only the script is shown.
                    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                    match words.as_slice() {
                        [_, "-lc" | "-c", script] => (*script).to_owned(),
                        words => words.join(" "),
                    }
                }
                _ => return None,
            };
            let mut lines = command.trim().lines();
            let first = lines.next().unwrap_or_default();
            Some(format!("$ {first}{}", if lines.next().is_some() { " …" } else { "" }))
        }
        "read" => Some(format!("read {}", path?)),
        "edit" | "multiedit" | "notebookedit" => Some(format!("edit {}", path?)),
        "write" => Some(format!("write {}", path?)),
        "apply_patch" => {
            let patch = ["input", "patch"].map(|key| text(args, key)).concat();
            let files = patch.lines().filter_map(|line| line.strip_prefix("*** ")?.split_once(" File: "));
            let files: Vec<&str> = files.map(|(_, file)| file).collect();
            (!files.is_empty()).then(|| format!("edit {}", files.join(", ")))
        }
        "todowrite" | "update_plan" => Some("to-do list".to_owned()),
        "task" | "agent" => {
            let task = ["description", "prompt"].map(|key| text(args, key));
            Some(format!("delegate: {}", task.into_iter().find(|task| !task.is_empty())?))
        }
        _ => None,
    }
}

/// Display of a command's output.
pub(super) fn command_display(output: &str, exit: Option<i64>) -> Option<Display> {
    let code = i32::try_from(exit?).ok()?;
    let all: Vec<&str> = output.trim_end().lines().collect();
    let from = all.len().saturating_sub(SHOWN_LINES);
    let lines = all.iter().skip(from).map(|line| (*line).to_owned()).collect();
    Some(Display::Command { lines, total_lines: all.len() as u64, exit: CommandExit::Code { code } })
}

/// Display of a unified diff.
pub(super) fn diff_display(path: &str, diff: &str) -> Option<Display> {
    let is_changed = diff.lines().any(|line| line.starts_with(['+', '-']));
    is_changed.then(|| Display::Diff { path: path.to_owned(), diff: diff.to_owned() })
}

/// Display of a patch in codex's format.
pub(super) fn codex_patch_display(patch: &str) -> Option<Display> {
    let mut path = "";
    let mut lines = Vec::new();
    for line in patch.lines() {
        match line.strip_prefix("*** ") {
            Some(head) => match head.split_once(" File: ") {
                Some((_, file)) => {
                    if !path.is_empty() {
                        lines.push(format!("*** {file}"));
                    }
                    path = if path.is_empty() { file } else { path };
                }
                None => continue,
            },
            None => lines.push(line.to_owned()),
        }
    }
    diff_display(path, &lines.join("\n"))
}

/// Display of a to-do list.
pub(super) fn checklist_display(args: &Value) -> Option<Display> {
    let items = [list(args, "todos"), list(args, "plan")].concat();
    let item = |item: &Value| {
        let said = ["content", "step", "text"].map(|key| text(item, key)).concat();
        let state = match text(item, "status") {
            "completed" | "done" => CheckState::Done,
            "in_progress" => CheckState::Current,
            _ => CheckState::Open,
        };
        CheckItem { text: said, state }
    };
    let items: Vec<CheckItem> = items.iter().map(item).filter(|item| !item.text.is_empty()).collect();
    (!items.is_empty()).then_some(Display::Checklist { items, reshaped: true })
}
