use std::time::Duration;

use similar::TextDiff;
use zk_core::model::Display;

use crate::text::head;

/// Above this, a difference is not worked out for display.
const MAX_INPUT: usize = 2 * 1024 * 1024;
const MAX_OUTPUT: usize = 64 * 1024;
const PATIENCE: Duration = Duration::from_millis(200);

/// What changed in `path`, for a person to see.
pub(crate) fn display(path: &str, old: &[u8], new: &[u8]) -> Display {
    if old.len().max(new.len()) > MAX_INPUT {
        return Display::Line { text: format!("changed {path}") };
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(&*old, &*new);
    let mut text = diff.unified_diff().context_radius(3).to_string();
    if text.len() > MAX_OUTPUT {
        text = format!("{}\n… the rest is not shown", head(&text, MAX_OUTPUT));
    }
    Display::Diff { path: path.to_owned(), diff: text }
}
