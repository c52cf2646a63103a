use std::path::Path;

use zk_core::service::{Denial, ExecRequest, OutputStream};

use super::denial::{Denials, MAX_TOLD_DENIALS};

/// Kept size of each output's beginning, and of its end, in bytes.
const KEPT_BYTES: usize = 8 * 1024;
/// Programs that print the content of files: an error message in their standard output may come from a file.
const SHOW_TEXT: [&str; 34] = [
    "ag",
    "awk",
    "bat",
    "cat",
    "curl",
    "cut",
    "diff",
    "dmesg",
    "docker",
    "echo",
    "egrep",
    "fgrep",
    "find",
    "gawk",
    "git",
    "grep",
    "head",
    "journalctl",
    "jq",
    "kubectl",
    "less",
    "ls",
    "more",
    "nl",
    "printf",
    "rg",
    "sed",
    "sort",
    "strings",
    "tac",
    "tail",
    "xargs",
    "xxd",
    "zcat",
];
/// Programs that begin their error messages with their name and no colon.
const TELLERS: [&str; 4] = ["npm", "pnpm", "thread", "yarn"];

/// Beginning and end of an output.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest.get(rest.len().saturating_sub(KEPT_BYTES)..).unwrap_or_default());
        let surplus = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..surplus);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned()
    }
}

/// Parts of a command's output that are searched for denials.
#[derive(Debug)]
pub(crate) struct Printed {
    stdout: Kept,
    stderr: Kept,
    shows_text: bool,
}

impl Printed {
    pub(crate) fn of(request: &ExecRequest) -> Self {
        Self { stdout: Kept::default(), stderr: Kept::default(), shows_text: shows_text(request) }
    }

    pub(crate) fn add(&mut self, stream: OutputStream, bytes: &[u8]) {
        match stream {
            OutputStream::Stdout => self.stdout.add(bytes),
            OutputStream::Stderr => self.stderr.add(bytes),
        }
    }

    #[cfg(feature = "sandbox")]
    pub(crate) fn contains(&self, name: &str) -> bool {
        [&self.stdout, &self.stderr].iter().any(|kept| kept.text().contains(name))
    }

    /// Denials that the output reports. If the command succeeded, only whole lines in the form of error
    /// messages count, and not in the standard output of a program that prints files.
    pub(crate) fn denials(&self, rules: &Denials, cwd: &Path, failed: bool) -> Vec<Denial> {
        let mut found: Vec<Denial> = Vec::new();
        for (kept, is_own) in [(&self.stderr, true), (&self.stdout, !self.shows_text)] {
            let text = kept.text();
            let lines = text.lines().filter(|line| failed || (is_own && is_message(line)));
            let pushed = failed.then(|| rules.in_push(&text, cwd)).flatten();
            for denial in pushed.into_iter().chain(lines.filter_map(|line| rules.in_line(line, cwd))) {
                if found.len() < MAX_TOLD_DENIALS && !found.contains(&denial) {
                    found.push(denial);
                }
            }
        }
        found
    }
}

/// Whether a line has the form of an error message: it begins with a name and a colon, or with a program that
/// writes none.
fn is_message(line: &str) -> bool {
    let first = line.split(char::is_whitespace).next().unwrap_or_default();
    let is_name = |name: &str| {
        name.chars().all(|char| char.is_alphanumeric() || "./_+-[]".contains(char))
            && name.chars().any(char::is_alphabetic)
    };
    TELLERS.contains(&first) || first.strip_suffix(':').is_some_and(is_name)
}

/// Whether the standard output of a command may be the content of files: one of its pipelines begins with a
/// program that prints files.
fn shows_text(request: &ExecRequest) -> bool {
    let name = |word: &str| word.rsplit('/').next().is_some_and(|name| SHOW_TEXT.contains(&name));
    let script = match request.args.as_slice() {
        [flag, script] if flag == "-c" => script.to_string_lossy(),
        _ => return name(&request.program.to_string_lossy()),
    };
    // A single `|` continues a pipeline; any other separator begins a new one.
    let script = script.replace("||", "\n").replace("2>&1", " ").replace("|&", "|");
    script.split(['\n', ';', '&', '(', '{']).any(|pipeline| {
        let words = pipeline.split('|').next().unwrap_or_default().split_whitespace();
        let is_setting = |word: &&str| {
            word.contains('=') || ["!", "do", "then", "else", "if", "while", "time"].contains(word)
        };
        words.into_iter().find(|word| !is_setting(word)).is_some_and(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_of_an_output_are_kept() {
        let mut kept = Kept::default();
        kept.add(b"first\n");
        for _ in 0..1000 {
            kept.add(&[b'x'; 100]);
        }
        kept.add(b"\nlast");
        let text = kept.text();
        assert!(
            text.starts_with("first\nx") && text.ends_with("x\nlast") && text.len() == 2 * KEPT_BYTES,
            "{}",
            text.len()
        );
    }

    #[test]
    fn messages_of_programs_are_told_from_text_that_they_show() {
        for (line, expected) in [
            ("touch: cannot touch '/usr/x': Read-only file system", true),
            ("bash: line 1: /usr/x: Read-only file system", true),
            ("OSError: [Errno 30] Read-only file system: '/opt/x'", true),
            ("npm error EROFS: read-only file system, mkdir '/home/me/.npm'", true),
            ("./configure: line 7: /usr/x: Read-only file system", true),
            ("64 |     (\"touch: cannot touch '/usr/x': Read-only file system\"", false),
            ("+ echo \"touch: '/usr/x': Read-only file system\"", false),
            ("src/denial.rs:64: touch: cannot touch '/usr/x': Read-only file system", false),
            ("    touch: cannot touch '/usr/x': Read-only file system", false),
            ("1: touch: cannot touch '/usr/x': Read-only file system", false),
        ] {
            assert_eq!(is_message(line), expected, "{line}");
        }
        for (script, expected) in [
            ("touch /usr/x || true", false),
            ("make 2>&1 | tail -5", false),
            ("cd sub && cargo build 2>&1 | grep error", false),
            ("A=1 npm test; exit 0", false),
            ("cat build.log", true),
            ("cd sub; A=1 /bin/cat build.log | tail", true),
            ("touch /usr/x; grep -rn Read-only src", true),
            ("if true; then cat x; fi", true),
            ("make |& tail -5", false),
        ] {
            assert_eq!(shows_text(&ExecRequest::shell(script, "/")), expected, "{script}");
        }
        assert!(
            shows_text(&ExecRequest::new("/bin/cat", "/")) && !shows_text(&ExecRequest::new("touch", "/"))
        );
    }
}
