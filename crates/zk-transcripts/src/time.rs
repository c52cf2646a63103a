/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Milliseconds since 1970 of a time such as `2026-03-05T07:08:09.123Z`; `None` if it is no such time.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let is_real = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !is_real {
        return None;
    }
    let rest = text.get(19..)?;
    let digits = rest.strip_prefix('.').map_or("", |rest| {
        rest.get(..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())).unwrap_or_default()
    });
    let millis = format!("{digits:0<3}").get(..3)?.parse::<i64>().ok()?;
    let zone = rest.get(if digits.is_empty() { 0 } else { digits.len() + 1 }..)?;
    let offset = match (zone.get(..1), zone.get(1..3), zone.get(4..6)) {
        (Some(sign @ ("+" | "-")), Some(hours), Some(minutes)) => {
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if sign == "-" { -minutes } else { minutes }
        }
        _ => 0,
    };
    let seconds = hour * 3600 + (minute - offset) * 60 + second;
    u64::try_from(days_of(year, month, day) * DAY_MS + seconds * 1000 + millis).ok()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Date and time in UTC, such as `2026-03-05 07:08`.
pub(crate) fn show_time(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    let (days, rest) = (millis.div_euclid(DAY_MS) + 719_468, millis.rem_euclid(DAY_MS) / 60_000);
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", rest / 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, millis, shown) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01 00:00"),
            ("2026-11-27T15:50:43.864Z", 1_795_794_643_864, "2026-11-27 15:50"),
            ("2024-02-29T23:59:59+01:30", 1_709_245_799_000, "2024-02-29 22:29"),
            ("2000-03-01T00:00:00.5Z", 951_868_800_500, "2000-03-01 00:00"),
        ] {
            assert_eq!(parse_time(text), Some(millis), "{text}");
            assert_eq!(show_time(millis), shown);
        }
        for bad in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-11-27",
            "1969-12-31T23:59:59Z",
            "é026-11-27T15:50:43Z",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
