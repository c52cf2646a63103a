//! A redacted session with its settings and blobs, in one file that replays elsewhere.

mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zk_core::model::SessionId;
use zk_core::service::Entry;

pub use read::{MAX_PACK_BYTES, MAX_UNPACKED_BYTES, PackError};
pub use write::PackLimits;

/// Version of the format. It changes when an older zk cannot read a pack any more.
pub const PACK_VERSION: u32 = 1;

/// Reproduction of a session: one compressed JSON document.
///
/// ```
/// use zk_core::service::{Entry, EntryKind, Redactor};
/// use zk_replay::{Pack, PackLimits, PackVersions};
///
/// let kind = EntryKind::RunStart { run_id: "r_1".into() };
/// let entries = [Entry { id: "e_1".into(), parent: None, time_ms: 0, kind }];
/// let versions = PackVersions { program: "1.0.0".into(), ..PackVersions::default() };
/// let pack = Pack::of("s_1".into(), &entries, &[], versions, &Redactor::new(), PackLimits::default());
/// let bytes = pack.to_bytes().unwrap();
/// assert_eq!(Pack::from_bytes(&bytes).unwrap().entries, entries);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pack {
    /// Version of the format; [`PACK_VERSION`] for a pack of this program.
    pub zkpack: u32,
    /// Versions of the program that wrote it.
    pub versions: PackVersions,
    /// Id of the session.
    pub session: SessionId,
    /// Contents and omissions, for a person.
    pub notes: PackNotes,
    /// Settings in effect without secrets, as lines of TOML.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Description of the problem, if the person gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Entries of the session, from the first to the leaf.
    pub entries: Vec<Entry>,
    /// Contents of blobs that the entries name, in base64.
    #[serde(default)]
    pub blobs: BTreeMap<String, String>,
}

/// Versions of the program that wrote a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackVersions {
    /// Version of zk.
    pub program: String,
    /// Version of the entries' JSON form.
    #[serde(default)]
    pub entries: String,
    /// Operating system and processor.
    #[serde(default)]
    pub platform: String,
}

/// Contents and omissions of a pack, for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackNotes {
    /// One line for each kind of content.
    pub contains: Vec<String>,
    /// One line for each kind of omission.
    pub left_out: Vec<String>,
}
