/// Size limit of the kept beginning, and of the kept end, of a command's output, in bytes.
const MAX_END_BYTES: usize = 64 * 1024;

/// Beginning and end of a command's output, in bounded memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capture {
    head: Vec<u8>,
    /// Ring buffer of the last bytes after `head`.
    tail: Vec<u8>,
    /// Position of the oldest byte in a full ring buffer.
    at: usize,
    total: u64,
}

impl Capture {
    /// Adds output of the command.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = MAX_END_BYTES - self.head.len();
        let (head, mut rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        if rest.len() > MAX_END_BYTES {
            rest = rest.get(rest.len() - MAX_END_BYTES..).unwrap_or_default();
        }
        let room = MAX_END_BYTES - self.tail.len();
        let (fresh, over) = rest.split_at(room.min(rest.len()));
        self.tail.extend_from_slice(fresh);
        let mut over = over;
        while !over.is_empty() {
            let (part, behind) = over.split_at(over.len().min(MAX_END_BYTES - self.at));
            if let Some(place) = self.tail.get_mut(self.at..self.at + part.len()) {
                place.copy_from_slice(part);
            }
            self.at = (self.at + part.len()) % MAX_END_BYTES;
            over = behind;
        }
    }

    /// Kept beginning and kept end of the output, without an overlap.
    pub(crate) fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        let (newer, older) = self.tail.split_at(self.at.min(self.tail.len()));
        (self.head.clone(), [older, newer].concat())
    }

    /// Number of bytes that were dropped: those between the beginning and the end, or all.
    pub(crate) fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Drops the kept output, which counts as dropped from now on.
    pub(crate) fn clear(&mut self) {
        *self = Self { total: self.total, ..Self::default() };
    }

    /// Size of the kept output, in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_the_output_stay_in_order_however_it_comes() {
        let output: Vec<u8> = (0..400_000_u32).flat_map(|n| format!("{n};").into_bytes()).collect();
        for size in [1, 7, 4096, 65_536, 65_537, 200_000, output.len()] {
            let mut capture = Capture::default();
            output.chunks(size).for_each(|chunk| capture.push(chunk));
            let (head, tail) = capture.parts();
            assert_eq!(head, &output[..MAX_END_BYTES], "{size}");
            assert_eq!(tail, &output[output.len() - MAX_END_BYTES..], "{size}");
            assert_eq!(capture.dropped(), (output.len() - 2 * MAX_END_BYTES) as u64);
        }
        let mut short = Capture::default();
        short.push(b"one");
        assert_eq!((short.parts(), short.dropped()), ((b"one".to_vec(), Vec::new()), 0));
    }
}
