//! Line store: lines about omitted messages, kept for later conversations.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use zk_core::model::{Block, CallId, Message};

use crate::text::message_line;

/// Read-only tools, whose results can be obtained again.
const READ_ONLY_TOOLS: [&str; 11] = [
    "read_file",
    "grep",
    "glob",
    "list_files",
    "recall",
    "conversation_recall",
    "skills_read",
    "skills_use",
    "todo_read",
    "tool_search",
    "fetch",
];

/// Service of the bus that keeps lines about omitted messages for later conversations about the same work.
/// Calls block on the disk.
pub trait LineStore: Send + Sync {
    /// Appends `lines` of the current conversation, oldest first. Does nothing if the person has switched
    /// this off.
    ///
    /// # Errors
    /// When the lines cannot be written.
    fn append(&self, lines: &[String]) -> io::Result<()>;

    /// Passes lines of earlier conversations to `take`, the newest first, until it returns `false` or the
    /// store's limit is reached.
    ///
    /// # Errors
    /// When the lines cannot be read.
    fn read(&self, take: &mut dyn FnMut(KeptLine) -> bool) -> io::Result<()>;
}

/// Stored line about an omitted message of an earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLine {
    /// Time at which the message was left out, in milliseconds since 1970.
    pub time_ms: u64,
    /// Id of the message's session; empty if that was not stored.
    pub session: String,
    /// Text of the line: role, text and calls.
    pub text: String,
}

/// Lines for `messages` that are worth keeping, in order; messages with nothing but read-only calls have
/// none.
pub(crate) fn lines_worth_keeping<'a>(messages: impl Iterator<Item = &'a Arc<Message>>) -> Vec<String> {
    let mut looking: HashMap<&CallId, bool> = HashMap::new();
    let mut lines = Vec::new();
    for message in messages {
        looking.extend(message.calls().map(|call| (&call.id, READ_ONLY_TOOLS.contains(&&*call.name))));
        let is_kept = |block: &Block| match block {
            Block::Text(text) => !text.text.trim().is_empty(),
            Block::ToolCall(call) => !looking.get(&call.id).copied().unwrap_or_default(),
            Block::ToolResult(result) => !looking.get(&result.call_id).copied().unwrap_or_default(),
            Block::Image(_) | Block::Document(_) => true,
            Block::Thinking(_) | Block::Provider(_) | Block::Compaction(_) => false,
        };
        let content: Vec<Block> = message.content.iter().filter(|block| is_kept(block)).cloned().collect();
        if !content.is_empty() {
            lines.push(message_line::of(&Message { content, ..Message::clone(message) }));
        }
    }
    lines
}

/// Whether a line is only about read-only calls.
pub(crate) fn is_read_only_line(line: &str) -> bool {
    let Some(mut rest) = line.strip_prefix("agent: ") else { return false };
    loop {
        let looks = |tool: &&str| rest.strip_prefix(*tool)?.strip_prefix('(');
        let Some(called) = READ_ONLY_TOOLS.iter().find_map(looks) else { return false };
        // A line whose arguments look like the end of the call is kept.
        match called.split_once("); ") {
            Some((_, next)) => rest = next,
            None => return called.ends_with(')'),
        }
    }
}

/// Drops the least valuable lines until `room` bytes are left, and returns whether any was dropped. A line
/// with `age` later lines has the value `exp(-age / weight)`; the order of the others is kept.
pub(crate) fn evict(lines: &mut String, room: usize) -> bool {
    let all: Vec<&str> = lines.lines().collect();
    let mut size: usize = all.iter().map(|line| line.len() + 1).sum();
    let mut scored: Vec<(usize, f64)> = all
        .iter()
        .enumerate()
        // The exponent has the same order as the exponential, and does not underflow.
        .map(|(at, line)| (at, -((all.len() - at) as f64) / weight(line)))
        .collect();
    scored.sort_by(|(one, score), (other, other_score)| {
        score.total_cmp(other_score).then_with(|| one.cmp(other))
    });
    let mut leave = vec![false; all.len()];
    for (at, _) in scored {
        if size <= room {
            break;
        }
        if let (Some(leaves), Some(line)) = (leave.get_mut(at), all.get(at)) {
            *leaves = true;
            size -= line.len() + 1;
        }
    }
    let mut kept = String::with_capacity(size);
    for (line, _) in all.iter().zip(&leave).filter(|(_, leaves)| !**leaves) {
        kept.push_str(line);
        kept.push('\n');
    }
    let left = leave.contains(&true);
    *lines = kept;
    left
}

