use zk_core::model::{Block, Message, Role};

/// Longest text in a line, in bytes.
const MAX_TEXT_BYTES: usize = 100;

/// Message as one line: role, text, calls and failures.
pub(crate) fn of(message: &Message) -> String {
    let who = match (message.role, &message.injected_by) {
        (Role::Assistant, _) => "agent",
        (Role::User, None) => "person",
        (Role::User, Some(_)) => "note",
    };
    let mut parts = Vec::new();
    let said = beginning_of(&message.text());
    if !said.is_empty() {
        parts.push(said);
    }
    for call in message.calls() {
        let about = ["path", "file_path", "command", "pattern", "query", "url"];
        let about = about.iter().find_map(|name| call.args.get(name)?.as_str()).unwrap_or_default();
        parts.push(format!("{}({})", call.name, beginning_of(about)));
    }
    for result in message.results() {
        let text = beginning_of(&result.content.to_text());
        parts.push(if result.is_error { format!("failed: {text}") } else { format!("gave: {text}") });
    }
    for block in &message.content {
        match block {
            Block::Image(_) => parts.push("an image".to_owned()),
            Block::Document(_) => parts.push("a document".to_owned()),
            Block::Compaction(_) => parts.push("a summary".to_owned()),
            Block::Text(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Provider(_) => {}
        }
    }
    let who = if message.results().next().is_some() { "tools" } else { who };
    format!("{who}: {}", parts.join("; "))
}

/// Beginning of a text, as one line.
fn beginning_of(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        if line.len() + word.len() > MAX_TEXT_BYTES {
            let room = MAX_TEXT_BYTES.saturating_sub(line.len());
            line.push_str(word.get(..word.floor_char_boundary(room)).unwrap_or_default());
            line.push('…');
            break;
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::ToolCall;

    use super::*;

    #[test]
    fn a_message_of_any_kind_becomes_one_short_line() {
        let long = "ä\n".repeat(5000);
        let call = Block::ToolCall(ToolCall::new("c", "shell", json!({"command": "ls\n-l"})));
        for (message, expected) in [
            (Message::user_text("fix\nit"), "person: fix it"),
            (Message::assistant(vec![Block::text("well"), call]), "agent: well; shell(ls -l)"),
            (Message::user(vec![Block::result("c", "no such file", true)]), "tools: failed: no such file"),
        ] {
            assert_eq!(of(&message), expected);
        }
        let line = of(&Message::user_text(long));
        assert!(line.len() < 400 && !line.contains('\n') && line.ends_with('…'), "{line}");
    }
}
