use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zk_core::events::{ProviderRetry, StreamText, StreamThinking, StreamToolArgs, TurnAfter, TurnBefore};
use zk_core::kernel::{Cx, Scope};
use zk_core::service::RetryNotice;

use super::notes;
use super::show::Shown;
use crate::term::{Passing, Style};

/// How long nothing comes before it is said that somebody waits.
const SILENCE: Duration = Duration::from_secs(3);

/// Says how long a model has been asked without a sign of it, in a line that goes away with the first one.
/// `clear` makes room for that line.
pub(crate) fn watch_silence<F>(scope: &Scope, shown: &Shown, clear: F)
where
    F: Fn() + Clone + Send + Sync + 'static,
{
    if !shown.screen().erases() {
        return;
    }
    let wait = Arc::new(Mutex::new(CancellationToken::new()));
    let (ended, screen) = (wait.clone(), shown.clone());
    let end = move || {
        ended.lock().unwrap_or_else(PoisonError::into_inner).cancel();
        screen.screen().clear();
    };
    let shown = shown.clone();
    scope.on_sync(move |event: &TurnBefore, _: &Cx| {
        let ended = CancellationToken::new();
        *wait.lock().unwrap_or_else(PoisonError::into_inner) = ended.clone();
        tokio::spawn(count_up(shown.clone(), clear.clone(), ended, event.model.to_string()));
    });
    let [said, thought, called, failed] = [end.clone(), end.clone(), end.clone(), end.clone()];
    scope.on_sync(move |_: &StreamText, _: &Cx| said());
    scope.on_sync(move |_: &StreamThinking, _: &Cx| thought());
    scope.on_sync(move |_: &StreamToolArgs, _: &Cx| called());
    scope.on_sync(move |_: &ProviderRetry, _: &Cx| failed());
    scope.on_sync(move |_: &TurnAfter, _: &Cx| end());
}

async fn count_up(shown: Shown, clear: impl Fn(), ended: CancellationToken, model: String) {
    let since = Instant::now();
    if ended.run_until_cancelled(sleep(SILENCE)).await.is_none() {
        return;
    }
    clear();
    let line = {
        let mut screen = shown.screen();
        // The first word may have come in this moment, and stand where the line would.
        if ended.is_cancelled() {
            return;
        }
        screen.pass()
    };
    let stops = if shown.has_keys() { "Esc" } else { "Ctrl-C" };
    let text = || format!("no word from {model} for {} s · {stops} stops", since.elapsed().as_secs());
    while !ended.is_cancelled() && shown.screen().passing(line, &text()) {
        sleep(Duration::from_secs(1)).await;
    }
}

impl Shown {
    /// Says why a request waits, and how long: where lines can be taken back, the wait counts down in a line
    /// that goes away with it.
    pub(crate) fn retry(&self, style: Style, who: &str, retry: &RetryNotice) {
        let (why, what) = notes::retry(retry);
        if retry.delay.is_zero() {
            self.line(style, &format!("{who}{why}; {what}"));
        } else if self.screen().erases() {
            self.line(style, &format!("{who}{why}"));
            let line = self.screen().pass();
            tokio::spawn(count_down(self.clone(), line, what, Instant::now() + retry.delay));
        } else {
            self.line(style, &format!("{who}{why}; {what} in {:.1} s", retry.delay.as_secs_f64()));
        }
    }

    /// Says that a wait was cut short, until there is something else to say.
    pub(crate) fn trying_now(&self) {
        let mut screen = self.screen();
        let line = screen.pass();
        screen.passing(line, "trying now …");
    }
}

async fn count_down(shown: Shown, line: Passing, what: &'static str, until: Instant) {
    let keys = if shown.has_keys() { "Enter tries now · Esc stops" } else { "Ctrl-C stops" };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        if seconds == 0 {
            return shown.screen().gone(line);
        }
        if !shown.screen().passing(line, &format!("{what} in {seconds} s · {keys}")) {
            return;
        }
        sleep(left.saturating_sub(Duration::from_secs(seconds.saturating_sub(1)))).await;
    }
}
