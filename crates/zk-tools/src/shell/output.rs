//! Output of a command: its end in memory, and all of it in a file once it is more than that.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zk_core::kernel::Cx;
use zk_core::service::{RedactedPieces, Redactor, make_private_dir};

use crate::text::size;

/// Directory of the present session for outputs too large for a result: `cx.service::<OutputDir>()`. Tools
/// may read its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputDir(pub PathBuf);

/// Directory for the file of an output, with the maximum size of the file.
#[derive(Clone, Debug)]
pub(crate) struct OutputPlace {
    dir: PathBuf,
    redactor: Option<Arc<Redactor>>,
    max_bytes: u64,
}

impl OutputPlace {
    /// Output place of this run's session; without one, output beyond the memory limit is lost.
    pub(crate) fn of(cx: &Cx, max_bytes: u64) -> Option<Self> {
        let dir = cx.service::<OutputDir>()?.0.clone();
        Some(Self { dir, redactor: cx.service::<Redactor>(), max_bytes })
    }

    /// Creates an empty file for an output, under a new name.
    pub(crate) fn create(&self) -> io::Result<(File, PathBuf)> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        make_private_dir(&self.dir)?;
        let dir = self.dir.canonicalize()?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("output-{}-{number}.log", std::process::id()));
            match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => return done.map(|file| (file, path)),
            }
        }
    }
}

/// The output of one command, in memory that does not grow with it.
#[derive(Debug)]
pub(crate) struct Output {
    max: usize,
    kept: Vec<u8>,
    total: u64,
    spill: Spilled,
}

/// State of the file for output that memory does not hold.
#[derive(Debug)]
enum Spilled {
    /// No file: the whole output is in memory.
    Not(Option<OutputPlace>),
    To(SpillFile),
    Failed(String),
}

impl Output {
    /// Keeps the last `max` bytes in memory.
    pub(crate) fn new(max: usize, place: Option<OutputPlace>) -> Self {
        Self { max, kept: Vec::new(), total: 0, spill: Spilled::Not(place) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let before = self.total;
        self.total += bytes.len() as u64;
        if self.total > self.max as u64 {
            self.spill(before, bytes);
        }
        let bytes = bytes.get(bytes.len().saturating_sub(self.max)..).unwrap_or_default();
        // The buffer grows to twice the size before its front is cut, so that each byte is moved at most once.
        if self.kept.len() + bytes.len() > self.max * 2 {
            let surplus = (self.kept.len() + bytes.len()).saturating_sub(self.max).min(self.kept.len());
            self.kept.drain(..surplus);
        }
        self.kept.extend_from_slice(bytes);
    }

    fn spill(&mut self, before: u64, bytes: &[u8]) {
        if let Spilled::Not(place) = &mut self.spill {
            self.spill = match place.take() {
                // A file is only created while memory still has the whole output.
                Some(place) if before == self.kept.len() as u64 => match SpillFile::create(place) {
                    Ok(mut file) => {
                        file.write(&self.kept);
                        Spilled::To(file)
                    }
                    Err(error) => Spilled::Failed(error.to_string()),
                },
                Some(_) | None => Spilled::Failed(String::new()),
            };
        }
        if let Spilled::To(file) = &mut self.spill {
            file.write(bytes);
        }
    }

    /// Size of the whole output so far, in bytes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn ends_in_line(&self) -> bool {
        self.kept.last().is_none_or(|last| *last == b'\n')
    }

    /// Returns the output after the first `from` bytes; `cut` of them are omitted.
    pub(crate) fn since(&self, from: u64) -> Since {
        let first = (self.total - self.kept.len() as u64).max(self.total.saturating_sub(self.max as u64));
        let begin = from.max(first);
        let skip = usize::try_from(begin + self.kept.len() as u64 - self.total).unwrap_or_default();
        let mut bytes = self.kept.get(skip..).unwrap_or_default();
        let mut cut = begin - from.min(begin);
        if cut > 0 {
            let inside = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            bytes = bytes.get(inside..).unwrap_or_default();
            cut += inside as u64;
        }
        Since { cut, text: String::from_utf8_lossy(bytes).into_owned() }
    }

    /// Writes the part of the pending output that is final to the file.
    pub(crate) fn flush_file(&mut self) {
        if let Spilled::To(SpillFile { file: Some(file), failed, .. }) = &mut self.spill
            && let Err(error) = file.flush()
        {
            *failed = Some(error.to_string());
        }
    }

    /// Writes the rest to the file at the end of the output.
    pub(crate) fn flush(&mut self) {
        if let Spilled::To(file) = &mut self.spill {
            file.finish();
        }
    }

    /// File with the whole output; `None` if there is none, or a part of it is missing.
    pub(crate) fn whole_file(&self) -> Option<&Path> {
        match &self.spill {
            Spilled::To(file) if !file.is_cut && file.failed.is_none() => Some(&file.path),
            Spilled::To(_) | Spilled::Failed(_) | Spilled::Not(_) => None,
        }
    }

    /// Text for the model about the file with the output; `None` without a file.
    pub(crate) fn describe_file(&self) -> Option<String> {
        match &self.spill {
            Spilled::To(file) => Some(file.describe_file()),
            Spilled::Failed(error) if !error.is_empty() => {
                Some(format!("the rest is lost, it could not be written to a file: {error}"))
            }
            Spilled::Failed(_) | Spilled::Not(_) => None,
        }
    }
}

