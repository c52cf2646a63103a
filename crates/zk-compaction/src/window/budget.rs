use zk_core::service::WindowLevel;

use crate::WindowOptions;

/// The bytes that a token is taken for where a size has to be given in bytes: few, as code and other languages than
/// English have fewer in one.
const BYTES_PER_TOKEN: u64 = 3;

/// Room for a conversation in the requests to one model: the only place where that is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    room: Room,
    reserve: u64,
    soft: f64,
    hard: f64,
    keep: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Room {
    /// Usable tokens.
    Tokens(u64),
    /// The window is not known.
    Bytes(usize),
}

impl Budget {
    /// The budget for a window of so many tokens, if known.
    #[must_use]
    pub fn new(options: &WindowOptions, window: Option<u64>) -> Self {
        let reserve = options.reserve.min(window.map_or(u64::MAX, |window| window / 4));
        let room = match window {
            Some(window) => Room::Tokens(window - reserve),
            None => Room::Bytes(options.fallback_bytes),
        };
        Self { room, reserve, soft: options.soft, hard: options.hard, keep: options.keep }
    }

    /// Tokens that a request may have; nothing where the window is not known.
    #[must_use]
    pub fn usable(&self) -> Option<u64> {
        match self.room {
            Room::Tokens(tokens) => Some(tokens),
            Room::Bytes(_) => None,
        }
    }

    /// Tokens that are kept free for the answer.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Returns which thresholds a request of `tokens` exceeds, whose messages have `bytes`.
    #[must_use]
    pub fn level(&self, tokens: u64, bytes: usize) -> WindowLevel {
        let part = self.part(tokens, bytes);
        if part >= self.hard {
            WindowLevel::Hard
        } else if part >= self.soft {
            WindowLevel::Soft
        } else {
            WindowLevel::Low
        }
    }

    /// Whether a request does not fit at all.
    #[must_use]
    pub fn is_exceeded(&self, tokens: u64, bytes: usize) -> bool {
        self.part(tokens, bytes) >= 1.0
    }

    fn part(&self, tokens: u64, bytes: usize) -> f64 {
        match self.room {
            Room::Tokens(usable) => tokens as f64 / usable.max(1) as f64,
            Room::Bytes(usable) => bytes as f64 / usable.max(1) as f64,
        }
    }

    /// Returns the bytes that may be left of messages that have so many when they are compacted: half, or
    /// half of the window where that is less; where no window is known, half of the bytes that stand for it.
    #[must_use]
    pub fn target(&self, window: Option<u64>, bytes: usize) -> usize {
        let room = match self.room {
            Room::Tokens(_) => {
                let room = window.map_or(u64::MAX, |window| (window / 2).saturating_mul(BYTES_PER_TOKEN));
                usize::try_from(room).unwrap_or(usize::MAX)
            }
            Room::Bytes(usable) => usable / 2,
        };
        room.min(bytes / 2)
    }

    /// Returns the bytes of the newest messages that stay as they are, of a target of so many.
    #[must_use]
    pub fn keep(&self, target: usize) -> usize {
        let keep = self.usable().map_or(self.keep, |usable| self.keep.min(usable / 4));
        usize::try_from(keep.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX).min(target / 2)
    }
}
