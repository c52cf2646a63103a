use super::Findings;
use crate::workspace::Text;

const MAX_FILE_LINES: usize = 500;

/// One concept a file. Tests, benches and examples may be long; a module's tests move to a file of their own
/// before they hide the code.
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

/// Whether the file has its tests in it, and not only a line that names their module.
fn ends_file(text: &str) -> bool {
    text.contains("#[cfg(test)]\nmod tests {")
}

pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder))
}
