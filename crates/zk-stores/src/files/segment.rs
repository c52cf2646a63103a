//! Format of an append: one line with its place and checksum, then one line for each entry.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Entry, EntryKind};

/// Version of the format of appends.
pub(super) const FORMAT: u32 = 1;

/// First line of an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// Version of the format of the append.
    pub(super) segment: u32,
    /// Number of the append, from 1.
    pub(super) seq: u64,
    /// Number of the append that this one follows; 0 for the first one. An append that no later one follows has failed,
    /// unless it is the last.
    pub(super) after: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// CRC-32 of this line without the checksum, and of the lines of the entries.
    pub(super) crc: u32,
    /// Facts of the session; only in the first append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<Start>,
    /// Branch of version control, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<String>,
}

/// Facts of a session that never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<SessionId>,
    pub(super) cwd: PathBuf,
    pub(super) created_ms: u64,
}

/// A complete append of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Segment<'a> {
    pub(super) head: Head,
    /// Bytes of the append: its first line and the lines of its entries.
    pub(super) text: &'a [u8],
    body: &'a [u8],
}

/// Line of an entry.
#[derive(Deserialize)]
struct Line<'a> {
    id: EntryId,
    parent: Option<EntryId>,
    time_ms: u64,
    #[serde(borrow)]
    kind: &'a RawValue,
}

/// Appends of a chunk.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) segments: Vec<Segment<'a>>,
    /// Version of a newer format in which the rest of the chunk is written.
    pub(super) newer: Option<u32>,
    /// Whether the rest of the chunk could not be read.
    pub(super) is_torn: bool,
}

/// Writes an append.
pub(super) fn write(mut head: Head, entries: &[Entry]) -> serde_json::Result<Vec<u8>> {
    let mut body = Vec::new();
    for entry in entries {
        let from = body.len();
        serde_json::to_writer(&mut body, entry)?;
        // Line breaks between the tokens of a plugin's own JSON become blanks.
        for byte in body.iter_mut().skip(from).filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
        body.push(b'\n');
    }
    head.bytes = body.len() as u64;
    head.entries = entries.len() as u64;
    head.crc = checksum(&head, &body)?;
    let mut text = serde_json::to_vec(&head)?;
    text.push(b'\n');
    text.append(&mut body);
    Ok(text)
}

/// Checksum of an append: of its first line without this checksum, and of its entries.
fn checksum(head: &Head, body: &[u8]) -> serde_json::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&serde_json::to_vec(&Head { crc: 0, ..head.clone() })?);
    hasher.update(body);
    Ok(hasher.finalize())
}

/// Reads the appends of a chunk up to the first one that is not complete.
pub(super) fn parse(mut text: &[u8]) -> Parts<'_> {
    let mut parts = Parts::default();
    while !text.is_empty() {
        match parse_first(text) {
            Ok((segment, rest)) => {
                parts.segments.push(segment);
                text = rest;
            }
            Err(newer) => {
                parts.newer = newer;
                parts.is_torn = newer.is_none();
                break;
            }
        }
    }
    parts
}

/// Parses the first append of `text`, and returns it with the bytes after it. The error is the version of a newer
/// format, or `None` for a damaged append.
fn parse_first(text: &[u8]) -> Result<(Segment<'_>, &[u8]), Option<u32>> {
    #[derive(Deserialize)]
    struct Version {
        segment: u32,
    }

    let end = text.iter().position(|byte| *byte == b'\n').ok_or(None)?;
    let (line, rest) = text.split_at_checked(end).ok_or(None)?;
    let Version { segment } = serde_json::from_slice(line).map_err(|_| None)?;
    if segment > FORMAT {
        return Err(Some(segment));
    }
    let head: Head = serde_json::from_slice(line).map_err(|_| None)?;
    let rest = rest.get(1..).ok_or(None)?;
    let bytes = usize::try_from(head.bytes).map_err(|_| None)?;
    let (body, after) = rest.split_at_checked(bytes).ok_or(None)?;
    if checksum(&head, body).ok() != Some(head.crc) {
        return Err(None);
    }
    let text = text.get(..text.len() - after.len()).ok_or(None)?;
    Ok((Segment { head, text, body }, after))
}

impl Segment<'_> {
    /// Appends the entries to `into`; the error is the number of those that could not be read.
    pub(super) fn read_entries(&self, into: &mut Vec<Entry>) -> Result<(), usize> {
        let mut unknown = 0;
        for line in self.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let read = serde_json::from_slice(line).and_then(|Line { id, parent, time_ms, kind }| {
                Ok(Entry { id, parent, time_ms, kind: EntryKind::from_json(kind.get())? })
            });
            match read {
                Ok(entry) => into.push(entry),
                Err(_) => unknown += 1,
            }
        }
        if unknown == 0 { Ok(()) } else { Err(unknown) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(seq: u64, texts: &[String]) -> Vec<u8> {
        let entry = |text: &String| Entry {
            id: EntryId::from("e"),
            parent: None,
            time_ms: 5,
            kind: EntryKind::Message {
                message: zk_core::model::Message::user_text(text.as_str()).shared(),
                usage: None,
            },
        };
        let entries: Vec<Entry> = texts.iter().map(entry).collect();
        let head =
            Head { segment: 1, seq, after: seq - 1, entries: 0, bytes: 0, crc: 0, start: None, branch: None };
        write(head, &entries).unwrap()
    }

    proptest! {
        #[test]
        fn a_cut_or_changed_append_is_noticed(texts in prop::collection::vec(".{0,40}", 1..5), at: prop::sample::Index, bit in 0..8u8) {
            let (first, second) = (segment(1, &texts), segment(2, &texts));
            let whole = [first.clone(), second].concat();
            let parts = parse(&whole);
            prop_assert!(!parts.is_torn && parts.segments.len() == 2);
            let mut entries = Vec::new();
            prop_assert!(parts.segments[1].read_entries(&mut entries).is_ok());
            let read: Vec<String> = entries.iter().map(|entry| entry.kind.message().unwrap().text()).collect();
            prop_assert_eq!(read, texts);

            let at = at.index(whole.len());
            let cut = parse(&whole[..at]);
            prop_assert_eq!(cut.segments.len(), usize::from(at >= first.len()));
            prop_assert_eq!(cut.is_torn, at != 0 && at != first.len());

            let mut changed = whole;
            changed[at] ^= 1 << bit;
            let found = parse(&changed);
            prop_assert!(found.segments.len() < 2 && (found.is_torn || found.newer.is_some()));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            parse(&bytes);
        }
    }
}
