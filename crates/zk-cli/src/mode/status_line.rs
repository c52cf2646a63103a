use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_core::events::{
    ProviderRetry, StreamIdle, StreamProvider, StreamText, StreamThinking, StreamToolArgs, TurnAfter,
};
use zk_core::kernel::{Cx, Scope};
use zk_core::service::RetryNotice;

use super::shared_screen::SharedScreen;
use super::summary;
use crate::term::{StatusId, Style};

/// A line that stands until something else is written, on a screen that can erase lines.
pub(crate) struct StatusLine {
    screen: SharedScreen,
    id: StatusId,
}

impl StatusLine {
    /// Begins a line of its own with `text`.
    pub(crate) fn show(screen: &SharedScreen, text: &str) -> Self {
        let id = screen.lock().begin_status();
        let line = Self { screen: screen.clone(), id };
        line.update(text);
        line
    }

    /// Begins a line that leaves the cursor where it is.
    pub(crate) fn show_below(screen: &SharedScreen, text: &str) -> Self {
        let id = screen.lock().begin_status_below();
        let line = Self { screen: screen.clone(), id };
        line.update(text);
        line
    }

    /// Replaces the text; false once something else was written in its place.
    pub(crate) fn update(&self, text: &str) -> bool {
        self.screen.lock().update_status(self.id, text)
    }

    /// Erases the line, unless it is gone.
    pub(crate) fn clear(self) {
        self.screen.lock().clear_status(self.id);
    }
}

/// Shows a status line while a response stream is idle: for how long, until when, and how to stop.
pub(crate) fn watch_idle_streams(scope: &Scope, screen: &SharedScreen) {
    if !screen.lock().erases() {
        return;
    }
    let line: Arc<Mutex<Option<StatusLine>>> = Arc::default();
    let shown = line.clone();
    let end = move || {
        if let Some(line) = lock(&shown).take() {
            line.clear();
        }
    };
    let screen = screen.clone();
    scope.on_sync(move |event: &StreamIdle, _: &Cx| {
        let text = summary::stream_idle(event, if screen.has_keys() { "Esc" } else { "Ctrl-C" });
        let mut line = lock(&line);
        if !line.as_ref().is_some_and(|line| line.update(&text)) {
            *line = Some(StatusLine::show_below(&screen, &text));
        }
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

fn lock(line: &Mutex<Option<StatusLine>>) -> MutexGuard<'_, Option<StatusLine>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedScreen {
    /// Says why a request is retried, with a countdown in a status line where lines can be erased.
    pub(crate) fn retry(&self, style: Style, who: &str, retry: &RetryNotice) {
        let (why, what) = summary::retry(retry);
        if retry.delay.is_zero() {
            self.line(style, &format!("{who}{why}; {what}"));
        } else if self.lock().erases() {
            self.line(style, &format!("{who}{why}"));
            let line = StatusLine::show(self, "");
            tokio::spawn(count_down(line, what, self.has_keys(), Instant::now() + retry.delay));
        } else {
            self.line(style, &format!("{who}{why}; {what} in {:.1} s", retry.delay.as_secs_f64()));
        }
    }

    /// Says that a back-off was cut short, until something else is written.
    pub(crate) fn show_retrying_now(&self) {
        StatusLine::show(self, "trying now …");
    }
}

async fn count_down(line: StatusLine, what: &'static str, has_keys: bool, until: Instant) {
    let keys = if has_keys { "Enter tries now · Esc stops" } else { "Ctrl-C stops" };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        if seconds == 0 {
            return line.clear();
        }
        if !line.update(&format!("{what} in {seconds} s · {keys}")) {
            return;
        }
        sleep(left.saturating_sub(Duration::from_secs(seconds.saturating_sub(1)))).await;
    }
}
