//! Text for people that is safe on a terminal, guaranteed by its type.

pub(crate) mod code;
mod json;
mod sanitise;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use json::{escape_controls, redact_json};
pub use sanitise::{Sanitiser, is_harmless, is_plain_ascii, sanitise};

/// Text that is safe to show on a terminal: only the [`Sanitiser`] makes one, also from JSON.
///
/// Equality compares the sanitised texts. Programs get the original by [`Text::unsanitised`]; it is not
/// serialised.
#[derive(Clone, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Text {
    shown: String,
    raw: Option<Box<Raw>>,
}

/// Unsanitised form of a [`Text`]. Boxed, since few texts have one and a view holds thousands of texts.
#[derive(Clone)]
struct Raw(String);

impl Raw {
    fn boxed(text: impl Into<String>) -> Box<Self> {
        Box::new(Self(text.into()))
    }
}

impl Text {
    /// Text of any origin.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let shown = sanitise(text).into_owned();
        let raw = (shown != text).then(|| Raw::boxed(text));
        Self { shown, raw }
    }

    /// Sanitises a text to one line: line ends and tabs become blanks.
    #[must_use]
    pub fn line(text: &str) -> Self {
        if text.contains(['\n', '\t']) {
            Self::new(&text.replace(['\n', '\t'], " "))
        } else {
            Self::new(text)
        }
    }

    /// Sanitised text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// Original text: for programs, never for a terminal.
    #[must_use]
    pub fn unsanitised(&self) -> &str {
        self.raw.as_ref().map_or(&self.shown, |raw| &raw.0)
    }

    /// Whether the sanitised text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.shown.len() + self.raw.as_ref().map_or(0, |raw| raw.0.len())
    }

    /// Appends the continuation of this text.
    pub(crate) fn append(&mut self, more: &Self) {
        if self.raw.is_some() || more.raw.is_some() {
            let mut raw = self.raw.take().unwrap_or_else(|| Raw::boxed(self.shown.as_str()));
            raw.0.push_str(more.unsanitised());
            self.raw = Some(raw);
        }
        self.shown.push_str(&more.shown);
    }

    /// Truncates the text to its tail: at most `lines` lines and about `bytes` bytes.
    pub(crate) fn truncate_to_tail(&mut self, lines: usize, bytes: usize) {
        self.raw = None;
        let mut from = self.shown.len().saturating_sub(bytes);
        while !self.shown.is_char_boundary(from) {
            from += 1;
        }
        let body = self.shown.strip_suffix('\n').unwrap_or(&self.shown);
        if let Some((at, _)) = body.rmatch_indices('\n').nth(lines.saturating_sub(1)) {
            from = from.max(at + 1);
        }
        self.shown.drain(..from);
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Eq for Text {}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        match sanitise(&text) {
            std::borrow::Cow::Borrowed(_) => Self { shown: text, raw: None },
            std::borrow::Cow::Owned(shown) => Self { shown, raw: Some(Raw::boxed(text)) },
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// Text that arrives in pieces, which may split an escape sequence or an emoji.
#[derive(Debug, Default)]
pub(crate) struct Growing(Sanitiser);

impl Growing {
    /// Sanitises the next piece.
    pub(crate) fn push(&mut self, delta: &str) -> Text {
        let mut shown = String::with_capacity(delta.len());
        self.0.push(delta, &mut shown);
        let raw = (shown != delta).then(|| Raw::boxed(delta));
        Text { shown, raw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_harmless_wherever_it_comes_from() {
        let hostile = "a\u{1b}[2Jb\u{202e}c";
        let from_json: Text = serde_json::from_str(&serde_json::to_string(hostile).unwrap()).unwrap();
        for text in [Text::new(hostile), Text::from(hostile.to_owned()), Text::line(hostile), from_json] {
            assert_eq!(text.as_str(), "abc");
        }
        assert_eq!(Text::new(hostile).unsanitised(), hostile);
        assert_eq!(Text::line("a\nb\tc").as_str(), "a b c");
    }

    #[test]
    fn pieces_are_sanitised_like_the_whole_text() {
        let whole = "x\u{1b}]0;title\u{7}y 👩\u{200d}🚀 z";
        for at in whole.char_indices().map(|(at, _)| at) {
            let (head, tail) = whole.split_at(at);
            let (mut growing, mut text) = (Growing::default(), Text::default());
            text.append(&growing.push(head));
            text.append(&growing.push(tail));
            assert_eq!(text, Text::new(whole));
            assert_eq!(text.unsanitised(), whole);
        }
    }

    #[test]
    fn the_end_of_a_text_is_kept_by_lines_and_bytes() {
        for (text, lines, bytes, kept) in [
            ("a\nb\nc\n", 2, 100, "b\nc\n"),
            ("a\nb\nc", 2, 100, "b\nc"),
            ("a\nb", 5, 100, "a\nb"),
            ("é漢x", 5, 3, "x"),
        ] {
            let mut text = Text::new(text);
            text.truncate_to_tail(lines, bytes);
            assert_eq!(text.as_str(), kept);
        }
    }
}
