//! Times and lengths of engines as JSON: whole milliseconds, as everywhere in zk. Entries that earlier versions stored
//! are read too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of milliseconds, or the form that an earlier version stored.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored<T> {
    Ms(u64),
    Earlier(T),
}

fn whole_ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

pub(in crate::service) fn serialize<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    whole_ms(time.duration_since(UNIX_EPOCH).unwrap_or_default()).serialize(serializer)
}

pub(in crate::service) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SystemTime, D::Error> {
    match Stored::deserialize(deserializer)? {
        Stored::Earlier(time) => Ok(time),
        Stored::Ms(ms) => UNIX_EPOCH
            .checked_add(Duration::from_millis(ms))
            .ok_or_else(|| serde::de::Error::custom("a time out of range")),
    }
}

pub(super) fn serialize_known<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serialize(time, serializer),
        None => serializer.serialize_none(),
    }
}

pub(super) mod length {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Stored, whole_ms};

    pub(in super::super) fn serialize<S: Serializer>(
        length: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        whole_ms(*length).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Ms(ms) => Duration::from_millis(ms),
            Stored::Earlier(length) => length,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{ScheduleTimes, Wait};
    use super::*;

    #[test]
    fn times_are_milliseconds_and_those_of_earlier_versions_are_read() {
        let wait = Wait::Until(UNIX_EPOCH + Duration::from_millis(1_500));
        assert_eq!(serde_json::to_value(&wait).unwrap(), json!({"for": "until", "of": 1500}));
        for stored in [json!(1500), json!({"secs_since_epoch": 1, "nanos_since_epoch": 500_000_000})] {
            let read: Wait = serde_json::from_value(json!({"for": "until", "of": stored})).unwrap();
            assert_eq!(read, wait);
        }
        let every = ScheduleTimes::Every(Duration::from_secs(60));
        assert_eq!(serde_json::to_value(&every).unwrap(), json!({"every_ms": 60_000}));
        for stored in [json!({"every_ms": 60_000}), json!({"every": {"secs": 60, "nanos": 0}})] {
            assert_eq!(serde_json::from_value::<ScheduleTimes>(stored).unwrap(), every);
        }
    }
}
