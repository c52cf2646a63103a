use super::{Mark, OSC_NUMBER};

/// Longest mark, in bytes; a longer one is dropped.
const MAX_MARK_BYTES: usize = 1 << 20;

/// Byte that ends a mark.
const BEL: u8 = 7;

/// Receiver of the marks in output, and of the output without them.
pub trait MarkSink {
    /// Output for the terminal, unchanged.
    fn pass(&mut self, bytes: &[u8]);

    /// A mark of this instance.
    fn mark(&mut self, mark: Mark);
}

/// Separates the marks of one instance from output, however both are split. Everything else passes unchanged:
/// marks with another nonce, and all other sequences.
///
/// ```
/// use zk_shell::{Mark, MarkScanner, MarkSink};
///
/// #[derive(Default)]
/// struct Seen(Vec<u8>, Vec<Mark>);
///
/// impl MarkSink for Seen {
///     fn pass(&mut self, bytes: &[u8]) {
///         self.0.extend_from_slice(bytes);
///     }
///     fn mark(&mut self, mark: Mark) {
///         self.1.push(mark);
///     }
/// }
///
/// let (mut scanner, mut seen) = (MarkScanner::new("k3y"), Seen::default());
/// scanner.push(b"one\x1b]7177;k3y;R", &mut seen);
/// scanner.push(b";1\x07two", &mut seen);
/// assert_eq!((&seen.0[..], &seen.1[..]), (&b"onetwo"[..], &[Mark::Ready { has_keys: true, next_entry: None }][..]));
/// ```
#[derive(Debug)]
pub struct MarkScanner {
    /// Bytes with which every mark begins.
    start: Vec<u8>,
    /// Number of bytes held back, which are the first ones of `start`.
    matched: usize,
    /// Body of a mark whose end has not come yet.
    body: Option<Vec<u8>>,
}

impl MarkScanner {
    /// Creates a scanner for the marks with this nonce.
    #[must_use]
    pub fn new(nonce: &str) -> Self {
        Self { start: format!("\u{1b}]{OSC_NUMBER};{nonce};").into_bytes(), matched: 0, body: None }
    }

