//! Colours of code: comments, strings, numbers and keywords.
//!
//! A line is coloured by itself and by what is still open before it, in one pass, so that neither the pieces in which an
//! answer comes nor the time they take change a row.

use crate::row::{Row, Style, Tone};

/// Parts of a language that have a colour.
#[derive(Debug)]
struct Language {
    names: &'static [&'static str],
    /// Starts of line comments.
    line: &'static [&'static str],
    /// Start and end of a block comment.
    block: Option<(&'static str, &'static str)>,
    /// String delimiters: longer ones first, which allow several lines.
    quotes: &'static [&'static str],
    /// Keywords, separated by blanks.
    keywords: &'static str,
}

const C_BLOCK: Option<(&str, &str)> = Some(("/*", "*/"));

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["\""],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in \
            let loop match mod move mut pub ref return self Self static struct super trait true type \
            unsafe use where while",
    },
    Language {
        names: &["python", "py", "python3"],
        line: &["#"],
        block: None,
        quotes: &["\"\"\"", "'''", "\"", "'"],
        keywords: "and as assert async await break class continue def del elif else except False finally \
            for from global if import in is lambda None nonlocal not or pass raise return self True \
            try while with yield",
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["`", "\"", "'"],
        keywords: "as async await break case catch class const continue default delete do else enum export \
            extends false finally for from function if implements import in instanceof interface let \
            new null of private public readonly return static super switch this throw true try type \
            typeof undefined var void while yield",
    },
    Language {
        names: &[
            "c", "h", "cpp", "c++", "cc", "hpp", "java", "kotlin", "kt", "csharp", "cs", "swift", "scala",
        ],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["\"\"\"", "\"", "'"],
        keywords: "abstract auto bool boolean break case catch char class const constexpr continue default \
            delete do double else enum explicit extends extern false final finally float for fun \
            func goto if implements import inline int interface let long namespace new null nullptr \
            operator override package private protected public return short signed sizeof static \
            struct super switch template this throw true try typedef typename union unsigned using \
            val var virtual void volatile when while",
    },
    Language {
        names: &["go", "golang"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["`", "\"", "'"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if \
            import interface map nil package range return select struct switch true type var",
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "fish", "console"],
        line: &["#"],
        block: None,
        quotes: &["\"", "'"],
        keywords: "case do done elif else esac export fi for function if in local return set then unset \
            while",
    },
    Language {
        names: &["toml", "yaml", "yml", "ini", "dockerfile", "make", "makefile", "cmake", "nix"],
        line: &["#"],
        block: None,
        quotes: &["\"\"\"", "\"", "'"],
        keywords: "true false null FROM RUN COPY ENV CMD ENTRYPOINT WORKDIR ARG",
    },
    Language {
        names: &["json", "jsonc", "json5"],
        line: &["//"],
        block: C_BLOCK,
        quotes: &["\""],
        keywords: "true false null",
    },
    Language {
        names: &["sql"],
        line: &["--"],
        block: C_BLOCK,
        quotes: &["'", "\""],
        keywords: "select from where insert into values update set delete create table index join left \
            inner on group order by limit and or not null as SELECT FROM WHERE INSERT INTO VALUES \
            UPDATE SET DELETE CREATE TABLE INDEX JOIN LEFT INNER ON GROUP ORDER BY LIMIT AND OR NOT \
            NULL AS",
    },
    Language {
        names: &["lua", "haskell", "hs"],
        line: &["--"],
        block: None,
        quotes: &["\"", "'"],
        keywords: "and break case class data do else elseif end false for function if import in instance \
            let local module nil not of or repeat return then true type until where while",
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "perl", "r"],
        line: &["#"],
        block: None,
        quotes: &["\"", "'"],
        keywords: "and begin case class def defmodule do else elsif end false fn for function if in module \
            my next nil not or rescue return self sub then true unless until use when while yield",
    },
    Language {
        names: &["html", "xml", "svg", "vue"],
        line: &[],
        block: Some(("<!--", "-->")),
        quotes: &["\"", "'"],
        keywords: "",
    },
    Language {
        names: &["css", "scss", "less"],
        line: &[],
        block: C_BLOCK,
        quotes: &["\"", "'"],
        keywords: "",
    },
];

