use zk_core::service::WindowLevel;

use crate::WindowOptions;

/// Bytes per token for conversions to bytes; low, since code and other languages than English have fewer than
/// four.
const BYTES_PER_TOKEN: u64 = 3;

/// Size limits of a conversation in requests to one model. All such limits are computed here.
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
    /// Usable bytes, if the window is unknown.
    Bytes(usize),
}

impl Budget {
    /// Budget for a window of so many tokens, if known.
    #[must_use]
    pub fn new(options: &WindowOptions, window: Option<u64>) -> Self {
        let reserve = options.reserve.min(window.map_or(u64::MAX, |window| window / 4));
        let room = match window {
            Some(window) => Room::Tokens(window - reserve),
            None => Room::Bytes(options.fallback_bytes),
        };
        Self { room, reserve, soft: options.soft, hard: options.hard, keep: options.keep }
    }

    /// Maximum number of tokens of a request; `None` if the window is unknown.
    #[must_use]
    pub fn usable(&self) -> Option<u64> {
        match self.room {
            Room::Tokens(tokens) => Some(tokens),
            Room::Bytes(_) => None,
        }
    }

    /// Tokens that are reserved for the answer.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Threshold that a request with `tokens`, and `bytes` of messages, exceeds.
    #[must_use]
    pub fn level(&self, tokens: u64, bytes: usize) -> WindowLevel {
        let part = self.used_fraction(tokens, bytes);
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
        self.used_fraction(tokens, bytes) >= 1.0
    }

    fn used_fraction(&self, tokens: u64, bytes: usize) -> f64 {
        match self.room {
            Room::Tokens(usable) => tokens as f64 / usable.max(1) as f64,
            Room::Bytes(usable) => bytes as f64 / usable.max(1) as f64,
        }
    }

    /// Target of a compaction, in bytes of messages: half of the current bytes, or half of the window if that
    /// is less. Without a known window, half of its fallback in bytes.
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

    /// Bytes of the newest messages that are kept unchanged, given the target.
    #[must_use]
    pub fn keep(&self, target: usize) -> usize {
        let keep = self.usable().map_or(self.keep, |usable| self.keep.min(usable / 4));
        usize::try_from(keep.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX).min(target / 2)
    }
}
