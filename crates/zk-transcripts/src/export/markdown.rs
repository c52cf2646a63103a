use std::borrow::Borrow;
use std::fmt::Write as _;

use zk_core::model::CommandExit;
use zk_view::{Block, Body, Call, CallState, Content, Form, Text};

/// Blocks of a conversation as Markdown, for people.
///
/// ```
/// let text = zk_transcripts::export_markdown::<zk_view::Block>(&[], Some("s_1"), "acme/large");
/// assert!(text.contains("Model: acme/large\nSession: s_1\n"));
/// ```
#[must_use]
pub fn export_markdown<B: Borrow<Block>>(blocks: &[B], session: Option<&str>, model: &str) -> String {
    let mut out = markdown_head(session, model);
    for block in blocks {
        markdown_block(&mut out, block.borrow());
    }
    out
}

/// Title and facts at the beginning of a document.
pub(crate) fn markdown_head(session: Option<&str>, model: &str) -> String {
    let mut out = String::from("# Conversation with zk\n\n");
    let _ = writeln!(out, "Model: {model}");
    if let Some(session) = session {
        let _ = writeln!(out, "Session: {session}");
    }
    out
}

/// Appends one block.
pub(crate) fn markdown_block(out: &mut String, block: &Block) {
    let by = block.agent.as_ref().map_or(String::new(), |agent| format!(" ({})", agent.name));
    match &block.content {
        Content::User { text, .. } => push_section(out, &format!("You{by}"), text),
        Content::Injected { by, text } => push_section(out, by.as_str(), text),
        Content::Answer { text, .. } if text.is_empty() => {}
        Content::Answer { text, .. } => push_section(out, &format!("Agent{by}"), text),
        Content::Summary { text } => push_section(out, "Summary of what was compacted", text),
        Content::Call(call) => {
            let _ = writeln!(out, "\n- {}{by}{}", call.summary, failed_outcome(call));
            if let Some(body) = call.body.as_ref().filter(|body| !body.lines.is_empty()) {
                push_fenced(out, &body_lines(body));
            }
        }
        Content::Plugin(plugin) => {
            let rows: Vec<&str> = plugin.body.lines.iter().map(Text::as_str).collect();
            if plugin.title.is_empty() {
                push_fenced(out, &[&format!("◦ {}: {}", plugin.source, rows.join("\n"))]);
            } else {
                push_fenced(out, &[&[plugin.title.as_str()], &*rows].concat());
            }
        }
        // These are transient, or not part of the conversation.
        Content::Thinking { .. } | Content::Provider { .. } | Content::End(_) | Content::Note { .. } => {}
    }
}

/// Outcome of a failed or unfinished call, with its exit code and the reason why it did not run; empty for a
/// successful call.
fn failed_outcome(call: &Call) -> String {
    let exit = call.body.as_ref().and_then(|body| match body.form {
        Form::Command { exit: CommandExit::Code { code } } => (code != 0).then(|| format!("exit {code}")),
        Form::Command { exit: CommandExit::Signal { signal } } => Some(format!("signal {signal}")),
        Form::Command { exit: CommandExit::TimedOut } => Some("time-out".to_owned()),
        Form::Command { exit: CommandExit::Stopped } => Some("stopped".to_owned()),
        Form::Line
        | Form::Lines
        | Form::Diff { .. }
        | Form::Table
        | Form::Markdown { .. }
        | Form::Checklist { .. } => None,
    });
    let state = match call.state {
        CallState::Done => None,
        CallState::Failed => Some("failed"),
        CallState::Refused => Some("refused"),
        CallState::Skipped => Some("skipped"),
        CallState::Parked => Some("parked"),
        CallState::Invalid => Some("invalid arguments"),
        CallState::Unknown => Some("no such tool"),
        CallState::OutcomeUnknown => Some("outcome unknown"),
        CallState::NotRun => Some("not run"),
        CallState::Writing | CallState::Waiting | CallState::Running => Some("running"),
    };
    let reason =
        call.reason.as_ref().map(|reason| reason.as_str().split_whitespace().collect::<Vec<_>>().join(" "));
    let facts: Vec<String> = state.map(str::to_owned).into_iter().chain(exit).chain(reason).collect();
    if facts.is_empty() { String::new() } else { format!(" — {}", facts.join(", ")) }
}

/// Lines of a body, with a remark on omitted lines.
fn body_lines(body: &Body) -> Vec<String> {
    let left = body.total_lines.saturating_sub(body.lines.len() as u64);
    let more = (left > 0).then(|| format!("… {left} more lines"));
    body.lines.iter().map(|line| line.as_str().to_owned()).chain(more).collect()
}

fn push_section(out: &mut String, title: &str, text: &Text) {
    let _ = write!(out, "\n## {title}\n\n{}\n", text.as_str().trim_end());
}

/// Writes rows as a code block, with a fence longer than any inside.
fn push_fenced<S: AsRef<str>>(out: &mut String, rows: &[S]) {
    let rows: Vec<&str> = rows.iter().map(AsRef::as_ref).collect();
    let lines = rows.iter().flat_map(|row| row.lines());
    let longest = lines.map(|row| row.chars().take_while(|c| *c == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    let _ = write!(out, "\n{fence}text\n{}\n{fence}\n", rows.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_did_not_end_well_says_so() {
        let told = |state: &str, exit: Option<i32>, reason: Option<&str>| {
            let body = exit.map(|code| {
                serde_json::json!({
                    "form": { "form": "command", "exit": CommandExit::Code { code } }, "lines": [], "total_lines": 0, "expandable": false,
                })
            });
            let call = serde_json::json!({
                "call_id": "c", "step": 0, "tool": "shell", "state": state, "summary": "$ false", "reason": reason,
                "body": body,
            });
            failed_outcome(&serde_json::from_value(call).unwrap())
        };
        assert_eq!(told("done", Some(0), None), "");
        assert_eq!(told("done", Some(3), None), " — exit 3");
        assert_eq!(told("failed", Some(3), None), " — failed, exit 3");
        assert_eq!(told("refused", None, Some("not\nhere")), " — refused, not here");
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        let mut out = String::new();
        push_fenced(&mut out, &["````", "a"]);
        assert_eq!(out, "\n`````text\n````\na\n`````\n");
    }
}
