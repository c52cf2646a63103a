use std::fs::File;
use std::io::Read;
use std::path::Path;

use zk_core::model::UnifiedDiff;
use zk_core::service::visible_line;

use crate::plan::FileContent;
use crate::{Change, FileState, Journal, Plan};

/// Largest content whose lines are compared, in bytes.
const MAX_DIFF_BYTES: u64 = 1 << 20;

/// Bytes at the beginning of a content in which a zero makes it binary.
const BINARY_BYTES: usize = 8192;

impl Journal {
    /// Unified diff of the paths that a plan brings back, with modes, links and binary files in words. Paths
    /// are relative to `from` if they are below it.
    #[must_use]
    pub fn plan_diff(&self, plan: &Plan, from: &Path) -> String {
        let items = plan.items.iter().filter(|item| item.refused.is_none());
        let change = |item: &crate::PlanItem| Change {
            path: item.path.clone(),
            before: item.now.clone(),
            after: item.target.clone(),
        };
        items.map(|item| self.diff(&change(item), from)).collect()
    }

    /// Unified diff of one change.
    #[must_use]
    pub fn diff(&self, change: &Change, from: &Path) -> String {
        let name = change.path.strip_prefix(from).unwrap_or(&change.path).display().to_string();
        let name = visible_line(&name);
        let old = if change.before.exists() { format!("a/{name}") } else { "/dev/null".to_owned() };
        let new = if change.after.exists() { format!("b/{name}") } else { "/dev/null".to_owned() };
        let mut text = String::new();
        if let (Some(one), Some(other)) = (permission_bits(&change.before), permission_bits(&change.after))
            && one != other
        {
            text.push_str(&format!("{name}: mode {one:o} becomes {other:o}\n"));
        }
        let is_text = |state: &FileState| matches!(state, FileState::File { .. } | FileState::Absent);
        if !is_text(&change.before) || !is_text(&change.after) {
            if describe_state(&change.before) != describe_state(&change.after) {
                text.push_str(&format!("{name}: {}\n", describe_change(change)));
            }
            return text;
        }
        match (
            self.content_text(&change.path, &change.before),
            self.content_text(&change.path, &change.after),
        ) {
            (Some(one), Some(other)) if one == other && change.before.exists() && change.after.exists() => {}
            (Some(one), Some(other)) if one.is_empty() && other.is_empty() => {
                text.push_str(&format!("{name}: {}\n", describe_change(change)));
            }
            (Some(one), Some(other)) => {
                text.push_str(&UnifiedDiff::new(&one, &other).named(&old, &new).to_string());
            }
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                text.push_str(&format!("{name}: {} (not shown: binary or large)\n", describe_change(change)));
            }
        }
        text
    }

    /// Content of a file as text, empty for other states; `None` for a binary or large file.
    fn content_text(&self, path: &Path, state: &FileState) -> Option<String> {
        let FileState::File { size, .. } = state else { return Some(String::new()) };
        if *size > MAX_DIFF_BYTES {
            return None;
        }
        let bytes = match self.open_content(path, state).ok()?? {
            FileContent::Bytes(bytes) => bytes,
            FileContent::File(file) => read_limited(file)?,
        };
        let is_binary = bytes.iter().take(BINARY_BYTES).any(|byte| *byte == 0);
        if is_binary { None } else { String::from_utf8(bytes).ok() }
    }
}

fn read_limited(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_DIFF_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn permission_bits(state: &FileState) -> Option<u32> {
    match state {
        FileState::File { mode, .. } | FileState::Directory { mode } => Some(*mode),
        FileState::Absent | FileState::Link { .. } | FileState::Other => None,
    }
}

fn describe_change(change: &Change) -> String {
    let (before, after) = (describe_state(&change.before), describe_state(&change.after));
    match (change.before.exists(), change.after.exists()) {
        (true, false) => format!("{before} goes away"),
        (false, true) => format!("{after} comes back"),
        (true, true) | (false, false) => format!("{before} becomes {after}"),
    }
}

fn describe_state(state: &FileState) -> String {
    match state {
        FileState::Absent => "nothing".to_owned(),
        FileState::Directory { .. } => "a directory".to_owned(),
        FileState::File { size, .. } => format!("a file of {size} bytes"),
        FileState::Link { target } => format!("a link to {}", target.display()),
        FileState::Other => "a device, pipe or socket".to_owned(),
    }
}
