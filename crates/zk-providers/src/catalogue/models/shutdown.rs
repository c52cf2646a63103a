use std::fmt;
use std::time::SystemTime;

use serde::Serialize;

/// Day on which a model is shut down, in UTC, formatted as `YYYY-MM-DD`.
///
/// ```
/// let end = zk_providers::known_shutdown("openai", "o1").unwrap();
/// assert_eq!(end.to_string(), "2026-10-23");
/// assert!(!end.is_past(std::time::UNIX_EPOCH));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Shutdown(&'static str);

impl Shutdown {
    /// Creates the day from a date in this format.
    pub(super) fn on(date: &'static str) -> Self {
        Self(date)
    }

    /// Whether the day has come at the time `now`.
    #[must_use]
    pub fn is_past(self, now: SystemTime) -> bool {
        // Dates in this format sort as text.
        date(now).is_some_and(|today| *self.0 <= *today)
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats the date of a time in UTC.
fn date(time: SystemTime) -> Option<String> {
    // The HTTP format: `Fri, 23 Oct 2026 00:00:00 GMT`.
    let text = httpdate::fmt_http_date(time);
    let mut words = text.split(' ').skip(1);
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Some(format!("{year}-{month:02}-{day}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shut_down_from_its_day_on() {
        let end = Shutdown::on("2026-10-23");
        for (time, is_past) in [
            ("Thu, 22 Oct 2026 23:59:59 GMT", false),
            ("Fri, 23 Oct 2026 00:00:00 GMT", true),
            ("Thu, 09 Sep 2027 00:00:00 GMT", true),
            ("Wed, 31 Dec 2025 00:00:00 GMT", false),
        ] {
            let now = httpdate::parse_http_date(time).unwrap();
            assert_eq!(end.is_past(now), is_past, "{time}");
        }
    }
}
