//! Syntax highlighting: comments, strings, numbers and keywords.

use zk_view::{CodeLexer, CodeToken};

use crate::row::{Row, Style, Tone};

/// Maximum size in bytes of coloured code in one answer.
pub(super) use zk_view::MAX_COLOURED_BYTES as COLOURED;

/// Syntax highlighter for the lines of one code block.
#[derive(Clone, Debug, Default)]
pub(super) struct Highlighter(CodeLexer);

const COMMENT: Style = Style { dim: true, italic: true, ..Style::PLAIN };
const STRING: Style = Style::GREEN;
const NUMBER: Style = Style::YELLOW;
const KEYWORD: Style = Style { tone: Tone::Magenta, ..Style::PLAIN };

impl Highlighter {
    /// Creates the highlighter for the language in a fence's info string.
    pub(super) fn of(info: &str) -> Self {
        Self(CodeLexer::of(info))
    }

    /// Limits how many bytes are coloured.
    pub(super) fn within(self, left: usize) -> Self {
        Self(self.0.within(left))
    }

    /// Number of bytes that may still be coloured.
    pub(super) fn left(&self) -> usize {
        self.0.left()
    }

    /// Row of the next line, never wrapped.
    pub(super) fn line(&mut self, line: &str) -> Row {
        let parts = self.0.line(line).into_iter();
        parts.fold(Row::default(), |row, (token, text)| row.with(style_of(token), text))
    }
}

const fn style_of(token: CodeToken) -> Style {
    match token {
        CodeToken::Plain => Style::PLAIN,
        CodeToken::Unknown | CodeToken::Hunk => Style::CYAN,
        CodeToken::Comment => COMMENT,
        CodeToken::String => STRING,
        CodeToken::Number => NUMBER,
        CodeToken::Keyword => KEYWORD,
        CodeToken::Added => Style::GREEN,
        CodeToken::Removed => Style::RED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum length in bytes of a line that is coloured.
    const COLOURED_LINE_BYTES: usize = 4096;

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
        let fits = "let x = 1; ".repeat(COLOURED_LINE_BYTES / 11);
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
