use std::ops::Range;

use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::canonical_combining_class, is_nfkc_quick,
};

/// Degree of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Normalises white space at line ends, line ends, and typographic quotes, dashes and spaces.
    Typographic,
    /// Normalises further to NFKC: combining accents, ligatures, full-width letters.
    Compatible,
}

/// Normalised text for tolerant matching: LF line ends, no white space before them, plain quotes, dashes and
/// spaces. For every byte its original range is known; bytes of the same original characters share a range,
/// and form a unit.
#[derive(Debug, Default)]
pub(super) struct Normal {
    pub(super) bytes: Vec<u8>,
    from: Vec<Range<u32>>,
    /// Whether white space was removed at the very end.
    pub(super) trimmed: bool,
}

impl Normal {
    /// Normalises a text below 4 GB.
    pub(super) fn of(text: &[u8], form: Form) -> Self {
        let mut this = Self { bytes: Vec::with_capacity(text.len()), ..Self::default() };
        let mut at = 0_usize;
        for chunk in text.utf8_chunks() {
            match form {
                Form::Typographic => {
                    for (offset, char) in chunk.valid().char_indices() {
                        this.push_char(char, at + offset..at + offset + char.len_utf8());
                    }
                }
                Form::Compatible => this.push_compatible(chunk.valid(), at),
            }
            at += chunk.valid().len();
            for byte in chunk.invalid() {
                this.push(*byte, at..at + 1);
                at += 1;
            }
        }
        this.trimmed = this.drop_space();
        this
    }

    /// Adds each group of characters that normalise together, in NFKC form.
    fn push_compatible(&mut self, text: &str, at: usize) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let start = at + text.len() - rest.len();
            let mut after = rest.char_indices().skip(1);
            let end = match first {
                '\n' => 1,
                _ => after.find(|(_, char)| begins_unit(*char)).map_or(rest.len(), |(offset, _)| offset),
            };
            let (unit, next) = rest.split_at(end);
            let from = start..start + end;
            if end == first.len_utf8() && (first.is_ascii() || is_typographic(first)) {
                self.push_char(first, from);
            } else {
                unit.nfkc().for_each(|char| self.push_char(char, from.clone()));
            }
            rest = next;
        }
    }

    fn push_char(&mut self, char: char, from: Range<usize>) {
        match char {
            '\n' => {
                let after_cr = self.bytes.last() == Some(&b'\r');
                self.drop_space();
                // The CR of a CR LF belongs to the line end.
                self.push(b'\n', if after_cr { from.start - 1..from.end } else { from });
            }
            other => match plain(other) {
                Some(plain) => self.push(plain, from),
                None => {
                    let mut buffer = [0_u8; 4];
                    for byte in other.encode_utf8(&mut buffer).bytes() {
                        self.push(byte, from.clone());
                    }
                }
            },
        }
    }

    fn push(&mut self, byte: u8, from: Range<usize>) {
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.bytes.push(byte);
        self.from.push(narrow(from.start)..narrow(from.end));
    }

    fn drop_space(&mut self) -> bool {
        let kept = self.bytes.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
        let kept = kept.map_or(0, |last| last + 1);
        let dropped = kept < self.bytes.len();
        self.bytes.truncate(kept);
        self.from.truncate(kept);
        dropped
    }

    /// Whether the byte at `index` begins a unit, so that the text may be split before it.
    pub(super) fn is_boundary(&self, index: usize) -> bool {
        let before = index.checked_sub(1).and_then(|before| self.from.get(before));
        before.is_none() || before != self.from.get(index)
    }

    /// Range of the unit around the original byte at `at`; `None` at a boundary.
    pub(super) fn unit_around(&self, at: usize) -> Option<Range<usize>> {
        let unit = self.from.get(self.count_before(at))?;
        let unit = unit.start as usize..unit.end as usize;
        (unit.start < at && at < unit.end).then_some(unit)
    }

    /// Original offset at which the byte at `index` begins.
    pub(super) fn start(&self, index: usize) -> Option<usize> {
        self.from.get(index).map(|from| from.start as usize)
    }

    /// Original offset at which the byte at `index` ends.
    pub(super) fn end(&self, index: usize) -> Option<usize> {
        self.from.get(index).map(|from| from.end as usize)
    }

    /// Number of normalised bytes for the first `len` original bytes.
    pub(super) fn count_before(&self, len: usize) -> usize {
        self.from.partition_point(|from| (from.end as usize) <= len)
    }
}

/// Plain equivalent of a typographic character; `None` for others.
fn plain(char: char) -> Option<u8> {
    match char {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => Some(b'\''),
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => Some(b'"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some(b'-'),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Some(b' '),
        _ => None,
    }
}

fn is_typographic(char: char) -> bool {
    plain(char).is_some()
}

/// Whether a character never combines with the previous ones, in any form.
fn begins_unit(char: char) -> bool {
    if char.is_ascii() {
        return true;
    }
    let first = std::iter::once(char).nfkd().next().unwrap_or(char);
    canonical_combining_class(first) == 0 && is_nfkc_quick(std::iter::once(first)) != IsNormalized::Maybe
}
