//! `/export`: the conversation as Markdown, in a file.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use zk_core::kernel::{BoxError, Cx};
use zk_tui::plain::lines;
use zk_view::{Block, Content, Text};

use super::info_context::InfoContext;

/// Writes the conversation to a new file; returns a message with the path.
pub(super) fn export(context: &InfoContext, args: &str, cx: &Cx) -> Result<String, BoxError> {
    let blocks = context.view.view().blocks;
    if blocks.is_empty() {
        return Err("there is nothing to export yet".into());
    }
    let session = context.sessions.open_session().map(|open| open.id().to_string());
    let name = match args {
        "" => format!("zk-{}.md", session.clone().unwrap_or_else(now)),
        name => name.to_owned(),
    };
    let cwd = context.factory.setup().cwd_now(cx);
    let path = cwd.join(&name);
    let model = context.agent.model().reference().to_string();
    let text = export_markdown(&blocks, session.as_deref(), &model);
    // The conversation must not be readable by other users.
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut file = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} is there already, and stays as it is: /export takes another name", path.display())
        }
        _ => format!("cannot write {}: {error}", path.display()),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(format!("the conversation is in {} ({} lines)", path.display(), text.lines().count()))
}

fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).to_string()
}

/// Blocks of a conversation as Markdown.
#[must_use]
pub fn export_markdown(blocks: &[Arc<Block>], session: Option<&str>, model: &str) -> String {
    let mut out = String::from("# Conversation with zk\n\n");
    let _ = writeln!(out, "Model: {model}");
    if let Some(session) = session {
        let _ = writeln!(out, "Session: {session}");
    }
    for block in blocks {
        let by = block.agent.as_ref().map_or(String::new(), |agent| format!(" ({})", agent.name));
        match &block.content {
            Content::User { text, .. } => section(&mut out, &format!("You{by}"), text),
            Content::Injected { by, text } => section(&mut out, by.as_str(), text),
            Content::Answer { text, .. } if text.is_empty() => {}
            Content::Answer { text, .. } => section(&mut out, &format!("Agent{by}"), text),
            Content::Summary { text } => section(&mut out, "Summary of what was compacted", text),
            Content::Call(call) => {
                let _ = writeln!(out, "\n- {}{by}", call.summary);
                if let Some(body) = call.body.as_ref().filter(|body| !body.lines.is_empty()) {
                    let left = body.total_lines.saturating_sub(body.lines.len() as u64);
                    let mut rows: Vec<&str> = body.lines.iter().map(Text::as_str).collect();
                    let more = format!("… {left} more lines");
                    if left > 0 {
                        rows.push(&more);
                    }
                    fenced(&mut out, &rows);
                }
            }
            Content::Plugin(_) => {
                let rows = lines::block(block);
                let rows: Vec<&str> = rows.iter().map(|(_, row)| row.as_str()).collect();
                fenced(&mut out, &rows);
            }
            // These are transient, or not part of the conversation.
            Content::Thinking { .. } | Content::Provider { .. } | Content::End(_) | Content::Note { .. } => {}
        }
    }
    out
}

fn section(out: &mut String, title: &str, text: &Text) {
    let _ = write!(out, "\n## {title}\n\n{}\n", text.as_str().trim_end());
}

/// Writes rows as a code block, with a fence longer than any inside.
fn fenced(out: &mut String, rows: &[&str]) {
    let longest = rows.iter().map(|row| row.chars().take_while(|c| *c == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    let _ = write!(out, "\n{fence}text\n{}\n{fence}\n", rows.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        let mut out = String::new();
        fenced(&mut out, &["````", "a"]);
        assert_eq!(out, "\n`````text\n````\na\n`````\n");
    }
}
