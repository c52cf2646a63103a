use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::Redactor;

use super::own_files;

/// Size in bytes at which zk's own log is rotated, and any other log ends.
const MAX_LOG_BYTES: u64 = 8 << 20;

/// Log that has no secrets and does not grow without bound.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// Path to which a full log is moved; `None` for a log that ends when it is full.
    before: Option<PathBuf>,
    /// Bytes that may still be written before the log is full.
    left: u64,
    max_bytes: u64,
    has_ended: bool,
    redactor: Arc<Redactor>,
}

impl LogFile {
    /// Opens the log for appending. A full log is moved to `before`; without that path nothing more is written
    /// to it.
    ///
    /// # Errors
    /// When the file cannot be opened, or is a link or no regular file.
    pub fn open(path: PathBuf, before: Option<PathBuf>, redactor: Arc<Redactor>) -> io::Result<Self> {
        let file = open(&path)?;
        // The file of a log that is not rotated may have been long before.
        let held = if before.is_some() { file.metadata().map_or(0, |log| log.len()) } else { 0 };
        let (left, max_bytes) = (MAX_LOG_BYTES.saturating_sub(held), MAX_LOG_BYTES);
        Ok(Self { path, file, before, left, max_bytes, has_ended: false, redactor })
    }

    /// Rotates the log, or writes its last line if it has no path to be moved to.
    fn rotate(&mut self) -> io::Result<()> {
        self.left = self.max_bytes;
        let Some(before) = &self.before else {
            self.has_ended = true;
            let most = self.max_bytes >> 20;
            return writeln!(self.file, "This log ends here: zk writes no more than {most} MiB to it.");
        };
        // Another zk process may have rotated the log already.
        let (ours, there) = (self.file.metadata()?.ino(), std::fs::symlink_metadata(&self.path));
        if there.is_ok_and(|there| there.ino() == ours) {
            std::fs::rename(&self.path, before)?;
        }
        self.file = open(&self.path)?;
        Ok(())
    }
}

impl Write for LogFile {
    /// Writes a whole event, which is one line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if self.has_ended {
            return Ok(event.len());
        }
        let text = String::from_utf8_lossy(event);
        let clean = self.redactor.redact(&text);
        let length = clean.len() as u64;
        if length > self.left
            && let Err(error) = self.rotate()
        {
            self.has_ended = true;
            return Err(error);
        }
        if !self.has_ended {
            self.file.write_all(clean.as_bytes())?;
            self.left = self.left.saturating_sub(length);
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a log to append to it; nobody but its owner reads it from then on.
fn open(path: &Path) -> io::Result<File> {
    let file = own_files::open(path, OpenOptions::new().append(true).create(true))?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "zkey-canary-0123456789";

    fn log(dir: &Path, before: Option<PathBuf>) -> LogFile {
        let redactor = Redactor::new();
        redactor.learn(KEY);
        let log = LogFile::open(dir.join("a.log"), before, Arc::new(redactor)).unwrap();
        LogFile { left: 100, max_bytes: 100, ..log }
    }

    #[test]
    fn a_line_of_any_library_is_written_without_secrets() {
        let dir = tempfile::tempdir().unwrap();
        log(dir.path(), None).write_all(format!("WARN lib: sent {KEY}\n").as_bytes()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
        assert!(text.ends_with("WARN lib: sent [redacted]\n"), "{text}");
    }

    #[test]
    fn a_flood_does_not_make_a_log_grow_without_bound() {
        let dir = tempfile::tempdir().unwrap();
        let (path, before) = (dir.path().join("a.log"), dir.path().join("b.log"));
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |log| log.len());
        let mut own = log(dir.path(), Some(before.clone()));
        (0..100).for_each(|number| own.write_all(format!("line {number:04}\n").as_bytes()).unwrap());
        assert!(length(&path) <= 100 && length(&before) <= 100);
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("line 0099\n"));
        assert!(std::fs::read_to_string(&before).unwrap().starts_with("line "));
        std::fs::remove_file(&path).unwrap();
        let mut named = log(dir.path(), None);
        (0..100).for_each(|number| named.write_all(format!("line {number:04}\n").as_bytes()).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("line ")).count(), 10, "{text}");
        assert_eq!(text.matches("This log ends here").count(), 1, "{text}");
    }
}
