use std::path::PathBuf;

use zk_core::model::SessionId;
use zk_core::service::{Entry, EntryKind};

use super::format::{TranscriptFormat, TranscriptRef};
use super::session_builder::Built;
use crate::ImportError;

/// Alphabet of the digits in session ids.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Transcript of another program, converted to entries of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// Format of the transcript.
    pub format: TranscriptFormat,
    /// File that it was read from.
    pub path: PathBuf,
    /// Id of the session, always the same for one transcript, so that no transcript is imported twice.
    pub session: SessionId,
    /// Id of the conversation in the other program.
    pub own_id: String,
    /// Working directory.
    pub cwd: PathBuf,
    /// Title, if it has one.
    pub title: Option<String>,
    /// Parent session, if it names one.
    pub parent: Option<SessionId>,
    /// Time of creation in milliseconds since 1970.
    pub created_ms: u64,
    /// Entries, oldest first.
    pub entries: Vec<Entry>,
    /// Messages for the person about parts that were left out.
    pub notices: Vec<String>,
}

impl Transcript {
    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.entries.iter().filter(|entry| entry.kind.message().is_some()).count()
    }

    /// Title, or else the beginning of the first prompt.
    #[must_use]
    pub fn heading(&self) -> String {
        let prompt = || {
            self.entries.iter().find_map(|entry| match &entry.kind {
                EntryKind::Message { message, .. } if message.injected_by.is_none() => Some(message.text()),
                _ => None,
            })
        };
        let text = self.title.clone().or_else(prompt).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect()
    }
}

/// Metadata of a transcript, beside its entries.
pub(super) struct Facts {
    pub(super) own_id: String,
    pub(super) cwd: PathBuf,
    pub(super) title: Option<String>,
    pub(super) notices: Vec<String>,
}

impl Facts {
    pub(super) fn into_transcript(
        self,
        found: &TranscriptRef,
        built: Built,
    ) -> Result<Transcript, ImportError> {
        let Self { own_id, cwd, title, mut notices } = self;
        let Built { entries, notices: more } = built;
        let has_message = entries.iter().any(|entry| entry.kind.message().is_some());
        if !has_message {
            return Err(ImportError::Empty { path: found.path.clone(), format: found.format });
        }
        notices.extend(more);
        let created_ms = entries.first().map_or(0, |entry| entry.time_ms);
        let session = session_id(found.format, &own_id, created_ms);
        Ok(Transcript {
            format: found.format,
            path: found.path.clone(),
            session,
            own_id,
            cwd,
            title: title.filter(|title| !title.trim().is_empty()),
            parent: None,
            created_ms,
            entries,
            notices,
        })
    }
}

/// Computes the id of an imported session from its time and a digest of its id in the other program.
fn session_id(format: TranscriptFormat, own_id: &str, created_ms: u64) -> SessionId {
    let bytes = format.name().bytes().chain([b':']).chain(own_id.bytes());
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let digest = digest ^ (digest >> 24);
    let mut text = String::from("s_");
    for (value, digits) in [(created_ms, 9_u32), (digest, 8)] {
        for place in (0..digits).rev() {
            let digit = usize::try_from((value >> (place * 5)) & 31).unwrap_or_default();
            text.push(char::from(DIGITS.get(digit).copied().unwrap_or(b'0')));
        }
    }
    text.into()
}
