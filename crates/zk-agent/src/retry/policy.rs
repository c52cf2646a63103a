use std::time::Duration;

/// How often and when a failed request is sent again.
///
/// ```
/// use std::time::Duration;
/// use zk_agent::RetryPolicy;
///
/// let patient = RetryPolicy { retries: 8, longest_wait: Duration::from_secs(600), ..RetryPolicy::default() };
/// assert_eq!(patient.base, Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent again: 3 times.
    pub retries: u32,
    /// The longest wait before the first retry, doubled for each one after it: 1 s.
    pub base: Duration,
    /// What that grows to: 30 s.
    pub cap: Duration,
    /// The shortest wait: 500 ms.
    pub floor: Duration,
    /// The longest wait a provider may ask for: 60 s. A longer one ends the request with that reason.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 3,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
            floor: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// No request is sent again.
    #[must_use]
    pub fn never() -> Self {
        Self { retries: 0, ..Self::default() }
    }

    /// The wait after the failed attempt `attempt` (from 1): what the provider asks for, else full jitter,
    /// `random` being from 0 to 1.
    pub(super) fn delay(&self, attempt: u32, asked: Option<Duration>, random: f64) -> Duration {
        if let Some(asked) = asked {
            return asked.max(self.floor);
        }
        let doubled =
            2_u32.checked_pow(attempt.saturating_sub(1)).and_then(|factor| self.base.checked_mul(factor));
        doubled.unwrap_or(self.cap).min(self.cap).mul_f64(random.clamp(0.0, 1.0)).max(self.floor)
    }
}
