use std::fmt;

use super::RuleError;
use crate::program::base_name;
use crate::shell::lexer::pattern_words;
use crate::shell::quote;

/// Pattern for a command, word by word: words match literally, `*` matches exactly one argument, `**` at the
/// end any number of them. A quoted star is literal.
///
/// ```
/// use zk_permission::CommandPattern;
///
/// let pattern = CommandPattern::parse("git push * **").unwrap();
/// let argv = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
/// assert!(pattern.matches(&argv("git push origin")));
/// assert!(pattern.matches(&argv("git push origin main --tags")));
/// assert!(!pattern.matches(&argv("git push")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    pub(super) words: Vec<PatternWord>,
    /// Whether any more arguments may follow.
    pub(super) has_rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternWord {
    Exact(String),
    Any,
}

/// Certainty that a pattern is about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Likeness {
    No,
    /// Possible match: the same program with flags between, with unknown arguments, or as an argument of a
    /// program that may start it.
    Possible,
    Yes,
}

impl CommandPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`RuleError`] when it has no word, a star inside of a word, `**` before the end, or something that only
    /// a shell understands.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = |why: String| RuleError { rule: text.to_owned(), why };
        let words = pattern_words(text).map_err(|why| {
            wrong(format!("{why}; a star stands for whole arguments only, quote what is meant literally"))
        })?;
        let mut pattern = Self { words: Vec::new(), has_rest: false };
        for word in words {
            if pattern.has_rest {
                return Err(wrong("`**` stands for all that follows, so nothing may follow it".to_owned()));
            }
            match (word.is_quoted, word.text.as_str()) {
                (false, "**") => pattern.has_rest = true,
                (false, "*") => pattern.words.push(PatternWord::Any),
                _ => pattern.words.push(PatternWord::Exact(word.text)),
            }
        }
        if pattern.words.is_empty() && !pattern.has_rest {
            return Err(wrong("it is empty".to_owned()));
        }
        Ok(pattern)
    }

    /// Creates the pattern for commands with this prefix.
    #[must_use]
    pub fn prefix<S: AsRef<str>>(words: &[S]) -> Self {
        let words = words.iter().map(|word| PatternWord::Exact(word.as_ref().to_owned())).collect();
        Self { words, has_rest: true }
    }

    /// Whether the program is a wildcard too.
    #[must_use]
    pub fn is_any_program(&self) -> bool {
        !matches!(self.words.first(), Some(PatternWord::Exact(_)))
    }

    /// Whether a program with literal arguments matches.
    #[must_use]
    pub fn matches(&self, argv: &[String]) -> bool {
        let length_fits =
            if self.has_rest { argv.len() >= self.words.len() } else { argv.len() == self.words.len() };
        length_fits && !argv.is_empty() && self.words.iter().zip(argv).all(|(word, arg)| word.matches(arg))
    }

    pub(crate) fn has_rest(&self) -> bool {
        self.has_rest
    }

    /// Whether the pattern has a literal word at this index.
    pub(crate) fn is_literal_at(&self, index: usize) -> bool {
        matches!(self.words.get(index), Some(PatternWord::Exact(_)))
    }

    /// Program in the pattern; `None` for any program.
    pub(super) fn program(&self) -> Option<&str> {
        match self.words.first() {
            Some(PatternWord::Exact(word)) => Some(word),
            Some(PatternWord::Any) | None => None,
        }
    }

    /// Compares the pattern of a deny or ask rule with a command. In doubt the answer is *possible*.
    pub(crate) fn likeness(&self, argv: &[String], has_unknown_tail: bool) -> Likeness {
        let Some(word) = argv.first() else { return Likeness::No };
        if let Some(program) = self.program() {
            let is_same = program == word;
            if !is_same && base_name(program) != base_name(word) {
                return Likeness::No;
            }
            if !is_same && program.contains('/') {
                return Likeness::Possible;
            }
        }
        let rest = argv.get(1..).unwrap_or_default();
        let wanted = self.words.get(1..).unwrap_or_default();
        let fits = wanted.iter().zip(rest).all(|(word, arg)| word.matches(arg));
        let length_fits = if self.has_rest {
            rest.len() >= wanted.len()
        } else {
            rest.len() == wanted.len() && !has_unknown_tail
        };
        if fits && length_fits {
            return Likeness::Yes;
        }
        if (fits && has_unknown_tail) || may_match(wanted, rest, has_unknown_tail) {
            return Likeness::Possible;
        }
        Likeness::No
    }
}

/// Whether a command may match a prohibiting pattern: its flags may be anywhere, its other words in order,
/// with only flags and their values before the first. `has_unknown_tail` means that more words may follow.
fn may_match(wanted: &[PatternWord], argv: &[String], has_unknown_tail: bool) -> bool {
    let literal = wanted.iter().filter_map(|word| match word {
        PatternWord::Exact(word) => Some(word.as_str()),
        PatternWord::Any => None,
    });
    let (flags, others): (Vec<&str>, Vec<&str>) = literal.partition(|word| word.starts_with('-'));
    if flags.is_empty() && others.is_empty() {
        // Only stars: a count of arguments.
        return has_unknown_tail && argv.len() <= wanted.len();
    }
    let mut at = 0;
    let mut seen = 0;
    for (index, other) in others.iter().enumerate() {
        let Some(found) = argv.get(at..).unwrap_or_default().iter().position(|arg| arg == other) else {
            return has_unknown_tail && flags.is_empty();
        };
        let between = argv.get(at..at + found).unwrap_or_default();
        if index == 0 && !only_flags(between) {
            return false;
        }
        at += found + 1;
        seen += 1;
    }
    let has_flag = |flag: &&str| has_unknown_tail || has_flag(argv, flag);
    seen == others.len() && flags.iter().all(has_flag)
}

/// Whether the words are flags, each with at most one value.
fn only_flags(words: &[String]) -> bool {
    let mut may_be_value = false;
    words.iter().all(|word| {
        let is_flag = word.starts_with(['-', '+']);
        let fits = is_flag || may_be_value;
        may_be_value = is_flag;
        fits
    })
}

/// Whether arguments contain this flag: as written, abbreviated, with a value, joined or separate.
fn has_flag(argv: &[String], flag: &str) -> bool {
    if argv.iter().any(|arg| arg == flag) {
        return true;
    }
    if let Some(flag) = flag.strip_prefix("--") {
        return argv.iter().filter_map(|arg| arg.strip_prefix("--")).any(|arg| {
            let name = arg.split('=').next().unwrap_or_default();
            !name.is_empty() && flag.starts_with(name)
        });
    }
    let is_joined = |arg: &&String| arg.starts_with('-') && !arg.starts_with("--");
    let mut letters = flag.chars().skip(1);
    letters.all(|letter| argv.iter().filter(is_joined).any(|arg| arg.contains(letter)))
}

impl PatternWord {
    fn matches(&self, arg: &str) -> bool {
        match self {
            Self::Exact(word) => word == arg,
            Self::Any => true,
        }
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words.iter().map(|word| match word {
            PatternWord::Exact(word) => quote(word),
            PatternWord::Any => "*".to_owned(),
        });
        let words: Vec<String> = words.chain(self.has_rest.then(|| "**".to_owned())).collect();
        f.write_str(&words.join(" "))
    }
}
