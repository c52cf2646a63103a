use super::Findings;
use crate::workspace::Text;

/// Rule about calls that are only allowed in a few places.
struct Rule {
    /// Prefixes of the calls, as whole words.
    calls: &'static [&'static str],
    /// Path prefixes where the calls are allowed, each with its reason. This list may only shrink.
    places: &'static [(&'static str, &'static str)],
    advice: &'static str,
}

/// Path of this file.
const OWN_PATH: &str = "xtask/src/tidy/places.rs";

const RULES: [Rule; 2] = [
    Rule {
        calls: &["Command::new("],
        places: &[
            ("crates/zk-exec/src/process/spawn.rs", "the one function that starts processes"),
            (
                "crates/zk-permission/src/program/checked/",
                "tests that compare the judge's tables with programs",
            ),
            ("crates/zk-permission/src/program/tried/", "tests that run commands in a throw-away root"),
            ("crates/zk-testkit/src/outside/postgres.rs", "the server of a test's database"),
            ("xtask/src/run.rs", "checks on the machine of whoever develops zk"),
            (OWN_PATH, "this list"),
        ],
        advice: "start programs through the service `Exec`, which ends what they leave running",
    },
    Rule {
        calls: &["flock(", "try_lock_shared(", "fcntl_lock(", "TryLockError"],
        places: &[
            ("crates/zk-exec/src/state_files.rs", "the one lock of files of state"),
            ("crates/zk-exec/src/sandbox/placeholders.rs", "a lock that several sandboxes share"),
            ("crates/zk-session/src/sqlite/lock.rs", "a lock for as long as a session is open"),
            ("crates/zk-session/src/search/file.rs", "a lock for as long as the search index is written"),
            ("crates/zk-stores/src/files/dir.rs", "a lock for as long as a session is open"),
            ("crates/zk-auth/src/store/lock.rs", "a wait for the lock that keeps no thread"),
            (
                "crates/zk-bundles/src/store/copies.rs",
                "a mark for as long as copies are used, tried and never waited for",
            ),
            (OWN_PATH, "this list"),
        ],
        advice: "lock files through the service `StateFiles`, which waits with a deadline",
    },
];

/// Refuses calls outside of their places, and places without such calls. Tests are exempt.
pub(super) fn check(texts: &[Text], findings: &mut Findings) {
    for rule in &RULES {
        let mut unused: Vec<&str> = rule.places.iter().map(|(place, _)| *place).collect();
        // A checkout without the file, as in tests, need not have the call.
        unused.retain(|place| texts.iter().any(|file| file.path.starts_with(place)));
        for file in texts.iter().filter(|file| is_code(&file.path)) {
            let calls = rule.calls_in(&file.text);
            let place = rule.places.iter().find(|(place, _)| file.path.starts_with(place));
            if let Some((place, _)) = place {
                unused.retain(|unused| unused != place || calls.is_empty());
                continue;
            }
            let home = rule.places.first().map_or("", |(place, _)| place);
            for (number, call) in calls {
                let message = format_args!("`{call}` belongs into {home}: {}", rule.advice);
                findings.error(format_args!("{}:{number}", file.path), message);
            }
        }
        for place in unused {
            let call = rule.calls.first().map_or("", |call| shown(call));
            findings.error(OWN_PATH, format_args!("{place} has no `{call}` any more: remove its line"));
        }
    }
}

impl Rule {
    /// Calls in a file before its tests, with their lines.
    fn calls_in(&self, text: &str) -> Vec<(usize, &'static str)> {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let call_in = |line: &str| {
            let line = line.split("//").next().unwrap_or_default();
            self.calls.iter().find(|call| has_word(line, call)).map(|call| shown(call))
        };
        code.lines().enumerate().filter_map(|(at, line)| Some((at + 1, call_in(line)?))).collect()
    }
}

/// Call in the form for a message.
fn shown(call: &'static str) -> &'static str {
    call.trim_end_matches('(')
}

fn is_code(path: &str) -> bool {
    let is_source = (path.starts_with("crates/") && path.contains("/src/")) || path.starts_with("xtask/src/");
    is_source && path.ends_with(".rs") && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

/// Whether a line contains the word at a word boundary.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line
            .get(..at)
            .unwrap_or_default()
            .ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}
