use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_core::events::{
    ProviderRetry, StreamIdle, StreamProvider, StreamText, StreamThinking, StreamToolArgs, TurnAfter,
};
use zk_core::kernel::{Cx, Scope};
use zk_core::service::RetryNotice;

use super::notes;
use super::show::Shown;
use crate::term::{Passing, Style};

/// Says how long nothing has been heard of an answer, and when that ends, in a line that goes away with the next
/// sign of it. `within` says whether somebody else left the cursor within a line.
pub(crate) fn watch_silence<F>(scope: &Scope, shown: &Shown, within: F)
where
    F: Fn() -> bool + Send + Sync + 'static,
{
    if !shown.screen().erases() {
        return;
    }
    let line: Arc<Mutex<Option<Passing>>> = Arc::default();
    let (passing, screen) = (line.clone(), shown.clone());
    let end = move || {
        if let Some(line) = lock(&passing).take() {
            screen.screen().gone(line);
        }
    };
    let shown = shown.clone();
    scope.on_sync(move |event: &StreamIdle, _: &Cx| {
        let text = notes::silence(event, if shown.has_keys() { "Esc" } else { "Ctrl-C" });
        let mut line = lock(&line);
        if let Some(passing) = *line
            && shown.screen().passing(passing, &text)
        {
            return;
        }
        let within = within();
        let mut screen = shown.screen();
        let passing = screen.hover(within);
        screen.passing(passing, &text);
        *line = Some(passing);
    });
    let [said, thought, called, other, failed] =
        [end.clone(), end.clone(), end.clone(), end.clone(), end.clone()];
    scope.on_sync(move |_: &StreamText, _: &Cx| said());
    scope.on_sync(move |_: &StreamThinking, _: &Cx| thought());
    scope.on_sync(move |_: &StreamToolArgs, _: &Cx| called());
    scope.on_sync(move |_: &StreamProvider, _: &Cx| other());
    scope.on_sync(move |_: &ProviderRetry, _: &Cx| failed());
    scope.on_sync(move |_: &TurnAfter, _: &Cx| end());
}

fn lock(line: &Mutex<Option<Passing>>) -> MutexGuard<'_, Option<Passing>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
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
