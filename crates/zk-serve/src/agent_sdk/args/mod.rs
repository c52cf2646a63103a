//! Arguments with which an Agent SDK starts its program, and what they mean here.

mod flags;
mod given;
mod host_settings;
mod launch;
mod rules;

use std::collections::BTreeMap;

pub(super) use given::{Files, Given};
pub(super) use launch::{FAMILIES, PLAN, host_mode, launch_settings, sdk_servers, zk_mode};
pub(super) use rules::{HostRule, MAX_TOOL_NAME_CHARS, zk_tools};

/// Flags without a value.
const SWITCHES: [&str; 13] = [
    "allow-dangerously-skip-permissions",
    "await-initialize",
    "continue",
    "dangerously-skip-permissions",
    "fork-session",
    "include-hook-events",
    "include-partial-messages",
    "no-session-persistence",
    "print",
    "replay-user-messages",
    "session-mirror",
    "strict-mcp-config",
    "verbose",
];

/// Arguments of an Agent SDK: `--flag value` and `--flag=value`, where the value may be empty. Unknown flags
/// are kept, since hosts pass flags of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SdkArgs {
    values: BTreeMap<String, Vec<String>>,
}

impl SdkArgs {
    /// Parses the arguments after the program's name.
    ///
    /// ```
    /// use zk_serve::SdkArgs;
    ///
    /// let words = ["--resume=abc", "--system-prompt", "", "--debug-to-stderr", "--verbose", "--model", "m"];
    /// let args = SdkArgs::read(words.map(str::to_owned));
    /// assert_eq!(args.text("resume"), Some("abc"));
    /// assert_eq!(args.text("system-prompt"), Some(""));
    /// assert!(args.has("debug-to-stderr") && args.has("verbose"));
    /// assert_eq!(args.text("model"), Some("m"));
    /// ```
    #[must_use]
    pub fn read(words: impl IntoIterator<Item = String>) -> Self {
        let mut args = Self::default();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let Some(flag) = long_name(&word) else { continue };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None if SWITCHES.contains(&flag) => (flag.to_owned(), None),
                None => (flag.to_owned(), words.next_if(|next| !next.starts_with('-'))),
            };
            let values = args.values.entry(name).or_default();
            values.extend(value);
        }
        args
    }

    /// Whether arguments request the protocol of an Agent SDK.
    #[must_use]
    pub fn asks_for_protocol(words: &[String]) -> bool {
        Self::read(words.iter().cloned()).text("input-format") == Some("stream-json")
    }

    /// The last value of a flag.
    #[must_use]
    pub fn text(&self, flag: &str) -> Option<&str> {
        self.values.get(flag)?.last().map(String::as_str)
    }

    /// Whether a flag was given.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.values.contains_key(flag)
    }

    /// All values of a flag.
    pub(super) fn all(&self, flag: &str) -> &[String] {
        self.values.get(flag).map(Vec::as_slice).unwrap_or_default()
    }

    /// Splits the values of a flag at commas, except at commas in parentheses.
    pub(super) fn list(&self, flag: &str) -> Vec<String> {
        let mut items = Vec::new();
        for value in self.all(flag) {
            let (mut depth, mut item) = (0_usize, String::new());
            for letter in value.chars() {
                match letter {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    ',' if depth == 0 => {
                        items.push(std::mem::take(&mut item));
                        continue;
                    }
                    _ => {}
                }
                item.push(letter);
            }
            items.push(item);
        }
        items.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
    }

    /// Parses the value of a flag as a number.
    pub(super) fn number<T: std::str::FromStr>(&self, flag: &str) -> Option<T> {
        self.text(flag)?.parse().ok()
    }

    /// Whether settings from a source are read: `user`, `project` or `local`.
    pub(super) fn reads_source(&self, source: &str) -> bool {
        match self.text("setting-sources") {
            Some(list) => list.split(',').any(|named| named.trim() == source),
            None => !self.has("setting-sources"),
        }
    }
}

fn long_name(word: &str) -> Option<&str> {
    match word {
        "-p" => Some("print"),
        "-c" => Some("continue"),
        "-r" => Some("resume"),
        _ => word.strip_prefix("--").filter(|name| !name.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn args(words: &[&str]) -> SdkArgs {
        SdkArgs::read(words.iter().map(ToString::to_string))
    }

    #[test]
    fn both_spellings_and_empty_values_are_read() {
        let read = args(&[
            "--tools",
            "",
            "--setting-sources=",
            "--add-dir",
            "/a",
            "--add-dir=/b",
            "--input-format",
            "stream-json",
        ]);
        assert_eq!((read.text("tools"), read.text("setting-sources")), (Some(""), Some("")));
        assert_eq!(read.all("add-dir"), ["/a", "/b"]);
        assert!(!read.reads_source("user"));
        assert!(args(&[]).reads_source("project"));
        assert!(SdkArgs::asks_for_protocol(&["--input-format=stream-json".to_owned()]));
        assert!(!SdkArgs::asks_for_protocol(&["--output-format".to_owned(), "stream-json".to_owned()]));
    }

    #[test]
    fn commas_within_parentheses_belong_to_a_rule() {
        let read = args(&["--allowedTools", "Bash(git log:*),Read,Edit(a,b), mcp__s__t"]);
        assert_eq!(read.list("allowedTools"), ["Bash(git log:*)", "Read", "Edit(a,b)", "mcp__s__t"]);
    }

    proptest! {
        #[test]
        fn any_words_are_read(words in proptest::collection::vec("[-a-z=, ()]{0,12}", 0..12)) {
            let read = SdkArgs::read(words);
            let _ = read.list("a");
        }
    }
}
