use super::Findings;
use crate::workspace::Text;

/// Forbidden words in code, with advice. They are assembled here so that this list does not match itself.
fn banned_code() -> [(String, &'static str); 6] {
    [
        (["todo", "!("].concat(), "write it, or leave the branch out"),
        (["unimplemented", "!("].concat(), "write it, or leave the branch out"),
        (["dbg", "!("].concat(), "take it out"),
        (["#[", "ignore"].concat(), "a test runs or is deleted"),
        (["#[", "allow("].concat(), "say `#[expect(lint, reason = \"…\")]`"),
        (["#![", "allow("].concat(), "say `#![expect(lint, reason = \"…\")]`"),
    ]
}

/// Only accepted reason to ignore a test: another test runs it as a process.
const OTHER_HALF: &str = "started by another test";

/// Words that must not begin a comment.
fn banned_notes() -> [String; 3] {
    [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat()]
}

/// Paths of single machines, which must not be in a checkout.
fn machine_paths() -> [String; 3] {
    [["/wo", "rk/"].concat(), ["/root/.car", "go"].concat(), ["/tmp/", "tgt-"].concat()]
}

pub(super) fn check(file: &Text, findings: &mut Findings) {
    if file.path.ends_with("Cargo.lock") {
        return;
    }
    let (banned, notes, machine) = (banned_code(), banned_notes(), machine_paths());
    for (number, line) in file.text.lines().enumerate() {
        let mut error = |message: String| {
            findings.error(format_args!("{}:{}", file.path, number + 1), message);
        };
        if line.ends_with([' ', '\t']) {
            error("white space at the end of the line".to_owned());
        }
        if file.path.ends_with(".rs") {
            let mut found = banned.iter().filter(|(word, _)| line.contains(word));
            if let Some((word, instead)) = found.find(|_| !line.contains(OTHER_HALF)) {
                error(format!("`{word}`: {instead}"));
            }
            let comment = line.split_once("//").map(|(_, text)| text.trim_start_matches(['/', '!', ' ']));
            for note in notes.iter().filter(|note| comment.is_some_and(|text| text.starts_with(*note))) {
                error(format!("`{note}`: open an issue instead"));
            }
        }
        for path in machine.iter().filter(|path| line.contains(path.as_str())) {
            error(format!("`{path}` is a path of one machine"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.error(&file.path, "the last line does not end");
    }
}
