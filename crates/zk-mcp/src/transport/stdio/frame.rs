/// Size limit of a message in bytes, which bounds the memory.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Splits bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
}

/// A message exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Frames {
    /// Returns the lines that `bytes` complete, without their ends.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut lines = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.rest.len() + part.len() > MAX_MESSAGE_BYTES {
                self.rest = Vec::new();
                return Err(TooLong);
            }
            self.rest.extend_from_slice(part);
            if parts.peek().is_some() {
                lines.push(std::mem::take(&mut self.rest));
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let text = b"{\"a\":1}\n{\"b\":2}\r\n\n{\"c\":3}\n{\"d\"";
        for size in 1..text.len() {
            let mut frames = Frames::default();
            let lines: Vec<Vec<u8>> =
                text.chunks(size).flat_map(|chunk| frames.feed(chunk).unwrap()).collect();
            assert_eq!(lines, [&b"{\"a\":1}"[..], b"{\"b\":2}\r", b"", b"{\"c\":3}"], "{size}");
        }
    }

    #[test]
    fn a_message_that_does_not_end_is_not_held() {
        let mut frames = Frames::default();
        let piece = vec![b'x'; 1 << 20];
        let fed = (0..100).find_map(|_| frames.feed(&piece).err());
        assert_eq!(fed, Some(TooLong));
        assert!(frames.rest.capacity() == 0);
    }
}