    /// Scans output of any length, and passes its parts to `sink`.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl MarkSink) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = if let Some(body) = &mut self.body {
                let end = memchr::memchr(BEL, rest);
                let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
                if body.len() + part.len() <= MAX_MARK_BYTES {
                    body.extend_from_slice(part);
                } else {
                    // A mark that is too long gets a body that no script writes, so it is dropped.
                    *body = vec![0];
                }
                match behind.split_first() {
                    Some((_, behind)) => {
                        if let Some(mark) = self.body.take().and_then(|body| Mark::parse(&body)) {
                            sink.mark(mark);
                        }
                        behind
                    }
                    None => behind,
                }
            } else if self.matched > 0 {
                self.match_start(rest, sink)
            } else {
                match memchr::memchr(0x1b, rest) {
                    Some(at) => {
                        let (text, behind) = rest.split_at(at);
                        if !text.is_empty() {
                            sink.pass(text);
                        }
                        self.matched = 1;
                        behind.get(1..).unwrap_or_default()
                    }
                    None => {
                        sink.pass(rest);
                        &[]
                    }
                }
            };
        }
    }

    /// Compares the bytes with the beginning of a mark; at a difference, the bytes held back pass as output.
    fn match_start<'a>(&mut self, bytes: &'a [u8], sink: &mut impl MarkSink) -> &'a [u8] {
        let expected = self.start.get(self.matched..).unwrap_or_default();
        let same = bytes.iter().zip(expected).take_while(|(one, other)| one == other).count();
        let is_different = same < expected.len() && same < bytes.len();
        self.matched += same;
        if is_different {
            sink.pass(self.start.get(..self.matched).unwrap_or_default());
            self.matched = 0;
        } else if self.matched == self.start.len() {
            self.matched = 0;
            self.body = Some(Vec::new());
        }
        bytes.get(same..).unwrap_or_default()
    }

    /// Passes the bytes held back, at the end of the output.
    pub fn finish(&mut self, sink: &mut impl MarkSink) {
        if self.matched > 0 {
            sink.pass(self.start.get(..self.matched).unwrap_or_default());
            self.matched = 0;
        }
        self.body = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Seen {
        text: Vec<u8>,
        marks: Vec<(usize, Mark)>,
    }

    impl MarkSink for Seen {
        fn pass(&mut self, bytes: &[u8]) {
            self.text.extend_from_slice(bytes);
        }

        fn mark(&mut self, mark: Mark) {
            self.marks.push((self.text.len(), mark));
        }
    }

    fn scan(chunks: &[&[u8]]) -> Seen {
        let (mut scanner, mut seen) = (MarkScanner::new("n0nce"), Seen::default());
        chunks.iter().for_each(|chunk| scanner.push(chunk, &mut seen));
        scanner.finish(&mut seen);
        seen
    }

    #[test]
    fn every_split_gives_one_result() {
        let output = b"a\x1b[31mb\x1b]7177;n0nce;C;ls%0A-l\x07c\x1b]133;A\x07\x1b\x1b]7177;n0nce;D;3;/x\x07\x1b]717\x1b]7177;other;R;1\x07z";
        let whole = scan(&[output]);
        assert_eq!(whole.text, b"a\x1b[31mbc\x1b]133;A\x07\x1b\x1b]717\x1b]7177;other;R;1\x07z");
        assert_eq!(whole.marks.len(), 2);
        for first in 0..output.len() {
            for second in first..output.len() {
                let seen = scan(&[&output[..first], &output[first..second], &output[second..]]);
                assert_eq!((&seen.text, &seen.marks), (&whole.text, &whole.marks), "{first} {second}");
            }
        }
    }

    #[test]
    fn a_mark_of_unbounded_length_is_dropped_and_the_next_one_is_seen() {
        let long = [
            b"\x1b]7177;n0nce;C;".to_vec(),
            vec![b'a'; MAX_MARK_BYTES + 9],
            b"\x07\x1b]7177;n0nce;R;1\x07".to_vec(),
        ]
        .concat();
        let seen = scan(&[&long]);
        assert_eq!(seen.marks, [(0, Mark::Ready { has_keys: true, next_entry: None })]);
    }

    fn piece() -> impl Strategy<Value = (Vec<u8>, Option<Mark>)> {
        let text = prop::collection::vec(any::<u8>(), 0..40)
            .prop_filter("a mark of one's own", |bytes| !bytes.windows(3).any(|part| part == b"\x1b]7"))
            .prop_map(|bytes| (bytes, None));
        let forged = prop::sample::select(vec![
            &b"\x1b]7177;n0nc;R;1\x07"[..],
            b"\x1b]7177;;R;1\x07",
            b"\x1b]7177;n0ncf;R;1\x07",
            b"\x1b]633;A\x07",
            b"\x1b]717",
            b"\x1b",
            b"\x1b]7177;n0nce\x07",
        ]);
        let forged = forged.prop_map(|bytes| (bytes.to_vec(), None));
        let own = any::<u16>().prop_map(|len| {
            let mark = format!("\u{1b}]7177;n0nce;L;{len}\u{7}").into_bytes();
            (mark, Some(Mark::Line { len: len.into() }))
        });
        prop_oneof![text, forged, own]
    }

    proptest! {
        #[test]
        fn own_marks_are_found_and_all_else_passes(
            pieces in prop::collection::vec(piece(), 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let output: Vec<u8> = pieces.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            let text: Vec<u8> =
                pieces.iter().filter(|(_, mark)| mark.is_none()).flat_map(|(bytes, _)| bytes.clone()).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(output.len() + 1)).collect();
            cuts.extend([0, output.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &output[pair[0]..pair[1]]).collect();
            let seen = scan(&chunks);
            // Pieces may join to a mark by chance only if one ends within its beginning.
            prop_assume!(!joined_by_chance(&pieces));
            prop_assert_eq!(seen.text, text);
            let marks: Vec<Mark> = seen.marks.into_iter().map(|(_, mark)| mark).collect();
            prop_assert_eq!(marks, pieces.into_iter().filter_map(|(_, mark)| mark).collect::<Vec<_>>());
        }
    }

    /// Whether the end of one piece and the beginning of the next form the beginning of a mark.
    fn joined_by_chance(pieces: &[(Vec<u8>, Option<Mark>)]) -> bool {
        let output: Vec<u8> = pieces.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let count = |bytes: &[u8]| bytes.windows(13).filter(|part| *part == b"\x1b]7177;n0nce;").count();
        let own = pieces.iter().filter(|(_, mark)| mark.is_some()).count();
        count(&output) != own
    }
}
