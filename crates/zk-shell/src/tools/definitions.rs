use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::line::Phase;
use crate::pump::{Shared, wait_for, write_within};
use crate::shell_access::ShellAccess;
use crate::start::private_file;

/// Hidden key that makes the shell print the aliases and functions behind the words in the file [`ASKED_FILE`].
const DEFINE_KEY: &[u8] = b"\x1b[1007179u";

/// Name of the file with the words, in the private directory of the instance.
const ASKED_FILE: &str = "ask";

/// Time limit for the shell to print its definitions.
const DEFINE_WAIT: Duration = Duration::from_secs(1);

/// Most words of one command that are asked for.
const MAX_WORDS: usize = 32;

/// Longest word that is asked for, in bytes.
const MAX_WORD_BYTES: usize = 64;

/// Most rounds of questions, since an alias may stand for another one.
const MAX_ROUNDS: usize = 3;

/// Size of an answer, in bytes, from which on the shell may have cut it.
const MAX_TOLD_BYTES: usize = 16_384;

/// Most lines of definitions that a person is shown.
const MAX_LINES: usize = 200;

/// Aliases and functions of the live shell behind the words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Definitions {
    /// Definitions as the shell prints them, empty if there are none, and whether every word was asked for.
    Known { text: String, is_complete: bool },
    /// The shell printed no definitions.
    Unknown,
}

impl Definitions {
    /// Asks the shell for the definitions, by a key that runs no command of the person. The shell must be at an empty
    /// line.
    pub(super) async fn ask(shared: &Shared, access: &ShellAccess, command: &str) -> Self {
        let (mut known, mut asked) = (String::new(), BTreeSet::new());
        let (mut words, mut is_complete) = (words(command), asks_for_all_names(command));
        for _ in 0..MAX_ROUNDS {
            words.retain(|word| asked.insert(word.clone()));
            if words.is_empty() {
                break;
            }
            let Some(told) = ask_once(shared, access, &words).await else { return Self::Unknown };
            is_complete &= told.len() < MAX_TOLD_BYTES;
            let told: Vec<&str> = told.lines().filter(|line| !line.trim().is_empty()).collect();
            is_complete &=
                told.iter().filter(|line| line.starts_with("alias ")).all(|line| fits_word_limits(line));
            words = told
                .iter()
                .filter(|line| line.starts_with("alias "))
                .flat_map(|line| self::words(line))
                .collect();
            for line in told {
                known.push_str(line);
                known.push('\n');
            }
        }
        is_complete &= words.iter().all(|word| asked.contains(word));
        Self::Known { text: known, is_complete }
    }

    /// Lines for the person who is asked about the command; empty if no word is an alias or a function.
    pub(super) fn lines(&self) -> Vec<String> {
        let (known, is_complete) = match self {
            Self::Unknown => {
                return vec![
                    "Your shell did not tell whether words of it are aliases or functions.".to_owned(),
                ];
            }
            Self::Known { text, is_complete } => (text, is_complete),
        };
        let rest = (!is_complete).then(|| "Not everything in it was looked up in your shell.".to_owned());
        if known.is_empty() {
            return rest.into_iter().collect();
        }
        let mut lines = vec!["In your shell, words of it stand for:".to_owned()];
        lines.extend(known.lines().take(MAX_LINES).map(|line| format!("  {line}")));
        let count = known.lines().count();
        if count > MAX_LINES {
            lines.push(format!("  … {} more lines", count - MAX_LINES));
        }
        lines.extend(rest);
        lines
    }
}

/// Whether [`words`] has all names of a command: none is cut, and none may be spelled by quotes or expansions.
fn asks_for_all_names(command: &str) -> bool {
    fits_word_limits(command) && !command.contains(['\'', '"', '\\', '$'])
}

/// Whether the limits of [`words`] leave out no word of the text.
fn fits_word_limits(text: &str) -> bool {
    let parts: BTreeSet<&str> = possible_names(text).collect();
    parts.len() <= MAX_WORDS && parts.iter().all(|word| word.len() <= MAX_WORD_BYTES)
}

/// Parts of a text that may be names, of any length.
fn possible_names(text: &str) -> impl Iterator<Item = &str> {
    let is_of_name = |c: char| c.is_alphanumeric() || "_.+-:@%,~/".contains(c);
    text.split(move |c| !is_of_name(c)).filter(|word| !word.is_empty() && !word.starts_with('-'))
}

/// Words that may be names of aliases or functions. All are asked for, since zsh has aliases at any place.
fn words(command: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let words = possible_names(command).filter(|word| word.len() <= MAX_WORD_BYTES && seen.insert(*word));
    words.take(MAX_WORDS).map(str::to_owned).collect()
}

/// Asks the shell once; `None` if it has no key for it, has text in its line, or does not answer in time.
async fn ask_once(shared: &Shared, access: &ShellAccess, words: &[String]) -> Option<String> {
    {
        let mut line = shared.line();
        if line.phase != (Phase::Ready { has_keys: true }) || !line.is_untouched() {
            return None;
        }
        line.definitions = None;
    }
    let file = access.dir.as_ref()?.join(ASKED_FILE);
    let text: String = words.iter().flat_map(|word| [word, "\n"]).collect();
    tokio::task::spawn_blocking(move || write_words(&file, &text)).await.ok()?.ok()?;
    write_within(&*access.terminal, DEFINE_KEY, DEFINE_WAIT).ok()?;
    wait_for(shared, DEFINE_WAIT, || shared.line().definitions.is_some()).await;
    let told = shared.line().definitions.take()?;
    Some(String::from_utf8_lossy(&told).into_owned())
}

fn write_words(file: &Path, text: &str) -> std::io::Result<()> {
    // Removes the file of the previous question.
    let _ = std::fs::remove_file(file);
    private_file(file)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_that_may_be_a_name_is_asked_for_once() {
        for (command, expected) in [
            ("ll -a /tmp", &["ll", "/tmp"][..]),
            ("A=b make && ll; ll 'x y'", &["A", "b", "make", "ll", "x", "y"]),
            ("$(gs)\n`gd`", &["gs", "gd"]),
            ("--- |", &[]),
        ] {
            assert_eq!(words(command), expected, "{command}");
        }
        assert_eq!(words(&"x".repeat(MAX_WORD_BYTES + 1)), [""; 0]);
        let many: String = (0..100).map(|n| format!("w{n} ")).collect();
        assert_eq!(words(&many).len(), MAX_WORDS);
        for (command, expected) in
            [("ll -a /tmp", true), (&*many, false), ("l\"l\"", false), ("\\ll", false), ("$x", false)]
        {
            assert_eq!(asks_for_all_names(command), expected, "{command}");
        }
    }

    #[test]
    fn a_person_sees_every_definition_and_that_none_was_told() {
        let known = |text: String, is_complete| Definitions::Known { text, is_complete }.lines();
        assert_eq!(known(String::new(), true), [""; 0]);
        assert_eq!(known(String::new(), false), ["Not everything in it was looked up in your shell."]);
        assert!(Definitions::Unknown.lines()[0].contains("did not tell"));
        let many = known("line\n".repeat(MAX_LINES + 7), true);
        assert_eq!((many.len(), &*many[MAX_LINES + 1]), (MAX_LINES + 2, "  … 7 more lines"));
    }
}
