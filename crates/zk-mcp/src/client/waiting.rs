//! Idle clock of a request: time without an answer and without progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::ProgressToken;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

/// Receiver of the progress messages of a call.
pub(crate) type OnProgress = Arc<dyn Fn(&str) + Send + Sync>;

/// Requests in flight, by their progress token.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<HashMap<ProgressToken, Watcher>>>);

#[derive(Clone)]
struct Watcher {
    on: Option<OnProgress>,
    heard: Arc<Notify>,
}

impl Watched {
    /// Passes the progress under `token` to `on` until the guard is dropped.
    pub(crate) fn watch(&self, token: ProgressToken, on: Option<OnProgress>) -> WatchGuard {
        let heard = Arc::new(Notify::new());
        let watcher = Watcher { on, heard: heard.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), watcher);
        WatchGuard { watched: self.clone(), token, heard }
    }

    /// Records progress of the request with `token`, if it is in flight; `line` describes it.
    pub(crate) fn record_progress(&self, token: &ProgressToken, line: impl FnOnce() -> String) {
        let watcher = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned();
        let Some(Watcher { on, heard }) = watcher else { return };
        heard.notify_one();
        if let Some(on) = on {
            on(&line());
        }
    }
}

pub(crate) struct WatchGuard {
    watched: Watched,
    token: ProgressToken,
    /// Notified on each progress message.
    pub(crate) heard: Arc<Notify>,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.watched.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

/// Open questions of a server to a person or the model. While one is open, the server waits for zk, so the
/// clocks of its requests stand still.
#[derive(Clone)]
pub(crate) struct OpenQuestions(Arc<watch::Sender<usize>>);

impl Default for OpenQuestions {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl OpenQuestions {
    /// Opens a question until the guard is dropped.
    pub(crate) fn open(&self) -> OpenQuestion {
        self.0.send_modify(|open| *open += 1);
        OpenQuestion(self.0.clone())
    }

    /// Waits until a request had no progress for `idle`, or took `longest` in total, without the time of open
    /// questions. Returns the limit that was reached.
    pub(crate) async fn wait_for_idle(&self, idle: Duration, longest: Duration, heard: &Notify) -> Duration {
        let mut open = self.0.subscribe();
        let mut left = longest;
        loop {
            // The sender is alive, so there always is a value.
            let _ = open.wait_for(|open| *open == 0).await;
            let began = Instant::now();
            tokio::select! {
                () = sleep(idle.min(left)) => return if left < idle { longest } else { idle },
                () = heard.notified() => {}
                _ = open.wait_for(|open| *open > 0) => {}
            }
            left = left.saturating_sub(began.elapsed());
        }
    }
}

pub(crate) struct OpenQuestion(Arc<watch::Sender<usize>>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(10);
    const MAX_CALL_TIME: Duration = Duration::from_secs(25);

    #[tokio::test(start_paused = true)]
    async fn the_timer_of_a_call_pauses_during_a_question_and_restarts_after_it() {
        let (questions, heard) = (OpenQuestions::default(), Notify::new());
        let began = Instant::now();
        let asking = async {
            sleep(Duration::from_secs(9)).await;
            let (first, second) = (questions.open(), questions.open());
            sleep(Duration::from_secs(3600)).await;
            drop(first);
            sleep(Duration::from_secs(3600)).await;
            drop(second);
        };
        let (limit, ()) = tokio::join!(questions.wait_for_idle(IDLE, MAX_CALL_TIME, &heard), asking);
        assert_eq!((limit, began.elapsed().as_secs()), (IDLE, 9 + 7200 + 10));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_postpones_the_time_out_but_not_for_ever() {
        let (questions, heard) = (OpenQuestions::default(), Notify::new());
        let began = Instant::now();
        let telling = async {
            loop {
                sleep(Duration::from_secs(9)).await;
                heard.notify_one();
            }
        };
        let limit = tokio::select! {
            limit = questions.wait_for_idle(IDLE, MAX_CALL_TIME, &heard) => limit,
            () = telling => Duration::ZERO,
        };
        assert_eq!((limit, began.elapsed()), (MAX_CALL_TIME, MAX_CALL_TIME));
    }
}
