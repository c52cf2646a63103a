//! Rows: text that is safe on a terminal, by type.

mod link;
mod palette;
mod style;

use zk_view::sanitise;

use self::link::Link;
pub use self::palette::{Palette, PaletteError, PaletteFileError};
pub use self::style::{Ground, Style, Theme, Tone};
use crate::text::{columns, graphemes};

/// Columns between tab stops.
const TAB_COLUMNS: usize = 4;

/// Sequence that erases the rest of a row in the current background.
pub(crate) const FILL: &str = "\u{1b}[K";

/// Span of a row in one style. The text is sanitised: it contains no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    style: Style,
    text: String,
    link: Option<Link>,
}

impl Span {
    /// Creates a span from untrusted text: control sequences are removed, a line end becomes a blank, a tab
    /// several.
    #[must_use]
    pub fn new(style: Style, text: &str) -> Self {
        let safe = sanitise(text);
        let text = if safe.contains(['\n', '\t']) {
            safe.replace('\n', " ").replace('\t', &" ".repeat(TAB_COLUMNS))
        } else {
            safe.into_owned()
        };
        Self { style, text, link: None }
    }

    /// Links the text to a target: an `http` or `https` address, or the path of a file in the workspace.
    /// Ignores other targets.
    #[must_use]
    pub fn linked(mut self, target: &str) -> Self {
        self.link = Link::of(target);
        self
    }

    /// Span with a part of this span's text, cut between graphemes.
    pub(crate) fn part(&self, text: &str) -> Self {
        Self { text: text.to_owned(), style: self.style, link: self.link.clone() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    #[cfg(test)]
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn push_str(&mut self, more: &str) {
        self.text.push_str(more);
    }

    /// Whether another span has the same style and link.
    pub(crate) fn continues(&self, other: &Self) -> bool {
        self.style == other.style && self.link == other.link
    }
}

/// A row of a screen, or a line that the terminal itself breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    spans: Vec<Span>,
    /// Whether it continues the row above, which was broken at the screen's edge.
    goes_on: bool,
    /// Whether the background of its last span extends to the screen's edge.
    fills: bool,
}

impl Row {
    /// Creates a row of one span: see [`Span::new`].
    #[must_use]
    pub fn of(style: Style, text: &str) -> Self {
        Self::default().with(style, text)
    }

    /// Appends text to the row.
    #[must_use]
    pub fn with(mut self, style: Style, text: &str) -> Self {
        self.push(Span::new(style, text));
        self
    }

    /// Appends a span.
    pub fn push(&mut self, span: Span) {
        match self.spans.last_mut() {
            Some(last) if last.continues(&span) => last.push_str(&span.text),
            Some(_) | None => self.spans.push(span),
        }
    }

    pub(crate) fn append(&mut self, row: &Self) {
        row.spans.iter().for_each(|span| self.push(span.clone()));
    }

    /// Marks the row as a continuation of the row above.
    pub(crate) fn continued(self) -> Self {
        Self { goes_on: true, fills: false, ..self }
    }

    /// Whether its background extends to the screen's edge.
    pub(crate) fn has_fill(&self) -> bool {
        self.fills
    }

    /// Limits the background to the text.
    pub(crate) fn without_fill(self) -> Self {
        Self { fills: false, ..self }
    }

    /// Extends the background to `width` columns, if the row is shorter.
    pub(crate) fn with_fill(self, width: usize) -> Self {
        let fills = self.columns() < width;
        Self { fills, ..self }
    }

    pub(crate) fn is_continuation(&self) -> bool {
        self.goes_on
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Width of the unbroken row in columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.spans.iter().map(|span| columns(&span.text)).sum()
    }

    /// Returns the text without styles.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Length of the row's text, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        self.spans.iter().map(|span| span.text.len()).sum()
    }

    /// Style of the first span.
    #[must_use]
    pub fn style(&self) -> Style {
        self.spans.first().map_or(Style::PLAIN, |span| span.style)
    }

