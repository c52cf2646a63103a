use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::model::AgentError;

use crate::lock::lock;

/// Wait after the first failure, which doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// Maximum wait between two attempts, which also follows failures that waiting does not fix.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Exponential back-off by name of a part or model: 2 s, doubled per failure, at most 60 s. A name is not
/// tried again during its wait.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Mutex<BTreeMap<String, Failure>>);

#[derive(Clone, Debug)]
struct Failure {
    error: String,
    wait: Duration,
    until: Instant,
}

impl Backoff {
    /// Returns the error of the last failure of `name`, if its wait is not over.
    pub(crate) fn last_error_in_wait(&self, name: &str) -> Option<String> {
        let failures = lock(&self.0);
        failures.get(name).filter(|failure| Instant::now() < failure.until).map(|known| known.error.clone())
    }

    /// Records a failure of `name`.
    pub(crate) fn record_failure(&self, name: &str, error: &AgentError) {
        let now = Instant::now();
        let mut failures = lock(&self.0);
        // A failure long after the previous one counts as a first one.
        let before = failures.get(name).filter(|before| now < before.until + MAX_WAIT).map(|one| one.wait);
        let asked = error.provider().and_then(|error| error.retry_after).unwrap_or_default();
        let wait = match (before, error.is_transient()) {
            (_, false) => MAX_WAIT,
            (None, true) => FIRST_WAIT.max(asked),
            (Some(before), true) => before.saturating_mul(2).max(asked),
        };
        let wait = wait.min(MAX_WAIT);
        failures.insert(name.to_owned(), Failure { error: error.to_string(), wait, until: now + wait });
    }

    /// Removes the failures of `name` after a success.
    pub(crate) fn record_success(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::{ErrorKind, Phase, ProviderError};

    use super::*;

    fn failure(kind: ErrorKind) -> AgentError {
        ProviderError::new(kind, "p", "m", Phase::Connect, "no").into()
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_minute_and_reset_after_a_success_or_a_pause() {
        let backoff = Backoff::default();
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            backoff.record_failure("p", &failure(ErrorKind::Transport));
            tokio::time::advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
            assert!(
                backoff.last_error_in_wait("p").is_some() && backoff.last_error_in_wait("q").is_none(),
                "{seconds}"
            );
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(backoff.last_error_in_wait("p").is_none(), "{seconds}");
        }
        backoff.record_success("p");
        backoff.record_failure("p", &failure(ErrorKind::Overloaded));
        tokio::time::advance(FIRST_WAIT).await;
        assert!(backoff.last_error_in_wait("p").is_none());
        tokio::time::advance(MAX_WAIT).await;
        backoff.record_failure("p", &failure(ErrorKind::Overloaded));
        tokio::time::advance(FIRST_WAIT).await;
        assert!(backoff.last_error_in_wait("p").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failures_wait_longest_and_providers_may_ask_for_more() {
        let backoff = Backoff::default();
        backoff.record_failure("key", &failure(ErrorKind::Auth));
        let error = ProviderError::new(ErrorKind::Rate, "p", "m", Phase::Response, "slow down");
        let asked = ProviderError { retry_after: Some(Duration::from_secs(20)), ..error };
        backoff.record_failure("asked", &asked.into());
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(backoff.last_error_in_wait("asked").is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(backoff.last_error_in_wait("asked").is_none() && backoff.last_error_in_wait("key").is_some());
    }
}
