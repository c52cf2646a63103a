/// Size limit of a message in bytes, which bounds the memory.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Splits bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
}

/// Error of a line above the size limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Frames {
    /// Returns the lines that `bytes` complete, without their ends and without blank ones.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + piece.len() > MAX_MESSAGE_BYTES {
                self.rest = Vec::new();
                return Err(TooLong);
            }
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                let line = line.trim_ascii();
                if !line.is_empty() {
                    lines.push(line.to_vec());
                }
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_whole_however_their_bytes_are_cut(
            texts in proptest::collection::vec("[a-z{}\":]{1,12}", 1..8),
            sizes in proptest::collection::vec(1_usize..9, 1..40),
        ) {
            let bytes = texts.iter().map(|text| format!("{text}\r\n")).collect::<String>().into_bytes();
            let (mut frames, mut found, mut left) = (Frames::default(), Vec::new(), bytes.as_slice());
            for size in sizes.iter().cycle() {
                let (piece, rest) = left.split_at((*size).min(left.len()));
                found.extend(frames.feed(piece).unwrap());
                left = rest;
                if left.is_empty() {
                    break;
                }
            }
            let found: Vec<String> = found.into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
            prop_assert_eq!(found, texts);
        }
    }

    #[test]
    fn a_message_without_an_end_is_not_held() {
        let mut frames = Frames::default();
        let piece = vec![b'x'; 1 << 20];
        assert_eq!((0..40).find_map(|_| frames.feed(&piece).err()), Some(TooLong));
        assert_eq!(frames.rest.capacity(), 0);
    }
}
