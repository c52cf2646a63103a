use super::languages::{LANGUAGES, Language};

/// Maximum length in bytes of a coloured line, which bounds the cost of a frame.
const MAX_COLOURED_LINE_BYTES: usize = 4096;

/// Maximum size in bytes of coloured code in one answer: about two milliseconds if it arrives at once.
/// Counted on the text alone, so that an answer has the same rows however it arrives.
pub const MAX_COLOURED_BYTES: usize = 128 * 1024;

/// Part of a line of code, by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeToken {
    /// Code without a colour.
    Plain,
    /// Line of an unknown language.
    Unknown,
    /// Comment.
    Comment,
    /// String.
    String,
    /// Number.
    Number,
    /// Keyword.
    Keyword,
    /// Added line of a diff.
    Added,
    /// Removed line of a diff.
    Removed,
    /// Beginning of a diff's hunk.
    Hunk,
}

/// Lexer for the lines of one code block. A line is coloured by itself and by what is still open before it, in one pass,
/// so that neither the pieces in which an answer comes nor the time they take change a line.
///
/// ```
/// use zk_view::{CodeLexer, CodeToken};
///
/// let mut lexer = CodeLexer::of("rust");
/// assert_eq!(lexer.line("let x")[0], (CodeToken::Keyword, "let"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CodeLexer {
    kind: Kind,
    /// Open string or comment.
    open: Option<Open>,
    /// Number of bytes that may still be coloured.
    left: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    /// Unknown language.
    #[default]
    Unknown,
    Diff,
    Known(&'static Language),
}

#[derive(Clone, Copy, Debug)]
struct Open {
    end: &'static str,
    token: CodeToken,
    /// Whether a backslash escapes the next character.
    escapes: bool,
}

impl CodeLexer {
    /// Creates the lexer for the language in a fence's info string.
    #[must_use]
    pub fn of(info: &str) -> Self {
        let name = info.split([' ', ',', '{', '\t']).next().unwrap_or_default().to_ascii_lowercase();
        let known = LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()));
        let kind = match known {
            _ if matches!(name.as_str(), "diff" | "patch") => Kind::Diff,
            Some(language) => Kind::Known(language),
            None => Kind::Unknown,
        };
        Self { kind, open: None, left: MAX_COLOURED_BYTES }
    }

    /// Limits how many bytes are coloured.
    #[must_use]
    pub fn within(self, left: usize) -> Self {
        Self { left, ..self }
    }

    /// Number of bytes that may still be coloured.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Parts of the next line, in order, without empty ones.
    pub fn line<'a>(&mut self, line: &'a str) -> Vec<(CodeToken, &'a str)> {
        match self.kind {
            Kind::Unknown => single_token(CodeToken::Unknown, line),
            Kind::Diff => single_token(diff_token(line), line),
            // A line too long to be read by a person is not worth the time of a frame.
            Kind::Known(_) if line.len() > MAX_COLOURED_LINE_BYTES => single_token(CodeToken::Plain, line),
            Kind::Known(_) if line.len() > self.left => {
                self.left = 0;
                single_token(CodeToken::Plain, line)
            }
            Kind::Known(language) => {
                self.left -= line.len();
                self.coloured_line(language, line)
            }
        }
    }

    fn coloured_line<'a>(&mut self, language: &'static Language, line: &'a str) -> Vec<(CodeToken, &'a str)> {
        let (mut parts, mut rest, mut plain) = (Vec::new(), line, 0);
        // Whether the text before `rest` ends within a word.
        let mut in_word = false;
        while let Some(first) = rest.get(plain..).and_then(|text| text.chars().next()) {
            let (taken, token) = match self.open {
                Some(open) => {
                    let (taken, is_closed) = end_of(rest, open);
                    if is_closed {
                        self.open = None;
                    }
                    (taken, open.token)
                }
                None => {
                    let here = rest.get(plain..).unwrap_or_default();
                    match self.next_token(language, here, first, in_word) {
                        Some(token) => {
                            push(&mut parts, CodeToken::Plain, rest.get(..plain).unwrap_or_default());
                            rest = here;
                            token
                        }
                        None => {
                            in_word = is_of_word(first);
                            plain += first.len_utf8();
                            continue;
                        }
                    }
                }
            };
            push(&mut parts, token, rest.get(..taken).unwrap_or_default());
            rest = rest.get(taken..).unwrap_or_default();
            (plain, in_word) = (0, false);
        }
        // A one-line string ends with its line, even without a closing quote.
        if self.open.is_some_and(|open| open.end.len() == 1 && open.end != "`") {
            self.open = None;
        }
        push(&mut parts, CodeToken::Plain, rest);
        parts
    }

    /// Length and kind of the token at the start.
    fn next_token(
        &mut self,
        language: &'static Language,
        here: &str,
        first: char,
        in_word: bool,
    ) -> Option<(usize, CodeToken)> {
        if !in_word && language.line.iter().any(|mark| here.starts_with(mark)) {
            return Some((here.len(), CodeToken::Comment));
        }
        if let Some((begin, end)) = language.block.filter(|(begin, _)| here.starts_with(begin)) {
            let open = Open { end, token: CodeToken::Comment, escapes: false };
            return Some(self.begin_span(here, begin.len(), open));
        }
        // An apostrophe inside a word is not a string.
        if let Some(quote) = language.quotes.iter().find(|quote| here.starts_with(**quote)) {
            if in_word && *quote == "'" {
                return None;
            }
            let open = Open { end: quote, token: CodeToken::String, escapes: true };
            return Some(self.begin_span(here, quote.len(), open));
        }
        if in_word {
            return None;
        }
        if first.is_ascii_digit() {
            let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            return Some((here.find(|c| !is_number(c)).unwrap_or(here.len()), CodeToken::Number));
        }
        let word = here.split(|c| !is_of_word(c)).next().unwrap_or_default();
        let is_keyword = language.keywords.split(' ').any(|keyword| keyword == word);
        (is_keyword && !word.is_empty()).then_some((word.len(), CodeToken::Keyword))
    }

    /// Starts a string or comment, up to its end or the line's end.
    fn begin_span(&mut self, here: &str, mark: usize, open: Open) -> (usize, CodeToken) {
        let (taken, is_closed) = end_of(here.get(mark..).unwrap_or_default(), open);
        self.open = (!is_closed).then_some(open);
        (mark + taken, open.token)
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length up to and including the end of a string or comment, and whether the end was found.
fn end_of(text: &str, open: Open) -> (usize, bool) {
    let mut hidden = false;
    for (at, c) in text.char_indices() {
        if !hidden && text.get(at..).is_some_and(|rest| rest.starts_with(open.end)) {
            return (at + open.end.len(), true);
        }
        hidden = open.escapes && c == '\\' && !hidden;
    }
    (text.len(), false)
}

fn single_token(token: CodeToken, line: &str) -> Vec<(CodeToken, &str)> {
    let mut parts = Vec::with_capacity(1);
    push(&mut parts, token, line);
    parts
}

fn push<'a>(parts: &mut Vec<(CodeToken, &'a str)>, token: CodeToken, text: &'a str) {
    if !text.is_empty() {
        parts.push((token, text));
    }
}

fn diff_token(line: &str) -> CodeToken {
    match line.chars().next() {
        Some('+') => CodeToken::Added,
        Some('-') => CodeToken::Removed,
        Some('@') => CodeToken::Hunk,
        Some(_) | None => CodeToken::Plain,
    }
}
