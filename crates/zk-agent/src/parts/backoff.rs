use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::model::AgentError;

use crate::lock::lock;

/// Wait after a first failure. It doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// Longest wait between two attempts, also after a failure that waiting does not mend.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Exponential back-off by name (part or model): 2 s, doubled per failure, at most 60 s. Within its wait a name is not
/// tried again.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Mutex<BTreeMap<String, Failure>>);

#[derive(Clone, Debug)]
struct Failure {
    error: String,
    wait: Duration,
    until: Instant,
}

impl Backoff {
    /// Returns the error of the last failure of `name` during its wait.
    pub(crate) fn present(&self, name: &str) -> Option<String> {
        let failures = lock(&self.0);
        failures.get(name).filter(|failure| Instant::now() < failure.until).map(|known| known.error.clone())
    }

    /// Records a failure of `name`.
    pub(crate) fn fail(&self, name: &str, error: &AgentError) {
        let now = Instant::now();
        let mut failures = lock(&self.0);
        // A failure long after the one before is a first one again.
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

    /// Forgets the failures of `name`.
    pub(crate) fn succeed(&self, name: &str) {
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
    async fn waits_double_up_to_a_minute_and_begin_anew_after_a_success_or_a_pause() {
        let backoff = Backoff::default();
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            backoff.fail("p", &failure(ErrorKind::Transport));
            tokio::time::advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
            assert!(backoff.present("p").is_some() && backoff.present("q").is_none(), "{seconds}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(backoff.present("p").is_none(), "{seconds}");
        }
        backoff.succeed("p");
        backoff.fail("p", &failure(ErrorKind::Overloaded));
        tokio::time::advance(FIRST_WAIT).await;
        assert!(backoff.present("p").is_none());
        tokio::time::advance(MAX_WAIT).await;
        backoff.fail("p", &failure(ErrorKind::Overloaded));
        tokio::time::advance(FIRST_WAIT).await;
        assert!(backoff.present("p").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_waiting_does_not_mend_waits_longest_and_the_provider_may_ask_for_more() {
        let backoff = Backoff::default();
        backoff.fail("key", &failure(ErrorKind::Auth));
        let error = ProviderError::new(ErrorKind::Rate, "p", "m", Phase::Response, "slow down");
        let asked = ProviderError { retry_after: Some(Duration::from_secs(20)), ..error };
        backoff.fail("asked", &asked.into());
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(backoff.present("asked").is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(backoff.present("asked").is_none() && backoff.present("key").is_some());
    }
}
