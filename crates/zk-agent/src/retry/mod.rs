//! Retries of failed requests, as a decorator for any provider.

mod limit;
mod policy;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;
use zk_core::events::ProviderRetry;
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, Model, Phase, ProviderError, WireRules};
use zk_core::service::{EventStream, Provider, Request, RetryNotice, StreamEvent};

use limit::{Entry, Limit, Probe, Waiting};

pub use limit::RateLimits;
pub use policy::RetryPolicy;

/// A provider that retries failed requests of another. If a part of an answer was already streamed, the
/// notice says that it must be discarded ([`RetryNotice::discards`]), because the answer begins anew.
///
/// An agent wraps its provider in one unless it retries already; create one by hand for another policy or for
/// shared limits. All users of one `Retrying` share its limit: after a rate-limit error all requests wait,
/// and one of them probes first. [`RateLimits`] share a limit between several `Retrying`.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_agent::{RetryPolicy, Retrying};
/// use zk_core::service::Provider;
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let provider = Arc::new(ScriptedProvider::new(Script::new()));
/// let patient = Retrying::new(provider, RetryPolicy { retries: 8, ..RetryPolicy::default() });
/// assert!(patient.is_retrying());
/// ```
#[derive(Clone)]
pub struct Retrying {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
    limit: Arc<Limit>,
}

impl fmt::Debug for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying")
            .field("provider", &self.inner.name())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl Retrying {
    /// Wraps `inner` with `policy` and a limit of its own.
    #[must_use]
    pub fn new(inner: Arc<dyn Provider>, policy: RetryPolicy) -> Self {
        Self { inner, policy, limit: Arc::default() }
    }

    /// Wraps `inner` with `policy` and the limit that `limits` has for its endpoint and key.
    #[must_use]
    pub fn sharing(limits: &RateLimits, inner: Arc<dyn Provider>, policy: RetryPolicy) -> Self {
        let limit = limits.of(&*inner);
        Self { inner, policy, limit }
    }

    /// Wraps `inner` with `policy`; returns it unwrapped if it retries by itself or `policy` has no retries.
    #[must_use]
    pub fn unless_retrying(
        limits: &RateLimits,
        inner: Arc<dyn Provider>,
        policy: &RetryPolicy,
    ) -> Arc<dyn Provider> {
        if policy.retries == 0 || inner.is_retrying() {
            return inner;
        }
        Arc::new(Self::sharing(limits, inner, policy.clone()))
    }

    /// Skips waits like [`RateLimits::skip_waits`], for the requests that share this provider's limit.
    pub fn skip_waits(&self) -> bool {
        self.limit.skip_wait()
    }
}

impl Provider for Retrying {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn is_retrying(&self) -> bool {
        true
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let attempts = Attempts {
            provider: self.clone(),
            request,
            cx: cx.clone(),
            began: Instant::now(),
            attempt: 0,
            step: Step::Begin,
            held: None,
            told: None,
            delivered: false,
            broken: 0,
        };
        Box::pin(stream::unfold(Box::new(attempts), |mut attempts| async move {
            let item = attempts.next().await?;
            Some((item, attempts))
        }))
    }
}

/// State of one request over all its attempts.
struct Attempts {
    provider: Retrying,
    request: Request,
    cx: Cx,
    began: Instant,
    /// Number of the current attempt, from 1.
    attempt: u32,
    step: Step,
    /// Guard of a wait for the shared limit that the caller was told of.
    held: Option<Waiting>,
    /// End of the wait, as the caller was told it.
    told: Option<Instant>,
    /// Whether a part of the present attempt's answer was passed to the caller.
    delivered: bool,
    /// Number of answers that broke off.
    broken: u32,
}

enum Step {
    Begin,
    Run { stream: EventStream, probe: Option<Probe> },
    Wait { until: Instant, wait: Waiting },
    Over,
}

