use zk_core::service::ENTRY_VERSION;

use super::format::TranscriptRef;
use super::lines::{JsonLines, Line};
use super::transcript::Transcript;
use crate::{ImportError, TRANSCRIPT_VERSION, TranscriptLine};

/// Reads a session that zk exported, completely or not at all.
pub(super) fn read(found: &TranscriptRef) -> Result<Transcript, ImportError> {
    let mut lines = JsonLines::open(&found.path)?;
    let fail = |line: u64, reason: &str| ImportError::Line {
        path: found.path.clone(),
        line,
        reason: reason.to_owned(),
    };
    let mut header = None;
    let mut entries = Vec::new();
    let mut end = None;
    while let Some(line) = lines.next::<TranscriptLine>()? {
        let number = lines.line_number();
        if end.is_some() {
            return Err(fail(number, "something follows the last line of the session"));
        }
        match (line, &header) {
            (Line::Unreadable(reason), _) => return Err(fail(number, &reason)),
            (Line::Read(TranscriptLine::ZkSession(read)), None) => {
                for (version, known) in
                    [(&read.version, TRANSCRIPT_VERSION), (&read.entry_version, ENTRY_VERSION)]
                {
                    if is_newer(version, known) {
                        return Err(ImportError::TooNew {
                            path: found.path.clone(),
                            found: version.clone(),
                            known,
                        });
                    }
                }
                header = Some(read);
            }
            (Line::Read(TranscriptLine::ZkSession(_)), Some(_)) => {
                return Err(fail(number, "a second session begins here; a file holds one"));
            }
            (Line::Read(_), None) => return Err(fail(number, "the first line is not of a session")),
            (Line::Read(TranscriptLine::Entry(entry)), Some(_)) => entries.push(entry),
            (Line::Read(TranscriptLine::End { entries }), Some(_)) => end = Some(entries),
        }
    }
    let number = lines.line_number();
    let header = header.ok_or_else(|| ImportError::Unknown(found.path.clone()))?;
    match end {
        None => return Err(fail(number, "the last line is missing: the file is incomplete")),
        Some(count) if count != entries.len() as u64 => {
            return Err(fail(number, &format!("{count} entries were written, {} are there", entries.len())));
        }
        Some(_) => {}
    }
    if !is_session_id(&header.id) {
        return Err(fail(1, "the id is not one of a session"));
    }
    if entries.is_empty() {
        return Err(ImportError::Empty { path: found.path.clone(), format: found.format });
    }
    Ok(Transcript {
        format: found.format,
        path: found.path.clone(),
        session: header.id.as_str().into(),
        own_id: header.id,
        cwd: header.cwd.into(),
        title: header.title,
        parent: header.parent.filter(|parent| is_session_id(parent)).map(Into::into),
        created_ms: header.created_ms,
        entries,
        notices: Vec::new(),
    })
}

/// Whether a text is an id that is safe as a file name.
fn is_session_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&id.len()) && id.chars().all(is_plain) && !id.starts_with('-')
}

/// Whether a version has a greater major part than the known one, or is no version.
fn is_newer(version: &str, known: &str) -> bool {
    let parts = |version: &str| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?))
    };
    parts(version).is_none_or(|found| Some(found) > parts(known))
}
