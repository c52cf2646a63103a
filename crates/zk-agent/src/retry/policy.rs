use std::time::Duration;

/// Number and timing of retries of a failed request.
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
    /// Number of retries of a failed request: 9, so that ten attempts outlast an overload of a minute or two.
    pub retries: u32,
    /// Number of retries after a failure to connect to an endpoint that has never answered, which may have a
    /// wrong address: 3.
    pub unreached_retries: u32,
    /// Number of retries after a stream that broke off, even after its first delta: 5 per turn.
    pub resends: u32,
    /// Longest wait before the first retry, doubled for each further one: 1 s.
    pub base: Duration,
    /// Upper limit of the doubled wait: 30 s.
    pub cap: Duration,
    /// Lower limit of every wait: 500 ms.
    pub floor: Duration,
    /// Longest wait that a provider may ask for: 60 s. A longer one ends the request with an error that says
    /// so.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 9,
            unreached_retries: 3,
            resends: 5,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
            floor: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// Returns a policy without retries.
    #[must_use]
    pub fn never() -> Self {
        Self { retries: 0, ..Self::default() }
    }

    /// Returns the wait after the failed attempt `attempt` (from 1): as long as the provider asks for, or
    /// else the doubled wait shortened by up to half by `random` (from 0 to 1).
    pub(super) fn delay(&self, attempt: u32, asked: Option<Duration>, random: f64) -> Duration {
        if let Some(asked) = asked {
            return asked.max(self.floor);
        }
        let doubled =
            2_u32.checked_pow(attempt.saturating_sub(1)).and_then(|factor| self.base.checked_mul(factor));
        let share = f64::midpoint(1.0, random.clamp(0.0, 1.0));
        doubled.unwrap_or(self.cap).min(self.cap).mul_f64(share).max(self.floor)
    }
}