    /// Whether the row has nothing visible.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.spans.iter().all(|span| span.text.trim().is_empty())
    }

    /// The row cut to `width` columns.
    #[must_use]
    pub fn clipped(&self, width: usize) -> Self {
        if self.columns() <= width {
            return self.clone();
        }
        let (mut row, mut left) = (Self::default(), width.saturating_sub(1));
        for span in &self.spans {
            let mut kept = String::new();
            let mut is_full = false;
            for (grapheme, wide) in graphemes(&span.text) {
                is_full = wide > left;
                if is_full {
                    break;
                }
                left -= wide;
                kept.push_str(grapheme);
            }
            if is_full {
                kept.push_str(if width > 0 { "…" } else { "" });
                row.push(span.part(&kept));
                break;
            }
            row.push(span.part(&kept));
        }
        row
    }

    /// Part of the text between two byte offsets.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Self {
        let (mut row, mut at) = (Self::default(), 0);
        for span in &self.spans {
            let (start, end) = (from.max(at) - at, to.min(at + span.text.len()).saturating_sub(at));
            if let Some(text) = span.text.get(start..end).filter(|text| !text.is_empty()) {
                row.push(span.part(text));
            }
            at += span.text.len();
        }
        row
    }

    /// Bytes for the terminal. Files below `workspace` become links.
    pub(crate) fn encode(&self, looks: Looks, workspace: Option<&str>) -> String {
        let mut out = String::new();
        // Trailing blanks are invisible and would be copied.
        let mut spans = self.spans.as_slice();
        while let Some((last, rest)) = spans.split_last() {
            if !last.text.trim_end_matches(' ').is_empty() {
                break;
            }
            spans = rest;
        }
        for (at, span) in spans.iter().enumerate() {
            let text = if at + 1 == spans.len() { span.text.trim_end_matches(' ') } else { &span.text };
            let link = span.link.as_ref().filter(|_| looks.links).and_then(|link| link.address(workspace));
            if let Some(link) = &link {
                out.extend(["\u{1b}]8;;", link, "\u{1b}\\"]);
            }
            if span.style == Style::PLAIN {
                out.push_str(text);
            } else {
                span.style.begin(looks.theme, &mut out);
                let is_last = at + 1 == spans.len();
                // The rest is erased in the background colour instead of filled with spaces, which would be
                // copied.
                let fill = if self.fills && is_last && looks.theme.has_grounds() { FILL } else { "" };
                out.extend([text, fill, "\u{1b}[m"]);
            }
            if link.is_some() {
                out.push_str("\u{1b}]8;;\u{1b}\\");
            }
        }
        out
    }
}

/// Colours and links that a terminal supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// Theme of the colours.
    pub theme: Theme,
    /// Whether the terminal supports links.
    pub links: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Looks = Looks { theme: Theme::Dark, links: true };

    #[test]
    fn no_span_can_control_a_terminal() {
        let row = Row::of(Style::RED, "a\u{1b}[2Jb\u{7}\u{9b}31mc\u{202e}d\ne\tf\r");
        assert_eq!(row.text(), "abcd e    f");
        assert_eq!(row.encode(ALL, None), "\u{1b}[31mabcd e    f\u{1b}[m");
    }

    #[test]
    fn only_safe_targets_become_links() {
        let encoded = |target: &str| {
            Row { spans: vec![Span::new(Style::PLAIN, "x").linked(target)], ..Row::default() }
                .encode(ALL, None)
        };
        assert_eq!(encoded("https://a.b/c"), "\u{1b}]8;;https://a.b/c\u{1b}\\x\u{1b}]8;;\u{1b}\\");
        for target in ["javascript:alert(1)", "file:///etc/passwd", "https://a\u{1b}\\b", "mailto:a@b.c"] {
            assert_eq!(encoded(target), "x", "{target}");
        }
    }

    #[test]
    fn a_clipped_row_fits_and_says_so() {
        let row = Row::of(Style::BOLD, "abc").with(Style::PLAIN, "def");
        assert_eq!(row.clipped(6).text(), "abcdef");
        assert_eq!(row.clipped(5).text(), "abcd…");
        assert_eq!(row.clipped(3).text(), "ab…");
        assert_eq!(row.clipped(0).text(), "");
    }
}
