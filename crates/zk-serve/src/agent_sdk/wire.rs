//! Ids and times as an Agent SDK has them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Digits of zk's ids, five bits each.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Digits of the time in an id of zk.
const TIME_DIGITS: usize = 9;
/// Number of random digits in an id of zk.
const CHANCE_DIGITS: usize = 8;
/// Bits that mark a UUID as an id of zk.
const MARK: u128 = 0x7a6;

/// A random UUID.
pub(super) fn fresh_uuid() -> String {
    format_uuid((fastrand::u128(..) & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62))
}

/// Converts an id of zk such as `s_…` and the number of a part to a UUID. Other ids are returned unchanged.
pub(super) fn uuid_of_id(id: &str, part: u16) -> String {
    let Some((kind, digits)) = id.split_once('_') else { return id.to_owned() };
    let (Some(time), Some(chance)) =
        (digits.get(..TIME_DIGITS).and_then(parse_digits), digits.get(TIME_DIGITS..).and_then(parse_digits))
    else {
        return id.to_owned();
    };
    let kind = u128::from(kind.bytes().next().unwrap_or_default());
    if digits.len() != TIME_DIGITS + CHANCE_DIGITS {
        return id.to_owned();
    }
    // A UUID of version 8, whose fields are the maker's own.
    let low = (0b10 << 62) | (kind << 54) | (u128::from(part & 0x3ff) << 44) | u128::from(chance);
    format_uuid((u128::from(time) << 80) | (8 << 76) | (MARK << 64) | low)
}

/// Converts such a UUID back to the id of zk and the number of the part. Other UUIDs are returned unchanged.
pub(super) fn id_of_uuid(uuid: &str) -> (String, u16) {
    let plain: String = uuid.chars().filter(|letter| *letter != '-').collect();
    let number = u128::from_str_radix(&plain, 16).unwrap_or_default();
    if plain.len() != 32 || (number >> 64) & 0xffff != (8 << 12) | MARK {
        return (uuid.to_owned(), 0);
    }
    let kind = char::from(u8::try_from((number >> 54) & 0xff).unwrap_or_default());
    let part = u16::try_from((number >> 44) & 0x3ff).unwrap_or_default();
    let time = format_digits(number >> 80, TIME_DIGITS);
    (format!("{kind}_{time}{}", format_digits(number, CHANCE_DIGITS)), part)
}

fn parse_digits(digits: &str) -> Option<u64> {
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
    digits.bytes().try_fold(0_u64, |sum, byte| Some((sum << 5) | u64::try_from(digit(byte)?).ok()?))
}

fn format_digits(number: u128, count: usize) -> String {
    let digit = |place: usize| {
        let at = usize::try_from((number >> (place * 5)) & 31).unwrap_or_default();
        char::from(DIGITS.get(at).copied().unwrap_or(b'0'))
    };
    (0..count).rev().map(digit).collect()
}

fn format_uuid(number: u128) -> String {
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// Current time as `2026-11-24T14:35:06.399Z`.
pub(super) fn now() -> String {
    timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64))
}

/// Milliseconds since 1970 as a timestamp in UTC.
fn timestamp(millis: u64) -> String {
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last one of its year.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:03}Z")
}

#[cfg(test)]
mod tests {
    use zk_core::model::{MessageId, SessionId};

    use super::*;

    #[test]
    fn an_id_of_zk_is_a_uuid_and_comes_back_from_it() {
        for _ in 0..100 {
            let (session, message) = (SessionId::fresh(), MessageId::fresh());
            let uuid = uuid_of_id(session.as_str(), 0);
            assert_eq!(uuid.len(), 36, "{uuid}");
            assert_eq!(id_of_uuid(&uuid), (session.as_str().to_owned(), 0));
            assert_eq!(id_of_uuid(&uuid_of_id(message.as_str(), 7)), (message.as_str().to_owned(), 7));
        }
    }

    #[test]
    fn other_ids_stay_as_they_are() {
        for other in ["11111111-2222-3333-4444-555555555555", "s_short", "", "s_000000000000000u0"] {
            assert_eq!(uuid_of_id(other, 0), other);
            assert_eq!(id_of_uuid(other).0, other);
        }
        let fresh = fresh_uuid();
        assert_eq!((id_of_uuid(&fresh).0, fresh.get(14..15)), (fresh.clone(), Some("4")));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_530_906_399, "2026-11-24T14:35:06.399Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        ] {
            assert_eq!(timestamp(millis), text);
        }
    }
}
