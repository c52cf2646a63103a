use std::ops::Range;

/// A text as tolerant matching sees it: line ends are LF, white space before them is gone, typographic
/// quotes, dashes and spaces are plain. Every byte knows where it comes from.
#[derive(Debug, Default)]
pub(super) struct Normal {
    pub(super) bytes: Vec<u8>,
    from: Vec<Range<u32>>,
    /// Whether white space was dropped at the very end.
    pub(super) trimmed: bool,
}

impl Normal {
    /// Of a text below 4 GB.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut this = Self { bytes: Vec::with_capacity(text.len()), ..Self::default() };
        let mut at = 0_usize;
        for chunk in text.utf8_chunks() {
            for char in chunk.valid().chars() {
                this.push_char(char, at);
                at += char.len_utf8();
            }
            for byte in chunk.invalid() {
                this.push(*byte, at..at + 1);
                at += 1;
            }
        }
        this.trimmed = this.drop_space();
        this
    }

    fn push_char(&mut self, char: char, at: usize) {
        let from = at..at + char.len_utf8();
        match char {
            '\n' => {
                let after_cr = self.bytes.last() == Some(&b'\r');
                self.drop_space();
                // The CR of a CR LF belongs to the line end.
                self.push(b'\n', if after_cr { from.start - 1..from.end } else { from });
            }
            '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => self.push(b'\'', from),
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => self.push(b'"', from),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => self.push(b'-', from),
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
                self.push(b' ', from)
            }
            other => {
                let mut buffer = [0_u8; 4];
                for byte in other.encode_utf8(&mut buffer).bytes() {
                    self.push(byte, from.clone());
                }
            }
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

    /// Where the byte at `index` begins in the text.
    pub(super) fn start(&self, index: usize) -> Option<usize> {
        self.from.get(index).map(|from| from.start as usize)
    }

    /// Where the byte at `index` ends in the text.
    pub(super) fn end(&self, index: usize) -> Option<usize> {
        self.from.get(index).map(|from| from.end as usize)
    }

    /// How many bytes come from the first `len` bytes of the text.
    pub(super) fn count_before(&self, len: usize) -> usize {
        self.from.partition_point(|from| (from.end as usize) <= len)
    }
}
