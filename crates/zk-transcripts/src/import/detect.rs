use std::fs::OpenOptions;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zk_core::service::open_regular;

use super::format::{TranscriptFormat, TranscriptRef};
use super::lines::JsonLines;
use super::opencode;
use crate::ImportError;

/// Magic bytes of an SQLite database.
const SQLITE_HEAD: &[u8; 16] = b"SQLite format 3\0";

/// Number of lines at the beginning of a file by which its format is detected.
const LOOKED_AT_LINES: usize = 8;

/// Maximum depth of directories in which transcripts are searched.
const MAX_DEPTH: usize = 6;

/// Transcripts in a file, or in the files of a directory. Their format is found by their content; with `format`, other files
/// of a directory are left out.
///
/// # Errors
/// [`ImportError::Read`]; [`ImportError::Unknown`] for a file that is no transcript, [`ImportError::NoneIn`] for a directory
/// without any.
pub fn list_transcripts(
    path: &Path,
    format: Option<TranscriptFormat>,
) -> Result<Vec<TranscriptRef>, ImportError> {
    let read = |source| ImportError::Read { path: path.to_path_buf(), source };
    if !std::fs::metadata(path).map_err(read)?.is_dir() {
        // A symbolic link is followed only if the person named it.
        let path = match path.is_symlink() {
            true => &path.canonicalize().map_err(read)?,
            false => path,
        };
        let found = detect_format(path)?.filter(|found| format.is_none_or(|format| format == *found));
        return transcripts_of(path, found.ok_or_else(|| ImportError::Unknown(path.to_path_buf()))?);
    }
    let mut files = Vec::new();
    collect_files(path, 0, &mut files).map_err(read)?;
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let Ok(Some(own)) = detect_format(&file) else { continue };
        if format.is_none_or(|format| format == own) {
            found.extend(transcripts_of(&file, own).unwrap_or_default());
        }
    }
    if found.is_empty() {
        return Err(ImportError::NoneIn(path.to_path_buf()));
    }
    Ok(found)
}

fn transcripts_of(path: &Path, format: TranscriptFormat) -> Result<Vec<TranscriptRef>, ImportError> {
    if format == TranscriptFormat::Opencode && is_sqlite(path)? {
        return opencode::list_sessions(path);
    }
    Ok(vec![TranscriptRef { format, path: path.to_path_buf(), session: None }])
}

/// Collects the regular files with the extensions of transcripts, except those of sub-agents.
pub(super) fn collect_files(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && depth < MAX_DEPTH && entry.file_name() != "subagents" {
            // A directory that cannot be read is skipped.
            let _ = collect_files(&path, depth + 1, files);
        } else if kind.is_file() {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let is_database = path.file_name().is_some_and(|name| name == "opencode.db");
            if ending == "jsonl" || is_database {
                files.push(path);
            }
        }
    }
    Ok(())
}

fn is_sqlite(path: &Path) -> Result<bool, ImportError> {
    let read = |source| ImportError::Read { path: path.to_path_buf(), source };
    let mut head = Vec::new();
    open_regular(OpenOptions::new().read(true), path)
        .map_err(read)?
        .take(SQLITE_HEAD.len() as u64)
        .read_to_end(&mut head)
        .map_err(read)?;
    Ok(head == SQLITE_HEAD)
}

/// Detects the format of a file by its content; `None` if the format is unknown.
fn detect_format(path: &Path) -> Result<Option<TranscriptFormat>, ImportError> {
    if is_sqlite(path)? {
        return Ok(Some(TranscriptFormat::Opencode));
    }
    let mut lines = JsonLines::open(path)?;
    for _ in 0..LOOKED_AT_LINES {
        let Some(line) = lines.next::<Value>()? else { break };
        let super::lines::Line::Read(line) = line else { continue };
        let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
        let has = |key: &str| line.get(key).is_some();
        let format = match kind {
            "zk_session" => TranscriptFormat::Zk,
            "session_meta" if has("payload") => TranscriptFormat::Codex,
            "session" if has("cwd") || has("version") => TranscriptFormat::Pi,
            "summary" if has("leafUuid") => TranscriptFormat::Claude,
            _ if has("sessionId") => TranscriptFormat::Claude,
            "" if has("timestamp") && has("id") => TranscriptFormat::Codex,
            _ if opencode::is_export(&line) => TranscriptFormat::Opencode,
            _ => continue,
        };
        return Ok(Some(format));
    }
    // `opencode export` writes a single JSON object over many lines.
    let mut head = Vec::new();
    let read = |source| ImportError::Read { path: path.to_path_buf(), source };
    open_regular(OpenOptions::new().read(true), path)
        .map_err(read)?
        .take(4096)
        .read_to_end(&mut head)
        .map_err(read)?;
    let head = String::from_utf8_lossy(&head);
    let is_export =
        head.trim_start().starts_with('{') && head.contains("\"info\"") && head.contains("\"ses_");
    Ok(is_export.then_some(TranscriptFormat::Opencode))
}
