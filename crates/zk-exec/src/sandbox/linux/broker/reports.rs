//! Reports of the broker to zk about created names that git looks for.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, readlinkat, statat};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};

use super::resolve::Place;

/// Largest record: a pipe writes so many bytes atomically.
const MAX_RECORD_BYTES: usize = 4096;
/// Maximum size of one reading in bytes, since commands may keep writing.
const MAX_READ_BYTES: usize = 1 << 20;
/// Names by which git recognises a repository or git directory, and names of files that start programs.
const NAMES: [&[u8]; 6] = [b".git", b"head", b"config", b"config.worktree", b"commondir", HOOKS];
/// Directory of git hooks.
const HOOKS: &[u8] = b"hooks";

const NAMED: u8 = b'N';
const MOVED: u8 = b'M';
const LOST: u8 = b'L';

/// Write end of the pipe to zk, shared by the brokers of all commands.
#[derive(Debug)]
pub(in crate::sandbox) struct Reports(OwnedFd);

/// Opens the pipe for reports; returns the write end and the read end.
pub(in crate::sandbox) fn channel() -> io::Result<(Reports, OwnedFd)> {
    // Non-blocking, so that a broker never waits for zk.
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((Reports(write), read))
}

impl Reports {
    /// Reports a name that a command has created, if git looks for it.
    pub(super) fn report_created(&self, place: &Place) {
        let name = place.bare_name().to_ascii_lowercase();
        if NAMES.contains(&&*name) || is_in_hooks(place) {
            self.send_record(NAMED, place);
        }
    }

    /// Reports the new name of a moved file or directory; a moved directory may contain repositories.
    pub(super) fn report_moved(&self, place: &Place) {
        self.report_created(place);
        let found = statat(&place.parent, place.bare_name(), AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory) {
            self.send_record(MOVED, place);
        }
    }

    fn send_record(&self, kind: u8, place: &Place) {
        let record = match path_above(place) {
            Ok(above) => [&[kind], above.as_bytes(), b"/", place.bare_name(), b"\0"].concat(),
            Err(_) => Vec::new(),
        };
        let fits = (1..=MAX_RECORD_BYTES).contains(&record.len());
        let record = if fits { record.as_slice() } else { &[LOST, 0] };
        // If the pipe is full, the reader notices that records may be missing.
        let _ = rustix::io::write(&self.0, record);
    }
}

fn path_above(place: &Place) -> rustix::io::Result<CString> {
    readlinkat(CWD, format!("/proc/self/fd/{}", place.parent.as_raw_fd()), Vec::new())
}

fn is_in_hooks(place: &Place) -> bool {
    let above = path_above(place);
    above.is_ok_and(|above| above.as_bytes().rsplit(|byte| *byte == b'/').next() == Some(HOOKS))
}

/// Reports since the last reading.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// Paths whose last component git looks for.
    pub(crate) named: Vec<PathBuf>,
    /// New paths of moved directories.
    pub(crate) moved: Vec<PathBuf>,
    /// Whether some reports may be missing.
    pub(crate) is_cut: bool,
}

/// Read ends of a sandbox's pipes: several if the sandbox was set up again after its process was killed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportReader(Arc<Mutex<Vec<OwnedFd>>>);

impl ReportReader {
    pub(crate) fn add(&self, end: OwnedFd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(end);
    }

    /// Takes all waiting reports. Does not block.
    pub(crate) fn take_reports(&self) -> Reported {
        let mut reported = Reported::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|end| read_reports(end, &mut reported));
        reported.named.sort();
        reported.named.dedup();
        reported.moved.sort();
        reported.moved.dedup();
        reported
    }
}

/// Fill level of a pipe above which a record may have been refused. Any two adjacent pages hold more than one
/// page of records, and the kernel gives a pipe fewer pages once its user has many pipes.
fn max_waiting_bytes(end: &OwnedFd) -> usize {
    let pages = fcntl_getpipe_size(end).unwrap_or_default() / MAX_RECORD_BYTES;
    (pages / 2).saturating_sub(1) * MAX_RECORD_BYTES
}

/// Reads all of a pipe's content; returns whether the pipe still has a writer.
fn read_reports(end: &OwnedFd, into: &mut Reported) -> bool {
    let (mut bytes, mut chunk) = (Vec::new(), [0; MAX_RECORD_BYTES]);
    let is_open = loop {
        match rustix::io::read(end, &mut chunk) {
            Ok(0) => break false,
            Ok(read) => bytes.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break true,
        }
        if bytes.len() > MAX_READ_BYTES {
            break true;
        }
    };
    into.is_cut |= bytes.len() > max_waiting_bytes(end);
    for record in bytes.split(|byte| *byte == 0) {
        let Some((kind, path)) = record.split_first() else { continue };
        let path = PathBuf::from(OsStr::from_bytes(path));
        match *kind {
            NAMED => into.named.push(path),
            MOVED => into.moved.push(path),
            _ => into.is_cut = true,
        }
    }
    is_open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &std::path::Path, name: &str) -> Place {
        let dir = std::fs::File::open(dir).unwrap();
        Place::of(std::os::fd::AsFd::as_fd(&dir), name.as_bytes(), std::process::id()).unwrap()
    }

    #[test]
    fn a_full_pipe_of_few_pages_is_known_to_have_lost_some_reports() {
        let dir = tempfile::tempdir().unwrap();
        for pages in [1, 2, 4] {
            let (reports, end) = channel().unwrap();
            rustix::pipe::fcntl_setpipe_size(&end, pages * MAX_RECORD_BYTES).unwrap();
            let reader = ReportReader::default();
            reader.add(end);
            for _ in 0..2000 {
                reports.report_created(&place(dir.path(), "HEAD"));
            }
            assert!(reader.take_reports().is_cut, "{pages}");
        }
    }

    #[test]
    fn a_full_pipe_of_reports_is_known_to_have_lost_some() {
        let dir = tempfile::tempdir().unwrap();
        let (reports, end) = channel().unwrap();
        let reader = ReportReader::default();
        reader.add(end);
        reports.report_created(&place(dir.path(), ".GIT"));
        reports.report_created(&place(dir.path(), "other"));
        let reported = reader.take_reports();
        assert!(!reported.is_cut && reported.named == [dir.path().canonicalize().unwrap().join(".GIT")]);
        for _ in 0..4000 {
            reports.report_created(&place(dir.path(), "HEAD"));
        }
        assert!(reader.take_reports().is_cut);
        // One read leaves no remainder that could be taken for a whole record later.
        while reader.take_reports().is_cut {}
        reports.report_moved(&place(
            dir.path().parent().unwrap(),
            dir.path().file_name().unwrap().to_str().unwrap(),
        ));
        assert_eq!(reader.take_reports().moved, [dir.path().canonicalize().unwrap()]);
    }
}