/// Weight of a line: highest for a person's words and for failures, lowest for results of read-only calls.
fn weight(line: &str) -> f64 {
    let said = line.split_once(' ').map_or(line, |(_, said)| said);
    let called = |tool: &&str| said.contains(&format!("{tool}("));
    if said.starts_with("person: ") {
        8.0
    } else if said.contains("failed: ") {
        4.0
    } else if said.starts_with("agent: ") && !READ_ONLY_TOOLS.iter().any(called) {
        2.0
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::ToolCall;

    use super::*;

    #[test]
    fn messages_with_only_read_only_calls_have_no_line_and_others_do() {
        let call = |id: &str, name: &str| Block::ToolCall(ToolCall::new(id, name, json!({"path": "a.rs"})));
        let messages = [
            Message::user_text("fix it").shared(),
            Message::assistant(vec![call("1", "read_file"), call("2", "edit")]).shared(),
            Message::user(vec![Block::result("1", "old", false), Block::result("2", "changed", false)])
                .shared(),
            Message::assistant(vec![call("3", "grep")]).shared(),
            Message::user(vec![Block::result("3", "found", false)]).shared(),
        ];
        let kept = ["person: fix it", "agent: edit(a.rs)", "tools: gave: changed"];
        assert_eq!(lines_worth_keeping(messages.iter()), kept);
    }

    #[test]
    fn a_line_of_read_only_calls_is_recognised_by_its_text() {
        for (line, expected) in [
            ("agent: grep(fn main)", true),
            ("agent: read_file(a.rs); glob(a; (b))", true),
            ("agent: read_file(a.rs); edit(a.rs)", false),
            ("agent: I look; read_file(a.rs)", false),
            ("agent: read_files(a.rs)", false),
            ("agent: read_file", false),
            ("person: grep(fn main)", false),
            ("tools: gave: grep(x)", false),
            ("", false),
        ] {
            assert_eq!(is_read_only_line(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_of_a_person_outlive_lines_of_tools_and_keep_their_order() {
        let line = |at: usize| match at % 4 {
            0 => format!("#{at} person: request {at}\n"),
            1 => format!("#{at} agent: read_file(src)\n"),
            2 => format!("#{at} tools: failed: no such file\n"),
            _ => format!("#{at} agent: that is done\n"),
        };
        let all: String = (0..400).map(line).collect();
        let mut lines = all.clone();
        assert!(evict(&mut lines, all.len() / 2) && lines.len() <= all.len() / 2);
        let count = |text: &str, what: &str| text.matches(what).count();
        assert!(count(&lines, "person") > 80 && count(&lines, "person") > count(&lines, "failed"), "{lines}");
        assert!(count(&lines, "failed") > count(&lines, "is done"), "{lines}");
        assert!(count(&lines, "is done") > count(&lines, "read_file"), "{lines}");
        let number = |line: &str| line.split_once(' ').unwrap().0.trim_start_matches('#').parse::<usize>();
        assert!(lines.lines().is_sorted_by_key(|line| number(line).unwrap()));
        assert!(lines.ends_with(&line(399)) && !evict(&mut lines, all.len()));
    }

    #[test]
    fn an_older_line_is_evicted_once_its_age_outweighs_its_weight() {
        let person = "#100 person: be kind\n";
        let later: String = (101..121).map(|at| format!("#{at} agent: it is done\n")).collect();
        let one = later.len() / 20;
        let kept = |room: usize| {
            let mut lines = format!("{person}{later}");
            assert!(evict(&mut lines, room));
            lines.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        // The line of a person weighs four times as much as a line of the agent: it is dropped together with lines of
        // a fourth of its age.
        assert_eq!(kept(5 * one + person.len()), ["#100", "#116", "#117", "#118", "#119", "#120"]);
        assert_eq!(kept(5 * one), ["#116", "#117", "#118", "#119", "#120"]);
    }
}
