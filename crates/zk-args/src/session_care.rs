//! Commands that find, name, remove and verify sessions.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;

use crate::candidates;

const DAY_SECONDS: u64 = 86_400;

/// Commands below `zk sessions` that search and tidy up.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
#[expect(missing_docs, reason = "commands and groups are described at their types")]
pub enum SessionCare {
    /// Find sessions by the words in them: prompts, answers, calls and results
    Search(SearchArgs),
    /// Give a session a title
    Rename {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
        /// The title; an empty one brings back the beginning of the first prompt
        title: String,
    },
    /// Move a session into the trash, with its large results
    #[command(visible_alias = "rm")]
    Delete {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
    },
    /// List the deleted sessions, bring one back, or remove them for good
    Trash {
        #[command(subcommand)]
        action: Option<TrashAction>,
    },
    /// Remove leftovers: sessions without an answer, copies and large results that belong to nothing, and old trash
    Gc {
        /// Only what is at least this old
        #[arg(long, value_name = "DAYS", default_value_t = 1)]
        older_than: u32,
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Verify that nothing in a session was changed or removed since it was written
    Verify {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions), required_unless_present = "all")]
        id: Option<String>,
        /// Verify the sessions of every directory
        #[arg(long, conflicts_with = "id")]
        all: bool,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Remove the content of one entry for good: it reads `[removed]`, and the rest stays
    Redact {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
        /// Number of the entry, as `zk sessions search` shows it, or its id
        entry: String,
    },
}

/// Query and filters of `zk sessions search`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct SearchArgs {
    /// Words that are all in one text; "several words" follow one another, and begin* is the beginning of a word
    #[arg(required = true, value_name = "WORDS")]
    pub words: Vec<String>,
    /// Only sessions of this directory and those below it; the working directory unless --all is given
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    pub project: Option<PathBuf>,
    /// Search the sessions of every directory
    #[arg(long)]
    pub all: bool,
    /// Only calls and results of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only while a model with this in its name was in use
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Only since this day in UTC, such as 2026-03-01, or for so long: 7d, 12h, 2w
    #[arg(long, value_name = "DATE", value_parser = parse_time)]
    pub since: Option<SystemTime>,
    /// Only before this day, or longer ago than this
    #[arg(long, value_name = "DATE", value_parser = parse_time)]
    pub until: Option<SystemTime>,
    /// Number of sessions to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Commands below `zk sessions trash`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum TrashAction {
    /// List the deleted sessions, the last deleted first
    List,
    /// Bring a deleted session back
    Restore {
        /// Id of the session, or the beginning of it
        id: String,
    },
    /// Remove the deleted sessions for good
    Empty,
}

/// Reads a day, `2026-03-01`, or a time that has passed, `7d`.
fn parse_time(text: &str) -> Result<SystemTime, String> {
    let wrong =
        || format!("`{text}` is no date: write a day, such as 2026-03-01, or a time, such as 12h, 7d or 2w");
    let text = text.trim();
    if let Some(unit) = text.chars().next_back().filter(char::is_ascii_alphabetic) {
        let seconds = match unit {
            'h' => 3600,
            'd' => DAY_SECONDS,
            'w' => 7 * DAY_SECONDS,
            _ => return Err(wrong()),
        };
        let count: u64 = text.trim_end_matches(unit).parse().map_err(|_| wrong())?;
        let since = count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)?;
        return SystemTime::now().checked_sub(since).ok_or_else(wrong);
    }
    let mut numbers = text.splitn(3, '-').map(|part| part.parse::<u64>().ok().filter(|_| part.len() <= 4));
    let (Some(Some(year)), Some(Some(month)), Some(Some(day))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(wrong());
    };
    let days = days_since_1970(year, month, day).ok_or_else(wrong)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(days * DAY_SECONDS)).ok_or_else(wrong)
}

/// Number of days from 1970-01-01 to a day of the Gregorian calendar; `None` if there is no such day.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |month: u64| match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    };
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=length(month)).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: u64 = (1..month).map(length).sum();
    Some(years + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_read_and_nothing_else() {
        let days = |text: &str| {
            parse_time(text).unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs() / DAY_SECONDS
        };
        for (text, day) in
            [("1970-01-01", 0), ("2000-03-01", 11_017), ("2024-02-29", 19_782), ("2026-11-27", 20_784)]
        {
            assert_eq!(days(text), day, "{text}");
        }
        let now = SystemTime::now();
        let before_a_week = parse_time("1w").unwrap() + Duration::from_secs(7 * DAY_SECONDS);
        assert!(now <= before_a_week && before_a_week <= SystemTime::now());
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2025-02-29",
            "2026-00-10",
            "2026-1",
            "7",
            "-7d",
            "7x",
            "99999999999999w",
        ] {
            assert!(parse_time(text).unwrap_err().contains("is no date"), "{text}");
        }
    }
}
