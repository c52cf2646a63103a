use super::format::{TranscriptFormat, TranscriptRef};
use super::transcript::Transcript;
use super::{claude, codex, opencode, pi, zk};
use crate::ImportError;

/// Reads a transcript.
///
/// ```
/// let missing = zk_transcripts::list_transcripts("/nowhere/talk.jsonl".as_ref(), None);
/// assert!(missing.unwrap_err().to_string().starts_with("cannot read /nowhere/talk.jsonl"));
/// ```
///
/// # Errors
/// [`ImportError`]; nothing was changed.
pub fn read_transcript(found: &TranscriptRef) -> Result<Transcript, ImportError> {
    match found.format {
        TranscriptFormat::Claude => claude::read(found),
        TranscriptFormat::Codex => codex::read(found),
        TranscriptFormat::Pi => pi::read(found),
        TranscriptFormat::Opencode => opencode::read(found),
        TranscriptFormat::Zk => zk::read(found),
    }
}
