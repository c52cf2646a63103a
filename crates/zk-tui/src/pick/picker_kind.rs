use std::collections::HashSet;

use super::{Asked, Completer};

/// Keywords that a tree entry's notes must contain, for each state of the filter.
pub(super) const TREE_FILTERS: [&str; 3] = ["", "prompt", "labelled"];
/// Keyword in the notes of tree entries that are on other branches.
pub(super) const OTHER_BRANCH: &str = "elsewhere";

/// Entries that a picker chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PickerKind {
    Commands,
    Models,
    Sessions,
    /// Prompts and answers of this session, at which the conversation can branch.
    Tree,
    Files,
    Agents,
    Jobs,
    Themes,
}

/// Keys that all pickers have.
pub(super) const KEYS: [(&str, &str); 7] = [
    ("letters", "find what has them, in this order"),
    ("↑ ↓ Ctrl-P Ctrl-N", "another one"),
    ("PgUp PgDn", "a page of them"),
    ("Tab Shift-Tab", "another list"),
    ("Ctrl-U Ctrl-W", "clear the letters"),
    ("Esc Ctrl-C Ctrl-D Ctrl-O", "close it"),
    ("Ctrl-Z", "stop zk itself; `fg` goes on"),
];

/// Minimum size of a query for which the texts of sessions are searched, in bytes.
const MIN_SEARCHED_BYTES: usize = 3;

impl PickerKind {
    pub(super) const ALL: [Self; 8] = [
        Self::Commands,
        Self::Models,
        Self::Sessions,
        Self::Tree,
        Self::Files,
        Self::Agents,
        Self::Jobs,
        Self::Themes,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Models => "models",
            Self::Sessions => "sessions",
            Self::Tree => "prompts",
            Self::Files => "files",
            Self::Agents => "sub-agents",
            Self::Jobs => "jobs",
            Self::Themes => "themes",
        }
    }

    /// Effect of Enter, for the hint row.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Commands => "Enter runs",
            Self::Files => "Enter takes it",
            Self::Models | Self::Themes => "Enter changes to it",
            Self::Sessions => "Enter resumes",
            Self::Tree => "Enter goes on from here (it asks about files)",
            Self::Agents => "Enter opens it",
            Self::Jobs => "Enter shows its output",
        }
    }

    /// Effect of Enter, for the table of keys.
    pub(super) fn enter_key(self) -> &'static str {
        match self {
            Self::Commands => "run it, or put it in where it takes more",
            Self::Files => "take it",
            Self::Models | Self::Themes => "change to it",
            Self::Sessions => "resume it",
            Self::Tree => "go on from here, before a prompt; zk asks whether files go back too",
            Self::Agents => "open it",
            Self::Jobs => "show its output",
        }
    }

    /// Keys that only this picker has, for the hint row.
    pub(super) fn more_keys(self) -> &'static str {
        match self {
            Self::Sessions => " · Ctrl-R renames · Ctrl-K removes",
            Self::Jobs => " · Ctrl-K ends it",
            Self::Tree => " · Ctrl-S with a summary · Ctrl-T filters · Ctrl-B folds",
            Self::Agents => " · Ctrl-K stops it · Ctrl-S steers it",
            Self::Commands | Self::Models | Self::Files | Self::Themes => "",
        }
    }

    /// Keys that only this picker has, for the table of keys.
    pub(super) fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Models => &[("← →", "less or more thinking, where the model has levels")],
            Self::Sessions => &[("Ctrl-R", "give it another title"), ("Ctrl-K twice", "remove it for good")],
            Self::Jobs => &[("Ctrl-K", "end it")],
            Self::Tree => &[
                ("Ctrl-S", "go on from here, with a summary of the branch that is left"),
                ("Ctrl-T", "prompts alone, labelled ones alone, or all"),
                ("Ctrl-B", "fold the other branches, or unfold them"),
            ],
            Self::Agents => {
                &[("Ctrl-K", "stop it"), ("Ctrl-S", "write to it: it reads the line after its current call")]
            }
            Self::Commands | Self::Files | Self::Themes => &[],
        }
    }

    /// Adds the sessions whose text has the words of the query to the matches, as far as they are found yet.
    pub(super) fn add_content_matches(
        self,
        query: &str,
        names: &[String],
        completer: &Completer,
        found: &mut Vec<usize>,
    ) {
        let query = query.trim();
        if self != Self::Sessions || query.len() < MIN_SEARCHED_BYTES {
            return;
        }
        let by_text = completer(&Asked::SessionSearch(query.to_owned())).names;
        let known: HashSet<usize> = found.iter().copied().collect();
        let is_other = |(at, name): &(usize, &String)| !known.contains(at) && by_text.contains(name);
        found.extend(names.iter().enumerate().filter(is_other).map(|(at, _)| at));
    }

    /// Message for an empty list.
    pub(super) fn empty(self) -> &'static str {
        match self {
            Self::Commands => "no command yet: the conversation is being opened",
            Self::Models => "loading models… a name can be typed",
            Self::Sessions => "no session of this directory is stored yet",
            Self::Tree => "no earlier prompt of this session is stored",
            Self::Files => "no file found so far",
            Self::Agents => "no sub-agent has worked yet",
            Self::Jobs => "no command runs in the background: `/jobs start COMMAND` starts one",
            Self::Themes => "no theme yet: the conversation is being opened",
        }
    }

    pub(super) fn completion_request(self) -> Option<Asked> {
        let argument = |command: &str| Some(Asked::Argument(command.to_owned()));
        match self {
            Self::Commands => Some(Asked::Command),
            Self::Files => Some(Asked::File),
            Self::Models => argument("model"),
            Self::Sessions => argument("resume"),
            Self::Tree => argument("tree"),
            Self::Themes => argument("theme"),
            Self::Agents | Self::Jobs => None,
        }
    }

    /// Whether a typed value outside of the list can be chosen.
    pub(super) fn takes_typed(self) -> bool {
        matches!(self, Self::Models | Self::Files)
    }

    /// Kind of picker that a command without arguments opens.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        match line {
            "/" => Some(Self::Commands),
            "/model" => Some(Self::Models),
            "/resume" | "/sessions" => Some(Self::Sessions),
            "/tree" => Some(Self::Tree),
            "/agents" => Some(Self::Agents),
            "/jobs" => Some(Self::Jobs),
            "/theme" => Some(Self::Themes),
            _ => None,
        }
    }
}

/// Whether a line on a drawn screen opens a picker instead of running a command.
#[must_use]
pub fn opens_picker(line: &str) -> bool {
    PickerKind::of_line(line.trim()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::Offered;

    #[test]
    fn sessions_are_found_by_their_text_once_and_other_lists_are_not() {
        let completer: Completer = Box::new(|asked| match asked {
            Asked::SessionSearch(words) if words == "loop" => {
                Offered { names: ["s3", "s1", "s9"].map(str::to_owned).into(), ..Offered::default() }
            }
            _ => Offered::default(),
        });
        let names = ["s1", "s2", "s3"].map(str::to_owned);
        for (kind, query, expected) in [
            (PickerKind::Sessions, " loop ", vec![0, 2]),
            (PickerKind::Sessions, "lo", vec![0]),
            (PickerKind::Tree, "loop", vec![0]),
        ] {
            let mut found = vec![0];
            kind.add_content_matches(query, &names, &completer, &mut found);
            kind.add_content_matches(query, &names, &completer, &mut found);
            assert_eq!(found, expected, "{query}");
        }
    }
}
