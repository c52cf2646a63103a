use super::Findings;
use crate::workspace::Text;

const MAX_FILE_LINES: usize = 500;

/// Checks the length of files. Tests, benches and examples may be long; the tests of a module move to a
/// separate file before they dominate.
pub(super) fn check(file: &Text, findings: &mut Findings) {
    if !file.path.ends_with(".rs") || is_test(&file.path) {
        return;
    }
    let code = file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]" || !ends_file(&file.text));
    let lines = code.count();
    if lines > MAX_FILE_LINES {
        let message = format!("{lines} lines, {MAX_FILE_LINES} is the limit: split it by concept");
        findings.error(&file.path, message);
    }
}

/// Whether the file contains its tests, not only a line that names their module.
fn ends_file(text: &str) -> bool {
    text.contains("#[cfg(test)]\nmod tests {")
}

pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder))
}
