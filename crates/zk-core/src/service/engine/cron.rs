use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use serde::{Deserialize, Serialize};

/// Maximum size of a cron line, in bytes.
const MAX_CRON_BYTES: usize = 256;

/// Last second since 1970 from which a next time is computed: far from the end of the calendar.
const MAX_CRON_SECOND: u64 = 200_000_000_000;

/// Times in the notation of cron: minute, hour, day of the month, month, day of the week, and a time zone;
/// UTC without one.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use zk_core::service::CronLine;
///
/// // The epoch was a Thursday.
/// let line: CronLine = "30 3 * * 1-5".parse().unwrap();
/// assert_eq!(line.next(UNIX_EPOCH), Some(UNIX_EPOCH + Duration::from_secs(3 * 3600 + 1800)));
/// let there: CronLine = "30 3 * * 1-5 Europe/Berlin".parse().unwrap();
/// assert_eq!(there.next(UNIX_EPOCH), Some(UNIX_EPOCH + Duration::from_secs(2 * 3600 + 1800)));
/// assert!("61 * * * *".parse::<CronLine>().is_err() && "0 0 31 2 *".parse::<CronLine>().is_err());
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CronLine {
    text: Arc<str>,
    times: Arc<Crontab>,
}

/// Error of a text that is no cron line.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{}` is no cron line ({why}): give minute, hour, day of the month, month and day of the week, such as `30 3 * * 1-5`",
    text.escape_default()
)]
pub struct CronError {
    text: String,
    why: String,
}

impl CronLine {
    /// Returns the line as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the first time after `now`; `None` if there is none within four years.
    #[must_use]
    pub fn next(&self, now: SystemTime) -> Option<SystemTime> {
        let second = now.duration_since(UNIX_EPOCH).ok()?.as_secs().min(MAX_CRON_SECOND);
        let now = MakeTimestamp::from_second(i64::try_from(second).ok()?).ok()?;
        let next = self.times.find_next(now).ok()?.timestamp().as_second();
        Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(next).ok()?))
    }
}

impl FromStr for CronLine {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let failed = |why: String| CronError { text: text.chars().take(64).collect(), why };
        if text.len() > MAX_CRON_BYTES {
            return Err(failed(format!("it has more than {MAX_CRON_BYTES} bytes")));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        // The library's message has several lines: the input, a marker, and the reason.
        let times = cronexpr::parse_crontab_with(text, options).map_err(|error| {
            let message = error.to_string();
            failed(message.lines().last().unwrap_or_default().trim_matches(['^', ' ']).to_owned())
        })?;
        let line = Self { text: text.into(), times: Arc::new(times) };
        if line.next(SystemTime::now()).is_none() {
            return Err(failed("no day matches it".to_owned()));
        }
        Ok(line)
    }
}

impl PartialEq for CronLine {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronLine {}

impl TryFrom<String> for CronLine {
    type Error = CronError;

    fn try_from(text: String) -> Result<Self, CronError> {
        text.parse()
    }
}

impl From<CronLine> for String {
    fn from(line: CronLine) -> Self {
        line.as_str().to_owned()
    }
}

impl fmt::Display for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CronLine").field(&self.text).finish()
    }
}
