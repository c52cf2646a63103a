/// Longest line in either direction, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 8 << 20;

/// Splits a stream of bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

/// Line above [`MAX_LINE_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    /// Adds bytes; returns the lines that they complete, without their ends and without blank ones.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut whole = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.0.len() + part.len() > MAX_LINE_BYTES {
                self.0 = Vec::new();
                return Err(TooLong);
            }
            self.0.extend_from_slice(part);
            if parts.peek().is_some() {
                whole.push(std::mem::take(&mut self.0));
            }
        }
        whole.retain(|line| !line.iter().all(u8::is_ascii_whitespace));
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_without_an_end_is_given_up_and_not_held() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let fed = (0..100).find_map(|_| lines.feed(&piece).err());
        assert_eq!(fed, Some(TooLong));
        assert_eq!(lines.0.capacity(), 0);
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_are_cut(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let whole = Lines::default().feed(&bytes).unwrap_or_default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut lines = Lines::default();
            let pieces = cuts.windows(2).flat_map(|cut| lines.feed(&bytes[cut[0]..cut[1]]).unwrap_or_default());
            prop_assert_eq!(pieces.collect::<Vec<_>>(), whole);
        }
    }
}
