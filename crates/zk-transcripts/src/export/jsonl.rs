#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zk_core::service::Entry;

/// Version of the JSON lines of an exported session. The minor part grows with each addition, the major part with each
/// incompatible change; the entries have a version of their own.
pub const TRANSCRIPT_VERSION: &str = "1.1";

/// One line of an exported session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TranscriptLine {
    /// First line of the file.
    ZkSession(TranscriptHeader),
    /// Entry of the session, in the order in which it was written.
    Entry(Entry),
    /// Last line of the file; a file without it is incomplete.
    End {
        /// Number of entries in the file.
        entries: u64,
    },
}

/// First line of an exported session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TranscriptHeader {
    /// Version of the lines ([`TRANSCRIPT_VERSION`]).
    pub version: String,
    /// Version of the entries.
    pub entry_version: String,
    /// Id of the session.
    pub id: String,
    /// Working directory of the session.
    pub cwd: String,
    /// Time of creation in milliseconds since 1970.
    pub created_ms: u64,
    /// Title of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Session that this one continues or belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether the entries of all branches follow, instead of those of the present one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
}
