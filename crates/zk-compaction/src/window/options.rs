use std::time::Duration;

use serde::Deserialize;

/// Thresholds at which the owner of the context window makes a conversation smaller:
/// `[plugins.context-window]` in settings.
///
/// Thresholds are parts of the usable window: the model's window without the reserve for its answer. Where the window is
/// not known, they are parts of `fallback_bytes`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowOptions {
    /// Tokens kept free for the answer: 16,384, and at most a quarter of the window.
    pub reserve: u64,
    /// Part of the window from which on what was prepared is applied: 0.6.
    pub soft: f64,
    /// Part of the window from which on the conversation is compacted: 0.9.
    pub hard: f64,
    /// Most bytes that may be sent to a model whose window is not known: 400,000.
    pub fallback_bytes: usize,
    /// Turns after a compaction in which only an overflow or a person brings the next one: 2.
    pub cooldown: u32,
    /// The part that a compaction has to free: 0.2.
    pub least_freed: f64,
    /// Tokens of the newest messages that stay as they are: 20,000, and at most a quarter of the usable window.
    pub keep: u64,
    /// Seconds that a strategy may take to compact: 120.
    pub seconds: u64,
    /// Whether the model can look up what was left out, with the tool `conversation_recall`.
    pub recall: bool,
    /// Whether long conversations are counted by a tokenizer, which takes about 26 MB, and not by their bytes.
    pub tokenizer: bool,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self {
            reserve: 16_384,
            soft: 0.6,
            hard: 0.9,
            fallback_bytes: 400_000,
            cooldown: 2,
            least_freed: 0.2,
            keep: 20_000,
            seconds: 120,
            recall: true,
            tokenizer: true,
        }
    }
}

/// Settings of the context window that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings of the context window are not possible: {0}")]
pub struct WindowOptionsError(String);

impl WindowOptions {
    /// # Errors
    /// [`WindowOptionsError`] when a value is out of its range, or thresholds are in the wrong order.
    pub fn check(&self) -> Result<(), WindowOptionsError> {
        let part = |name: &str, value: f64| {
            let possible = value > 0.0 && value <= 1.0;
            if possible {
                Ok(())
            } else {
                Err(format!("`{name}` must be above 0 and at most 1, not {value}"))
            }
        };
        let checked = part("soft", self.soft)
            .and_then(|()| part("hard", self.hard))
            .and_then(|()| part("least_freed", self.least_freed))
            .and_then(|()| {
                if self.soft > self.hard {
                    return Err(format!("`soft` ({}) must not exceed `hard` ({})", self.soft, self.hard));
                }
                let positive = [("seconds", self.seconds), ("fallback_bytes", self.fallback_bytes as u64)];
                positive
                    .iter()
                    .find(|(_, value)| *value == 0)
                    .map_or(Ok(()), |(name, _)| Err(format!("`{name}` must be at least 1")))
            });
        checked.map_err(WindowOptionsError)
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}
