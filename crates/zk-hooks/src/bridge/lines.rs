//! Lines of the protocol between zk and a program.

use std::time::UNIX_EPOCH;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use zk_core::kernel::EventStamp;

/// Version of the protocol: the minor part grows with additions, the major part with incompatible changes.
pub const BRIDGE_VERSION: &str = "1.1";

/// Longest line, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;

/// Line that sends an event to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EventLine<'a, D = Value> {
    /// Number of the event, from 0.
    pub id: u64,
    /// Name of the event.
    pub event: &'a str,
    /// Whether the program has to reply.
    pub reply: bool,
    /// Id of the run; empty outside of a run.
    pub run: &'a str,
    /// Stamp of the event if no reply is expected: see [`zk_core::kernel::EventStamp`].
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<LineStamp>,
    /// Data of the event: that of the reference, a [`Hello`] or a [`Lost`].
    pub data: D,
}

/// Stamp of an event: its number within the agent, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LineStamp {
    /// Number that grows with each event of the agent and its sub-agents, sent to the program or not. Of two
    /// concurrent events, the later one may be sent first.
    pub number: u64,
    /// Time of the event, in milliseconds since 1970.
    pub at_ms: u64,
}

impl From<EventStamp> for LineStamp {
    fn from(stamp: EventStamp) -> Self {
        let since = stamp.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { number: stamp.number, at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }
}

/// Data of `bridge:hello`, the first event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Hello {
    /// Version of the protocol.
    pub version: String,
    /// Name of the plugin.
    pub plugin: String,
}

/// Data of `bridge:lost`: events that were dropped because the program did not read them in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Lost {
    /// Number of dropped events.
    pub count: u64,
}

/// Reply line of the program, with either a reply or an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplyLine {
    /// Number of the event.
    pub id: u64,
    /// The reply; `null` for none.
    #[serde(default, deserialize_with = "present")]
    pub reply: Option<Value>,
    /// Reason why there is no reply.
    #[serde(default)]
    pub error: Option<String>,
}

/// Deserialises `null` as a present value; a plain `Option` would take it for a missing field.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl ReplyLine {
    /// Parses a reply line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        match (&parsed.reply, &parsed.error) {
            (Some(_), None) | (None, Some(_)) => Ok(parsed),
            (Some(_), Some(_)) => Err("it has a reply and an error".to_owned()),
            (None, None) => Err("it has neither a reply nor an error".to_owned()),
        }
    }
}

/// Serialises an event as one line, with the line end.
pub(super) fn line<D: Serialize>(event: &EventLine<'_, D>) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(event)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Splits a byte stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// Adds bytes; returns the lines that they complete, without line ends.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut whole = Vec::new();
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.0.len() + part.len() > MAX_LINE_BYTES {
                return Err(format!("a line of more than {MAX_LINE_BYTES} bytes"));
            }
            self.0.extend_from_slice(part);
            if parts.peek().is_some() {
                whole.push(std::mem::take(&mut self.0));
            }
        }
        whole.retain(|line| !line.iter().all(u8::is_ascii_whitespace));
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_are_cut() {
        let bytes = b"one\n\ntwo\r\nthree\nrest";
        for cut in 0..bytes.len() {
            let (mut lines, (first, second)) = (Lines::default(), bytes.split_at(cut));
            let mut all = lines.feed(first).unwrap();
            all.extend(lines.feed(second).unwrap());
            assert_eq!(all, [&b"one"[..], b"two\r", b"three"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut lines = Lines::default();
        lines.feed(&vec![b'x'; MAX_LINE_BYTES]).unwrap();
        assert!(lines.feed(b"x").is_err());
    }

    #[test]
    fn only_a_reply_or_an_error_is_an_answer() {
        assert_eq!(ReplyLine::parse(br#"{"id":1,"reply":null}"#).unwrap().reply, Some(Value::Null));
        assert!(ReplyLine::parse(br#"{"id":1,"error":"no"}"#).unwrap().error.is_some());
        for garbage in [
            &br#"{"id":1}"#[..],
            br#"{"id":1,"reply":null,"error":"no"}"#,
            br#"{"id":1,"reply":null,"reason":"no"}"#,
            br#"{"id":"1","reply":null}"#,
            br#"{"reply":null}"#,
            b"null",
            b"ok",
            b"\xff",
        ] {
            assert!(ReplyLine::parse(garbage).is_err(), "{}", String::from_utf8_lossy(garbage));
        }
    }
}