impl Attempts {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            match &mut self.step {
                Step::Over => return None,
                Step::Wait { until, wait } => {
                    tokio::select! {
                        biased;
                        () = self.cx.stop_token().cancelled() => return Some(Err(self.stopped_error())),
                        () = wait.wait_until(*until) => {}
                    }
                    self.step = Step::Begin;
                }
                Step::Begin => {
                    let entry = tokio::select! {
                        biased;
                        () = self.cx.stop_token().cancelled() => return Some(Err(self.stopped_error())),
                        entry = self.provider.limit.wait_to_send(self.told) => entry,
                    };
                    let probe = match entry {
                        Entry::Go(probe) => probe,
                        Entry::Held(until) => {
                            self.held = Some(self.provider.limit.begin_wait());
                            return Some(Ok(self.announce_retry(self.held_back(until), until).await));
                        }
                    };
                    self.held = None;
                    self.attempt += 1;
                    let stream = self.provider.inner.stream(self.request.clone(), &self.cx);
                    self.step = Step::Run { stream, probe };
                }
                Step::Run { stream, probe } => match stream.next().await {
                    Some(Ok(event)) => {
                        if let Some(probe) = probe.take() {
                            probe.open_limit();
                        }
                        if !self.delivered && is_answer(&event) {
                            self.delivered = true;
                            self.provider.limit.record_reached();
                        }
                        return Some(Ok(event));
                    }
                    Some(Err(error)) => match self.decide_retry(error) {
                        Ok((notice, until)) => {
                            // Replacing the step drops the failed attempt with its probe, so that another
                            // request can probe during this wait.
                            self.step = Step::Wait { until, wait: self.provider.limit.begin_wait() };
                            return Some(Ok(self.announce_retry(notice, until).await));
                        }
                        Err(error) => {
                            self.step = Step::Over;
                            return Some(Err(error));
                        }
                    },
                    None => {
                        self.step = Step::Over;
                        return None;
                    }
                },
            }
        }
    }

    /// Decides whether a failed attempt is retried, and when.
    fn decide_retry(&mut self, mut error: ProviderError) -> Result<(RetryNotice, Instant), ProviderError> {
        if self.attempt > 1 {
            error.attempts = self.attempt;
            error.elapsed = self.began.elapsed();
        }
        if !matches!(error.phase, Phase::Request | Phase::Connect) {
            self.provider.limit.record_reached();
        }
        let never = matches!(error.kind, ErrorKind::ContextExceeded | ErrorKind::Aborted);
        if never || !error.is_retryable() {
            return Err(error);
        }
        let policy = &self.provider.policy;
        if let Some(asked) = error.retry_after.filter(|asked| *asked > policy.longest_wait) {
            let hint = format!(
                "The provider asks to wait {} s, longer than the {} s this program waits: try again then",
                asked.as_secs(),
                policy.longest_wait.as_secs()
            );
            error.hint = Some(hint);
            return Err(error);
        }
        let retries = self.max_retries(&error);
        self.broken += u32::from(self.is_broken(&error));
        if self.attempt > retries {
            return Err(error);
        }
        let delay = policy.delay(self.attempt, error.retry_after, fastrand::f64());
        let until = Instant::now() + delay;
        if error.kind == ErrorKind::Rate {
            self.provider.limit.hold_until(until);
        }
        let discards = std::mem::take(&mut self.delivered);
        let notice = self.new_notice(delay, retries, error.kind, error.message);
        Ok((RetryNotice { discards, ..notice }, until))
    }

    /// Whether the failed attempt had already delivered a part of its answer.
    fn is_broken(&self, error: &ProviderError) -> bool {
        let is_cut = matches!(error.kind, ErrorKind::Transport | ErrorKind::Malformed);
        self.delivered || (is_cut && matches!(error.phase, Phase::FirstEvent | Phase::Stream))
    }

    /// Returns the number of retries for a request that failed with `error`.
    fn max_retries(&self, error: &ProviderError) -> u32 {
        let Retrying { policy, limit, .. } = &self.provider;
        let may_be_misnamed = error.phase == Phase::Connect && !limit.was_reached();
        match () {
            () if self.is_broken(error) => {
                let left = policy.resends.saturating_sub(self.broken);
                policy.retries.min(self.attempt.saturating_add(left).saturating_sub(1))
            }
            () if may_be_misnamed => policy.retries.min(policy.unreached_retries),
            () => policy.retries,
        }
    }

    /// Creates the notice that the shared limit delays this request.
    fn held_back(&self, until: Instant) -> RetryNotice {
        let message = "another request met the rate limit that this one shares";
        let (wait, retries) = (until.saturating_duration_since(Instant::now()), self.provider.policy.retries);
        self.new_notice(wait, retries, ErrorKind::Rate, message.to_owned())
    }

    fn new_notice(&self, delay: Duration, retries: u32, kind: ErrorKind, message: String) -> RetryNotice {
        let max_attempts = retries.saturating_add(1);
        RetryNotice { attempt: self.attempt, max_attempts, delay, kind, message, discards: false }
    }

    async fn announce_retry(&mut self, retry: RetryNotice, until: Instant) -> StreamEvent {
        self.told = Some(until);
        let model = self.request.model.reference();
        // A failing observer does not prevent the retry, and a stopped run ends the wait.
        let _ = self.cx.emit_with(|| ProviderRetry { model, retry: retry.clone() }).await;
        StreamEvent::Retry(retry)
    }

    fn stopped_error(&mut self) -> ProviderError {
        self.step = Step::Over;
        let model = &self.request.model;
        let message = "the run was stopped";
        ProviderError::new(ErrorKind::Aborted, &*model.provider, &*model.id, Phase::Request, message)
    }
}

/// Whether an event is part of an answer. The start of a response and its token count are not, because a
/// retry replaces them.
fn is_answer(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::Start { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::Report(_)
        | StreamEvent::Retry(_) => false,
        StreamEvent::Text { .. }
        | StreamEvent::Thinking { .. }
        | StreamEvent::ToolCall { .. }
        | StreamEvent::ToolArgs { .. }
        | StreamEvent::Block { .. }
        | StreamEvent::Done { .. } => true,
    }
}
