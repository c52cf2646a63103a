/// Decodes UTF-8 in pieces: a character split between two pieces stays whole.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
}

impl Utf8Decoder {
    /// Decodes the next bytes; returns the complete text. Invalid bytes become `U+FFFD`.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let incomplete = incomplete_end(&self.partial);
        let rest = self.partial.split_off(self.partial.len() - incomplete);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// Returns the incomplete rest at the end of the input.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.partial).into_owned()
    }
}

/// Number of bytes at the end that may start a character.
fn incomplete_end(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    let whole = match last.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        Some(_) | None => 0,
    };
    if last.len() < whole && bytes.ends_with(last) { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_split_between_reads_stays_whole() {
        let text = "aé漢🙂\u{0}z";
        for size in 1..6 {
            let mut decoder = Utf8Decoder::default();
            let mut out: String = text.as_bytes().chunks(size).map(|piece| decoder.push(piece)).collect();
            out += &decoder.finish();
            assert_eq!(out, text, "pieces of {size}");
        }
    }

    #[test]
    fn invalid_bytes_are_replaced_at_once() {
        let mut decoder = Utf8Decoder::default();
        assert_eq!(decoder.push(b"a\xffb\xe6\xbc"), "a\u{fffd}b");
        assert_eq!(decoder.push(b"x"), "\u{fffd}x");
        assert_eq!(decoder.push(b"\xc3"), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
    }
}
