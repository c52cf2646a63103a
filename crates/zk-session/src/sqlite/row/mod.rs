pub(crate) mod hash;

use std::fmt::Write as _;

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};
use serde_json::json;
use zk_core::model::EntryId;
use zk_core::service::{Entry, EntryKind};

use hash::fnv1a;

/// Columns that [`read`] expects.
pub(crate) const COLUMNS: &str = "seq, id, parent, time_ms, kind, sum";
/// Index of the column `kind` in [`COLUMNS`].
pub(crate) const KIND_COLUMN: usize = 4;

/// Row that is no valid entry, with its raw values.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) seq: i64,
    why: String,
    columns: [Value; 4],
}

impl Unreadable {
    /// The row as one line of JSON, with invalid text in hexadecimal.
    pub(crate) fn to_line(&self) -> String {
        let [id, parent, time, kind] = self.columns.each_ref().map(to_json);
        json!({"seq": self.seq, "why": self.why, "id": id, "parent": parent, "time_ms": time, "kind": kind})
            .to_string()
    }
}

fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => json!(number),
        Value::Real(number) => json!(number.to_string()),
        Value::Text(text) => json!(text),
        Value::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => json!({"hex": hex(bytes)}),
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Checksum stored with each entry, which reveals changed bytes.
pub(crate) fn checksum(seq: i64, id: &str, parent: Option<&str>, time_ms: i64, kind: &str) -> i64 {
    let (seq, time) = (seq.to_le_bytes(), time_ms.to_le_bytes());
    fnv1a(&[&seq, id.as_bytes(), parent.unwrap_or("").as_bytes(), &time, kind.as_bytes()]).cast_signed()
}

/// Reads a row of [`COLUMNS`].
///
/// # Errors
/// SQLite's error when the row cannot be fetched. A row that is no valid entry is returned as [`Unreadable`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Result<Entry, Unreadable>)> {
    let seq: i64 = row.get(0)?;
    let columns = [row.get_ref(1)?, row.get_ref(2)?, row.get_ref(3)?, row.get_ref(4)?];
    let read = decode(seq, columns, row.get_ref(5)?);
    Ok((seq, read.map_err(|why| Unreadable { seq, why, columns: columns.map(lossless) })))
}

/// Copies a value; invalid UTF-8 becomes bytes instead of an error.
fn lossless(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(bytes.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn decode(seq: i64, columns: [ValueRef<'_>; 4], sum: ValueRef<'_>) -> Result<Entry, String> {
    let [id, parent, time, kind] = columns;
    let parent = match parent {
        ValueRef::Null => None,
        parent => Some(parent.as_str().map_err(|_| "its parent is no text".to_owned())?),
    };
    let (Ok(id), ValueRef::Integer(time), Ok(kind)) = (id.as_str(), time, kind.as_str()) else {
        return Err("a column is not of its type".into());
    };
    if sum != ValueRef::Integer(checksum(seq, id, parent, time, kind)) {
        return Err("its checksum does not fit".into());
    }
    let kind =
        EntryKind::from_json(kind).map_err(|error| format!("it is no entry this zk knows: {error}"))?;
    let time_ms = u64::try_from(time).unwrap_or(0);
    Ok(Entry { id: EntryId::from(id), parent: parent.map(EntryId::from), time_ms, kind })
}
