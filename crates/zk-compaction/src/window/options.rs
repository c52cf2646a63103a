use std::time::Duration;

use serde::Deserialize;

/// Options of the context window's owner: `[plugins.context-window]` in settings.
///
/// Thresholds are fractions of the usable window, which is the model's window without the reserve for the
/// answer. If the window is unknown, they are fractions of `fallback_bytes`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowOptions {
    /// Tokens reserved for the answer: 16,384 by default, and at most a quarter of the window.
    pub reserve: u64,
    /// Fraction of the window from which on prepared plans are applied; 0.6 by default.
    pub soft: f64,
    /// Fraction of the window from which on the conversation is compacted; 0.9 by default.
    pub hard: f64,
    /// Maximum number of bytes in a request to a model with an unknown window; 400,000 by default.
    pub fallback_bytes: usize,
    /// Turns after a compaction in which thresholds are ignored; 2 by default.
    pub cooldown: u32,
    /// Fraction that a compaction has to free to count as successful; 0.2 by default.
    pub least_freed: f64,
    /// Tokens of the newest messages that are kept unchanged: 20,000 by default, and at most a quarter of the
    /// usable window.
    pub keep: u64,
    /// Time limit of a strategy's compaction, in seconds; 120 by default.
    pub seconds: u64,
    /// Whether the model can look up omitted messages with the tool `conversation_recall`.
    pub recall: bool,
    /// Whether the model can ask for a compaction with the tool `request_compaction`; off by default.
    pub request: bool,
    /// Whether long conversations are counted with a tokenizer, which takes about 26 MB, and not by bytes.
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
            request: false,
            tokenizer: true,
        }
    }
}

/// Invalid option of the context window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings of the context window are not possible: {0}")]
pub struct WindowOptionsError(String);

impl WindowOptions {
    /// # Errors
    /// [`WindowOptionsError`] when a value is out of range, or the thresholds are in the wrong order.
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
