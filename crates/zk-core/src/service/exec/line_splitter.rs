/// Splits the output of a program into lines of a bounded length.
///
/// ```
/// use zk_core::service::LineSplitter;
///
/// let mut lines = LineSplitter::new(100);
/// assert_eq!(lines.feed(b"{}\n\n[1"), Ok(vec![b"{}".to_vec()]));
/// assert_eq!(lines.feed(b"]\n"), Ok(vec![b"[1]".to_vec()]));
/// ```
#[derive(Clone, Debug)]
pub struct LineSplitter {
    max_bytes: usize,
    /// Beginning of a line whose end has not arrived yet.
    rest: Vec<u8>,
}

/// Line above the limit of a [`LineSplitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line has more than {max_bytes} bytes")]
pub struct LineTooLong {
    /// Maximum length of a line in bytes.
    pub max_bytes: usize,
}

impl LineSplitter {
    /// Creates a splitter for lines of at most `max_bytes`, which also bounds its memory.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, rest: Vec::new() }
    }

    /// Adds bytes; returns the lines that they complete, without their ends and without blank ones.
    ///
    /// # Errors
    /// [`LineTooLong`]; the begun line is dropped then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        let mut whole = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.rest.len() + part.len() > self.max_bytes {
                self.rest = Vec::new();
                return Err(LineTooLong { max_bytes: self.max_bytes });
            }
            self.rest.extend_from_slice(part);
            if parts.peek().is_some() {
                whole.push(std::mem::take(&mut self.rest));
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
    fn an_endless_line_is_an_error_and_frees_its_memory() {
        let mut lines = LineSplitter::new(8 << 20);
        let piece = vec![b'x'; 1 << 20];
        let fed = (0..100).find_map(|_| lines.feed(&piece).err());
        assert_eq!(fed, Some(LineTooLong { max_bytes: 8 << 20 }));
        assert_eq!(lines.rest.capacity(), 0);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_the_boundaries_of_pieces(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let whole = LineSplitter::new(1000).feed(&bytes).unwrap();
            let expected: Vec<Vec<u8>> = match bytes.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => bytes[..end]
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.trim_ascii().is_empty())
                    .map(<[u8]>::to_vec)
                    .collect(),
                None => Vec::new(),
            };
            prop_assert_eq!(&whole, &expected);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut lines = LineSplitter::new(1000);
            let pieces = cuts.windows(2).flat_map(|cut| lines.feed(&bytes[cut[0]..cut[1]]).unwrap());
            prop_assert_eq!(pieces.collect::<Vec<_>>(), whole);
        }
    }
}
