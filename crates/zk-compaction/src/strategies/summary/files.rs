use std::collections::BTreeSet;
use std::sync::Arc;

use zk_core::model::Message;

/// Headings of the file lists in a summary.
const READ: &str = "\n\n## Files read\n";
const CHANGED: &str = "\n\n## Files changed\n";

/// Maximum number of files of each kind that are listed; the last ones in sort order.
const MAX_PATHS: usize = 200;

/// Files that calls named, copied from summary to summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    read: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl Files {
    /// Parses the file lists of a summary.
    pub(super) fn parse(summary: &str) -> Self {
        let under = |heading: &str| {
            let rest = summary.split_once(heading).map_or("", |(_, rest)| rest);
            let lines = rest.lines().take_while(|line| line.starts_with("- "));
            lines.filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
        };
        Self { read: under(READ), changed: under(CHANGED) }
    }

    /// Summary without its file lists.
    pub(super) fn strip(summary: &str) -> &str {
        let end = [READ, CHANGED].iter().filter_map(|heading| summary.find(heading)).min();
        end.and_then(|end| summary.get(..end)).unwrap_or(summary)
    }

    /// Adds the files in the calls of messages. A changed file counts as changed only, even if it was read.
    pub(super) fn add_calls(&mut self, messages: &[Arc<Message>]) {
        for call in messages.iter().flat_map(|message| message.calls()) {
            let path = ["path", "file_path"].iter().find_map(|name| call.args.get(name)?.as_str());
            let Some(path) = path.filter(|path| !path.contains('\n')) else { continue };
            let changes = ["write", "edit", "patch", "create", "delete", "move", "rename", "replace"];
            if changes.iter().any(|word| call.name.to_ascii_lowercase().contains(word)) {
                self.read.remove(path);
                self.changed.insert(path.to_owned());
            } else if !self.changed.contains(path) {
                self.read.insert(path.to_owned());
            }
        }
    }

    /// Appends the file lists to a summary.
    pub(super) fn append_to(&self, summary: &mut String) {
        for (heading, files) in [(READ, &self.read), (CHANGED, &self.changed)] {
            if files.is_empty() {
                continue;
            }
            summary.push_str(heading);
            let lines: Vec<_> =
                files.iter().rev().take(MAX_PATHS).rev().map(|path| format!("- {path}")).collect();
            summary.push_str(&lines.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::{Block, ToolCall};

    use super::*;

    fn call(name: &str, path: &str) -> Arc<Message> {
        Message::assistant(vec![Block::ToolCall(ToolCall::new("c", name, json!({"path": path})))]).shared()
    }

    #[test]
    fn files_are_carried_from_summary_to_summary_and_a_changed_one_is_not_read() {
        let mut files = Files::default();
        files.add_calls(&[call("read_file", "a"), call("read_file", "b"), call("edit_file", "b")]);
        let mut summary = "## Aim\nshort".to_owned();
        files.append_to(&mut summary);
        let mut later = Files::parse(&summary);
        assert_eq!(later, files);
        assert_eq!(Files::strip(&summary), "## Aim\nshort");
        later.add_calls(&[call("write_file", "a"), call("read_file", "b")]);
        let mut next = String::new();
        later.append_to(&mut next);
        assert_eq!(next.trim(), "## Files changed\n- a\n- b");
    }
}
