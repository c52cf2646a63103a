use std::time::SystemTime;

use jiff::Timestamp;

/// Describes a time to the second, in UTC, such as `2026-03-01 08:30:00 UTC`; `a distant time` for one beyond the calendar.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use zk_core::model::utc_time;
///
/// assert_eq!(utc_time(UNIX_EPOCH + Duration::from_secs(951_825_601)), "2000-02-29 12:00:01 UTC");
/// ```
#[must_use]
pub fn utc_time(time: SystemTime) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "a distant time".to_owned(),
    }
}
