//! Promises that hold whatever bytes arrive, and however they are cut. The fuzz targets and the test that
//! reads their corpus share them.

mod args;
mod sse;
mod stream;

use zk_providers::Replay;

/// Checks that `target` keeps its promises about `bytes`, whole and in pieces.
pub(crate) fn check(target: &str, bytes: &[u8], cuts: Cuts) {
    match target {
        "anthropic" => stream::check(Replay::anthropic, stream::Voids::Blocks, bytes, cuts),
        "args" => args::check(bytes, cuts),
        "chat" => stream::check(Replay::chat, stream::Voids::Nothing, bytes, cuts),
        "gemini" => stream::check(Replay::gemini, stream::Voids::Nothing, bytes, cuts),
        "ollama" => stream::check(Replay::ollama, stream::Voids::Nothing, bytes, cuts),
        "responses" => stream::check(Replay::responses, stream::Voids::Nothing, bytes, cuts),
        "sse" => sse::check(bytes, cuts),
        other => panic!("no such target: {other}"),
    }
}

/// Generator of piece lengths of a stream, by seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cuts {
    state: u64,
    longest: u64,
}

impl Cuts {
    /// Creates pieces of one byte for 0, and of up to 4, 32 or 256 bytes for any other seed.
    pub(crate) fn new(seed: u64) -> Self {
        let longest = match seed % 3 {
            _ if seed == 0 => 1,
            0 => 4,
            1 => 32,
            _ => 256,
        };
        Self { state: seed | 1, longest }
    }

    /// Cuts drawn from the bytes themselves: a fuzzer that changes them moves the cuts as well.
    pub(crate) fn drawn_from(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::new(hash >> 8)
    }

    fn next(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(1 + self.state % self.longest).unwrap_or(1)
    }

    /// The pieces of `bytes`.
    fn pieces(mut self, mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        std::iter::from_fn(move || {
            let piece = bytes.split_off(..self.next().min(bytes.len()))?;
            (!piece.is_empty()).then_some(piece)
        })
    }
}
