use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_core::service::RetryNotice;

use super::notes;
use super::show::Shown;
use crate::term::{Passing, Style};

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
}

async fn count_down(shown: Shown, line: Passing, what: &'static str, until: Instant) {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        if seconds == 0 {
            return shown.screen().gone(line);
        }
        if !shown.screen().passing(line, &format!("{what} in {seconds} s · Ctrl-C stops")) {
            return;
        }
        sleep(left.saturating_sub(Duration::from_secs(seconds.saturating_sub(1)))).await;
    }
}
