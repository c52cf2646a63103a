use std::time::SystemTime;

use zk_core::service::FileStat;

/// Size in bytes above which files are compared by size and date instead of content, and cannot be edited.
pub(crate) const HASHED_UP_TO: u64 = 64 * 1024 * 1024;

/// Fingerprint of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    /// Fingerprint of the bytes.
    Content {
        /// Hash of the bytes.
        hash: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Fingerprint of a large file by its metadata.
    Stamp {
        /// Size of the file, in bytes.
        len: u64,
        /// Time of the last modification.
        modified: Option<SystemTime>,
    },
}

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hasher = ContentHasher::default();
        hasher.add(bytes);
        hasher.finish()
    }

    pub(crate) fn of_stat(stat: &FileStat) -> Self {
        Self::Stamp { len: stat.len, modified: stat.modified }
    }
}

/// Bytes that are hashed in one step: a word for each lane.
const BLOCK: usize = 32;

/// Odd factors with about as many ones as zeros.
const FACTORS: [u64; 2] = [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f];

/// Computes the fingerprint of a content in pieces.
///
/// Four lanes for speed, since files of ten megabytes are hashed before and after an edit. It detects
/// accidental differences only; a collision on purpose would gain nothing.
#[derive(Clone, Debug)]
pub(crate) struct ContentHasher {
    lanes: [u64; 4],
    /// Buffered bytes, fewer than one step.
    rest: [u8; BLOCK],
    len: u64,
}

impl Default for ContentHasher {
    fn default() -> Self {
        let [one, other] = FACTORS;
        Self { lanes: [one, other, !one, !other], rest: [0; BLOCK], len: 0 }
    }
}

impl ContentHasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let held = (self.len % BLOCK as u64) as usize;
        self.len += bytes.len() as u64;
        let mut bytes = bytes;
        if held > 0 {
            let (fill, after) = bytes.split_at(bytes.len().min(BLOCK - held));
            self.buffer(held, fill);
            if held + fill.len() < BLOCK {
                return;
            }
            let rest = self.rest;
            self.mix_block(&rest);
            bytes = after;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            self.mix_block(block);
        }
        self.buffer(0, rest);
    }

    pub(crate) fn finish(&self) -> Fingerprint {
        let mut last = self.clone();
        let held = (self.len % BLOCK as u64) as usize;
        if let Some(unused) = last.rest.get_mut(held..) {
            unused.fill(0);
        }
        let rest = last.rest;
        last.mix_block(&rest);
        let hash = last.lanes.iter().fold(self.len, |hash, lane| mixed(hash ^ mixed(*lane)));
        Fingerprint::Content { hash, len: self.len }
    }

    fn buffer(&mut self, from: usize, bytes: &[u8]) {
        if let Some(place) = self.rest.get_mut(from..from + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn mix_block(&mut self, block: &[u8; BLOCK]) {
        let [one, other] = FACTORS;
        for (lane, word) in self.lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            let word = u64::from_le_bytes(*word).wrapping_mul(other);
            *lane = lane.wrapping_add(word).rotate_left(31).wrapping_mul(one);
        }
    }
}

/// Final mix of a hash: each input bit affects all output bits.
fn mixed(mut word: u64) -> u64 {
    for factor in FACTORS {
        word = (word ^ (word >> 32)).wrapping_mul(factor);
    }
    word ^ (word >> 29)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pieces_of_any_size_have_the_fingerprint_of_the_whole() {
        let bytes: Vec<u8> = (0..4_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for size in [1, 3, 31, 32, 33, 64, 100, 3_999] {
            let mut hasher = ContentHasher::default();
            bytes.chunks(size).for_each(|piece| hasher.add(piece));
            assert_eq!(hasher.finish(), Fingerprint::of(&bytes), "{size}");
        }
    }

    #[test]
    fn contents_that_differ_in_one_bit_in_two_words_that_changed_places_or_in_zeros_at_the_end_are_told_apart()
     {
        let text: Vec<u8> = (0..512_u32).map(|n| (n % 97) as u8).collect();
        let mut seen = HashSet::new();
        let mut note = |bytes: &[u8]| {
            let Fingerprint::Content { hash, .. } = Fingerprint::of(bytes) else { panic!("no content") };
            assert!(seen.insert(hash), "{bytes:?}");
        };
        note(&text);
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            note(&changed);
        }
        for at in (0..text.len() - 16).step_by(8) {
            let mut changed = text.clone();
            changed[at..at + 16].rotate_left(8);
            note(&changed);
        }
        for zeros in 0..100 {
            note(&vec![0; zeros]);
        }
    }
}
