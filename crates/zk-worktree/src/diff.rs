use std::path::Path;

use zk_core::model::UnifiedDiff;

use crate::patch::Content;

/// Maximum size of a file whose diff is computed, in bytes.
const MAX_DIFF_BYTES: usize = 1 << 20;

/// Unified diff of one file with its change of mode; `None` for a side without the file.
pub(crate) fn unified(path: &Path, old: Option<&Content>, new: Option<&Content>) -> String {
    let modes = mode_lines(path, old, new);
    let (old, new) = (old.map(|old| &*old.bytes), new.map(|new| &*new.bytes));
    if old == new { modes } else { modes + &content_diff(path, old, new) }
}

/// Lines of a git diff about the file mode, if it changes or a new file is executable.
fn mode_lines(path: &Path, old: Option<&Content>, new: Option<&Content>) -> String {
    let shown = path.display();
    let mode = |side: &Content| if side.is_executable { "100755" } else { "100644" };
    match (old, new) {
        (Some(old), Some(new)) if old.is_executable != new.is_executable => {
            format!("diff --git a/{shown} b/{shown}\nold mode {}\nnew mode {}\n", mode(old), mode(new))
        }
        (None, Some(new)) if new.is_executable => {
            format!("diff --git a/{shown} b/{shown}\nnew file mode {}\n", mode(new))
        }
        (Some(_), Some(_)) | (None, _) | (Some(_), None) => String::new(),
    }
}

fn content_diff(path: &Path, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let name = |prefix: &str, side: Option<&[u8]>| match side {
        Some(_) => format!("{prefix}/{}", path.display()),
        None => "/dev/null".to_owned(),
    };
    let (old_name, new_name) = (name("a", old), name("b", new));
    match (side_text(old), side_text(new)) {
        (Some(before), Some(after)) => {
            UnifiedDiff::new(before, after).named(&old_name, &new_name).to_string()
        }
        (_, _) => {
            let size = |side: Option<&[u8]>| {
                side.map_or("nothing".to_owned(), |bytes| format!("{} bytes", bytes.len()))
            };
            let (before, after) = (size(old), size(new));
            format!("--- {old_name}\n+++ {new_name}\n{before} become {after} (not shown: binary or large)\n")
        }
    }
}

/// Text of one side of a diff; `None` for a binary or too large file.
fn side_text(side: Option<&[u8]>) -> Option<&str> {
    let bytes = side.unwrap_or_default();
    if bytes.len() > MAX_DIFF_BYTES || bytes.contains(&0) { None } else { std::str::from_utf8(bytes).ok() }
}
