//! Compression of outputs of which the result has only the end: the file with the whole output is read instead.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::rules::complains;
use crate::policy::visible_tags;
use crate::text::{head, size, tail};

/// Maximum examined size of a file in bytes: half from its beginning, half from its end.
const MAX_READ_BYTES: u64 = 8 << 20;

/// Output of which a result contains only the end.
#[derive(Clone, Debug)]
pub(crate) struct CutOutput {
    /// Text of the result before the end of the output.
    pub(crate) head: String,
    /// Text of the result after the end of the output.
    pub(crate) footer: String,
    /// File with the whole output.
    pub(crate) file: Option<PathBuf>,
    /// Maximum size of the output in a result, in bytes.
    pub(crate) limit: usize,
}

/// Examined part of an output.
pub(super) struct Whole {
    pub(super) text: String,
    /// Size on disk, in bytes.
    pub(super) bytes: usize,
    pub(super) file: PathBuf,
    pub(super) footer: String,
    pub(super) limit: usize,
}

impl CutOutput {
    /// Full output, if a file has it and `result` is unchanged since the tool returned it.
    pub(super) fn whole(self, result: &str) -> Option<Whole> {
        let file = self.file?;
        if !result.starts_with(&self.head) || !result.ends_with(&self.footer) {
            return None;
        }
        let (text, bytes) = read(&file, MAX_READ_BYTES).ok()?;
        let text = visible_tags(&text).into_owned();
        Some(Whole { text, bytes, file, footer: self.footer, limit: self.limit })
    }
}

/// The lines of a file, without those in the middle if there are more than `most` bytes; and its size.
fn read(path: &Path, most: u64) -> io::Result<(String, usize)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    let mut begin = Vec::new();
    if length <= most {
        file.take(most).read_to_end(&mut begin)?;
        return Ok((String::from_utf8_lossy(&begin).into_owned(), bytes));
    }
    let half = most / 2;
    file.by_ref().take(half).read_to_end(&mut begin)?;
    file.seek(SeekFrom::Start(length - half))?;
    let mut end = Vec::new();
    file.take(half).read_to_end(&mut end)?;
    let begin = String::from_utf8_lossy(&begin);
    let begin = begin.rsplit_once('\n').map_or(&*begin, |(lines, _)| lines);
    let end = String::from_utf8_lossy(&end);
    let end = end.split_once('\n').map_or(&*end, |(_, lines)| lines);
    let between = size(length - half * 2);
    Ok((format!("{begin}\n[… {between} not looked at]\n{end}"), bytes))
}

/// Shortened text, and the number of lines that were left out.
pub(super) struct Fitted {
    pub(super) text: String,
    pub(super) left_out: usize,
}

/// Truncates a text to `limit` bytes: its end, and up to a quarter of the space for earlier lines that report
/// errors, the first ones first.
pub(super) fn fit(text: &str, limit: usize) -> Fitted {
    if text.len() <= limit {
        return Fitted { text: text.to_owned(), left_out: 0 };
    }
    let early = limit / 4;
    let end = tail(text, limit - early);
    let end = end.split_once('\n').map_or(end, |(_, lines)| lines);
    let before = text.strip_suffix(end).unwrap_or_default();
    let (mut out, mut left_out, mut gap) = (String::new(), 0, 0);
    for line in before.lines() {
        let note = if gap > 0 { gap_note(gap) } else { String::new() };
        let shown = head(line, 500);
        // Room for the note of the last gap, too.
        if out.len() + note.len() + shown.len() + 1 + MAX_GAP_NOTE_BYTES <= early && complains(line) {
            out.push_str(&note);
            out.push_str(shown);
            out.push('\n');
            gap = 0;
        } else {
            gap += 1;
            left_out += 1;
        }
    }
    if gap > 0 {
        out.push_str(&gap_note(gap));
    }
    out.push_str(end);
    Fitted { text: out, left_out }
}

/// Maximum size of a note about a gap, in bytes.
const MAX_GAP_NOTE_BYTES: usize = 48;

fn gap_note(lines: usize) -> String {
    format!("[… {lines} lines left out]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_end_and_earlier_errors() {
        let mut text: String = (0..2_000).map(|n| format!("line {n} of a log\n")).collect();
        text.insert_str(0, "error: the first\n");
        let fitted = fit(&text, 2_000);
        assert!(fitted.text.len() <= 2_000, "{}", fitted.text.len());
        assert!(fitted.text.starts_with("error: the first\n[… 19"), "{}", fitted.text);
        assert!(fitted.text.ends_with("line 1999 of a log\n"));
        let kept = fitted.text.lines().filter(|line| !line.starts_with('[')).count();
        assert_eq!(fitted.left_out + kept, 2_001);
        assert_eq!(fit("short", 10).text, "short");
    }

    #[test]
    fn both_ends_of_a_huge_file_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let text: String = (0..1_000).map(|n| format!("line {n:04}\n")).collect();
        std::fs::write(&path, &text).unwrap();
        let (looked, bytes) = read(&path, 100).unwrap();
        assert_eq!(bytes, 10_000);
        assert!(looked.starts_with("line 0000\n") && looked.ends_with("line 0999\n"), "{looked}");
        assert!(looked.contains("\n[… 9.7 KB not looked at]\nline 0996\n"), "{looked}");
        assert_eq!(read(&path, 10_000).unwrap().0, text);
    }
}