/// Maximum length in bytes of a coloured line, which bounds the cost of a frame.
const MAX_COLOURED_LINE_BYTES: usize = 4096;

/// Maximum size in bytes of coloured code in one answer: about two milliseconds if it arrives at once.
/// Counted on the text alone, so that an answer has the same rows however it arrives.
pub(super) const COLOURED: usize = 128 * 1024;

/// Syntax highlighter for the lines of one code block.
#[derive(Clone, Debug, Default)]
pub(super) struct Highlighter {
    kind: Kind,
    /// Open string or comment.
    open: Option<Open>,
    /// Remaining bytes to colour.
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
    style: Style,
    /// Whether a backslash escapes the next character.
    escapes: bool,
}

const COMMENT: Style = Style { dim: true, italic: true, ..Style::PLAIN };
const STRING: Style = Style::GREEN;
const NUMBER: Style = Style::YELLOW;
const KEYWORD: Style = Style { tone: Tone::Magenta, ..Style::PLAIN };

impl Highlighter {
    /// Creates the highlighter for the language in a fence's info string.
    pub(super) fn of(info: &str) -> Self {
        let name = info.split([' ', ',', '{', '\t']).next().unwrap_or_default().to_ascii_lowercase();
        let known = LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()));
        let kind = match known {
            _ if matches!(name.as_str(), "diff" | "patch") => Kind::Diff,
            Some(language) => Kind::Known(language),
            None => Kind::Unknown,
        };
        Self { kind, open: None, left: COLOURED }
    }

    /// Limits how many bytes are coloured.
    pub(super) fn within(self, left: usize) -> Self {
        Self { left, ..self }
    }

    /// Remaining bytes to colour.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Row of the next line, never wrapped.
    pub(super) fn line(&mut self, line: &str) -> Row {
        match self.kind {
            Kind::Unknown => Row::of(Style::CYAN, line),
            Kind::Diff => Row::of(diff_style(line), line),
            // A line that no person reads is not worth the time of a frame.
            Kind::Known(_) if line.len() > MAX_COLOURED_LINE_BYTES => Row::of(Style::PLAIN, line),
            Kind::Known(_) if line.len() > self.left => {
                self.left = 0;
                Row::of(Style::PLAIN, line)
            }
            Kind::Known(language) => {
                self.left -= line.len();
                self.code(language, line)
            }
        }
    }

    fn code(&mut self, language: &'static Language, line: &str) -> Row {
        let (mut row, mut rest, mut plain) = (Row::default(), line, 0);
        // The word at the start of `rest` is part of a longer one.
        let mut in_word = false;
        while let Some(first) = rest.get(plain..).and_then(|text| text.chars().next()) {
            let (taken, style) = match self.open {
                Some(open) => {
                    let (taken, is_closed) = end_of(rest, open);
                    if is_closed {
                        self.open = None;
                    }
                    (taken, open.style)
                }
                None => {
                    let here = rest.get(plain..).unwrap_or_default();
                    match self.token(language, here, first, in_word) {
                        Some(token) => {
                            row = row.with(Style::PLAIN, rest.get(..plain).unwrap_or_default());
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
            row = row.with(style, rest.get(..taken).unwrap_or_default());
            rest = rest.get(taken..).unwrap_or_default();
            (plain, in_word) = (0, false);
        }
        // A one-line string ends with its line, complete or not.
        if self.open.is_some_and(|open| open.end.len() == 1 && open.end != "`") {
            self.open = None;
        }
        row.with(Style::PLAIN, rest)
    }

    /// Length and style of the token at the start.
    fn token(
        &mut self,
        language: &'static Language,
        here: &str,
        first: char,
        in_word: bool,
    ) -> Option<(usize, Style)> {
        if !in_word && language.line.iter().any(|mark| here.starts_with(mark)) {
            return Some((here.len(), COMMENT));
        }
        if let Some((begin, end)) = language.block.filter(|(begin, _)| here.starts_with(begin)) {
            let open = Open { end, style: COMMENT, escapes: false };
            return Some(self.begin(here, begin.len(), open));
        }
        // An apostrophe inside a word is not a string.
        if let Some(quote) = language.quotes.iter().find(|quote| here.starts_with(**quote)) {
            if in_word && *quote == "'" {
                return None;
            }
            let open = Open { end: quote, style: STRING, escapes: true };
            return Some(self.begin(here, quote.len(), open));
        }
        if in_word {
            return None;
        }
        if first.is_ascii_digit() {
            let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            return Some((here.find(|c| !is_number(c)).unwrap_or(here.len()), NUMBER));
        }
        let word = here.split(|c| !is_of_word(c)).next().unwrap_or_default();
        let is_keyword = language.keywords.split(' ').any(|keyword| keyword == word);
        (is_keyword && !word.is_empty()).then_some((word.len(), KEYWORD))
    }

    /// Starts a string or comment, up to its end or the line's end.
    fn begin(&mut self, here: &str, mark: usize, open: Open) -> (usize, Style) {
        let (taken, is_closed) = end_of(here.get(mark..).unwrap_or_default(), open);
        self.open = (!is_closed).then_some(open);
        (mark + taken, open.style)
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

fn diff_style(line: &str) -> Style {
    match line.chars().next() {
        Some('+') => Style::GREEN,
        Some('-') => Style::RED,
        Some('@') => Style::CYAN,
        Some(_) | None => Style::PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coloured(info: &str, lines: &[&str]) -> Vec<String> {
        let mut highlighter = Highlighter::of(info);
        let name = |style: Style| match style {
            COMMENT => "c",
            STRING => "s",
            NUMBER => "n",
            KEYWORD => "k",
            _ => "",
        };
        let shown = |row: Row| -> String {
            let shown = |span: &crate::row::Span| match name(span.style()) {
                "" => span.text().to_owned(),
                name => format!("<{name}:{}>", span.text()),
            };
            row.spans().iter().map(shown).collect()
        };
        lines.iter().map(|line| shown(highlighter.line(line))).collect()
    }

    #[test]
    fn code_has_its_colours_across_lines() {
        assert_eq!(
            coloured(
                "rust",
                &["let x_1 = 10; // a \"b\"", "f(\"a\\\"b\") /* one", "two */ fn", "let a: &'a str"]
            ),
            [
                "<k:let> x_1 = <n:10>; <c:// a \"b\">",
                "f(<s:\"a\\\"b\">) <c:/* one>",
                "<c:two */> <k:fn>",
                "<k:let> a: &'a str"
            ]
        );
        assert_eq!(
            coloured("python", &["def f(): # x", "  '''doc", "for''' + 'it\\'s'", "x = 'open", "return"]),
            [
                "<k:def> f(): <c:# x>",
                "  <s:'''doc>",
                "<s:for'''> + <s:'it\\'s'>",
                "x = <s:'open>",
                "<k:return>"
            ]
        );
        assert_eq!(coloured("brainfuck", &["let x"]), ["let x"]);
    }

    #[test]
    fn a_line_beyond_the_budget_stays_plain_and_whole_and_the_next_one_has_its_colours() {
        let fits = "let x = 1; ".repeat(MAX_COLOURED_LINE_BYTES / 11);
        let long = format!("{fits}let y = 2; // more");
        let mut highlighter = Highlighter::of("rust");
        assert!(highlighter.line(&fits).spans().len() > 100);
        let row = highlighter.line(&long);
        assert_eq!((row.spans().len(), row.text()), (1, long));
        assert_eq!(coloured("rust", &["let x"]), ["<k:let> x"]);
    }

    #[test]
    fn no_text_is_lost_whatever_the_code() {
        for info in ["rust", "py", "js", "sh", "json", "sql", "html", "diff", ""] {
            let mut highlighter = Highlighter::of(info);
            for line in
                ["'", "\"", "a'b\"c`d", "/*", "漢字 '漢' */ x", "\\", "'\\", "0x1f.9_漢", "", "#!/bin/sh \t"]
            {
                assert_eq!(
                    highlighter.line(line).text(),
                    Row::of(Style::PLAIN, line).text(),
                    "{info}: {line}"
                );
            }
        }
    }
}
