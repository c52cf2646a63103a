use std::time::SystemTime;

use zk_core::model::Display;

/// Maximum number of lines of a result that a person is shown.
const MAX_LISTED_LINES: usize = 500;

/// Longest prefix of `text` within `max` bytes that ends at a character boundary.
pub(crate) fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// Longest suffix of `text` within `max` bytes that begins at a character boundary.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(max))..).unwrap_or(text)
}

/// First line, shortened for a summary.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let short = head(line, max);
    if short.len() < text.trim().len() { format!("{short}…") } else { short.to_owned() }
}

/// Number with its noun: `1 line`, `2 lines`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Lines of a result for a person, with a summary as last line, which is shown if there is little space.
pub(crate) fn listing<'a>(lines: impl IntoIterator<Item = &'a str>, summary: String) -> Display {
    let mut lines: Vec<String> = lines.into_iter().take(MAX_LISTED_LINES + 1).map(str::to_owned).collect();
    if lines.len() > MAX_LISTED_LINES {
        lines.truncate(MAX_LISTED_LINES);
        lines.push("…".to_owned());
    }
    if lines.is_empty() {
        return Display::Line { text: summary };
    }
    lines.push(summary);
    Display::Lines { lines }
}

/// Size with a unit, for a person.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KB";
    for next in UNITS.into_iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// Whether a file's beginning shows that it is no text: a NUL, or a tenth of invalid UTF-8.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    let start = start.get(..8192).unwrap_or(start);
    if start.contains(&0) {
        return true;
    }
    let bad: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    bad > 3 && bad * 10 > start.len()
}

/// UTC time to the minute, `2026-01-31 23:59`; `None` before 1970.
pub(crate) fn minute(time: SystemTime) -> Option<String> {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats every 400 years; years start in March here, so that the leap day comes last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", seconds / 3_600, seconds % 3_600 / 60))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_its_date_in_utc() {
        let at = |seconds| minute(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        assert_eq!(at(0), "1970-01-01 00:00");
        assert_eq!(at(951_782_399), "2000-02-28 23:59");
        assert_eq!(at(951_782_400), "2000-02-29 00:00");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00");
    }
}