/// Part of an output, from an offset on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) cut: u64,
    pub(crate) text: String,
}

/// Redacting writer of an output file.
#[derive(Debug)]
struct SpillFile {
    file: Option<BufWriter<File>>,
    path: PathBuf,
    pieces: Option<RedactedPieces>,
    /// First bytes of a character whose other bytes have not been printed yet.
    partial: Vec<u8>,
    left: u64,
    max_bytes: u64,
    is_cut: bool,
    failed: Option<String>,
}

impl SpillFile {
    fn create(place: OutputPlace) -> io::Result<Self> {
        let (file, path) = place.create()?;
        Ok(Self {
            file: Some(BufWriter::with_capacity(64 * 1024, file)),
            path,
            pieces: place.redactor.map(RedactedPieces::new),
            partial: Vec::new(),
            left: place.max_bytes,
            max_bytes: place.max_bytes,
            is_cut: false,
            failed: None,
        })
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.file.is_none() {
            self.is_cut = self.failed.is_none();
            return;
        }
        let Some(pieces) = &mut self.pieces else { return self.write_clean(bytes) };
        self.partial.extend_from_slice(bytes);
        let rest = self.partial.split_off(self.partial.len() - unfinished(&self.partial));
        let piece = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial = rest;
        let clean = pieces.push(piece);
        self.write_clean(clean.as_bytes());
    }

    fn write_clean(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.left -= fits as u64;
        let written = file.write_all(bytes.get(..fits).unwrap_or_default());
        self.is_cut = fits < bytes.len();
        if let Err(error) = written {
            self.failed = Some(error.to_string());
            self.file = None;
        } else if self.left == 0 {
            let _ = file.flush();
            self.file = None;
        }
    }

    fn finish(&mut self) {
        let rest = std::mem::take(&mut self.partial);
        if let Some(pieces) = &mut self.pieces {
            let mut last = pieces.push(String::from_utf8_lossy(&rest).into_owned());
            last.push_str(&pieces.finish());
            self.write_clean(last.as_bytes());
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.flush()
        {
            self.failed = Some(error.to_string());
        }
    }

    fn describe_file(&self) -> String {
        let path = self.path.display();
        match (&self.failed, self.is_cut) {
            (Some(error), _) => {
                format!("a part of it is in {path}, then the file could not be written: {error}")
            }
            (None, true) => format!("its first {} are in {path}", size(self.max_bytes)),
            (None, false) => format!("all of it is in {path}"),
        }
    }
}

/// Counts the bytes at the end that are the beginning of a character.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.get(bytes.len().saturating_sub(4)..).unwrap_or_default();
    let starts = last.iter().rposition(|byte| *byte >= 0xc0);
    let Some(start) = starts.and_then(|at| last.get(at..)) else { return 0 };
    let wanted = match start.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        Some(_) | None => 0,
    };
    if start.len() < wanted { start.len() } else { 0 }
}

/// The bytes of a file after the first `from`, the last `max` of them.
pub(crate) fn read_since(path: &Path, from: u64, max: usize) -> io::Result<(u64, Since)> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(path)?;
    let total = file.metadata()?.len();
    let begin = from.min(total).max(total.saturating_sub(max as u64));
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(max as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((begin + bytes.len() as u64, Since { cut: begin - from.min(begin), text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &Path, max_bytes: u64) -> OutputPlace {
        let redactor = Arc::new(Redactor::new());
        redactor.learn("correct-horse-battery");
        OutputPlace { dir: dir.to_owned(), redactor: Some(redactor), max_bytes }
    }

    fn file_of(output: &Output) -> String {
        match &output.spill {
            Spilled::To(file) => std::fs::read_to_string(&file.path).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_fits_memory_is_in_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::new(8, Some(place(dir.path(), 100)));
        output.write(b"12345678");
        assert_eq!(output.since(0), Since { cut: 0, text: "12345678".to_owned() });
        assert_eq!(output.since(6), Since { cut: 0, text: "78".to_owned() });
        assert_eq!(output.describe_file(), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_has_all_of_it_without_secrets_also_those_cut_in_two() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::new(8, Some(place(dir.path(), 1 << 20)));
        let text = "grüße: correct-horse-battery and more of it\n".repeat(20);
        for piece in text.as_bytes().chunks(7) {
            output.write(piece);
        }
        output.flush();
        assert_eq!(file_of(&output), text.replace("correct-horse-battery", "[redacted]"));
        let since = output.since(0);
        assert_eq!((since.text.as_str(), since.cut), ("e of it\n", text.len() as u64 - 8));
        assert!(output.describe_file().unwrap().starts_with("all of it is in "));
    }

    #[test]
    fn a_file_ends_at_its_limit_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::new(4, Some(place(dir.path(), 10)));
        for _ in 0..1_000 {
            output.write(b"abcdefgh ");
        }
        output.flush();
        assert_eq!(file_of(&output).len(), 10);
        assert!(output.describe_file().unwrap().starts_with("its first 10 B are in "));
        assert_eq!(output.total(), 9_000);
    }
}
