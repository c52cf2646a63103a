//! Zk's own files, opened without blocking, where a pipe or device may stand in their place.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access as access_to};
use rustix::io::Errno;
use zk_core::service::{HostFileError, HostFiles, HostRead, open_regular};

use crate::LocalHostFiles;

/// Size limit of zk's own records, in bytes.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// Reads a regular file of at most `most` bytes, without blocking on a pipe.
///
/// # Errors
/// When the file is missing, no regular one, too large, or cannot be read.
pub fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    match LocalHostFiles::new().read(path, &HostRead::whole(most)) {
        Ok(file) => Ok(file.bytes),
        Err(HostFileError::Missing) => Err(io::ErrorKind::NotFound.into()),
        Err(HostFileError::Io(error)) => Err(error),
        Err(
            error @ (HostFileError::NotRegular { .. }
            | HostFileError::TooLarge { .. }
            | HostFileError::ForeignOwner { .. }
            | HostFileError::Outside { .. }),
        ) => Err(io::Error::other(error)),
    }
}

/// Reads a file that is text, as [`read`] does.
///
/// # Errors
/// Those of [`read`], and bytes that are not UTF-8.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Opens a regular file that is no link, without blocking on a pipe. A new one is its owner's only.
///
/// # Errors
/// When the file cannot be opened so, or is a link or no regular file.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_regular(options.mode(0o600), path)
}

/// Whether files can be made in `dir`, which is made where it is absent.
///
/// # Errors
/// The nearest place that exists, and why nothing can be made in it.
pub fn check_writable(dir: &Path) -> Result<(), (PathBuf, io::Error)> {
    let nearest = dir.ancestors().find(|place| place.symlink_metadata().is_ok()).unwrap_or(dir);
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let reached = if nearest.is_dir() { access_to(nearest, access) } else { Err(Errno::NOTDIR) };
    reached.map_err(|error| (nearest.to_path_buf(), error.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn nobody_waits_for_a_pipe_in_the_place_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let (path, reading, writing) = (pipe.clone(), pipe.clone(), pipe);
        type Attempt = Box<dyn FnOnce() -> bool + Send>;
        let attempts: [(&str, Attempt); 3] = [
            ("a text", Box::new(move || read_text(&path, MAX_RECORD_BYTES).is_err())),
            ("a file to read", Box::new(move || open(&reading, OpenOptions::new().read(true)).is_err())),
            (
                "a file to append to",
                Box::new(move || open(&writing, OpenOptions::new().append(true)).is_err()),
            ),
        ];
        for (what, attempt) in attempts {
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || tell.send(attempt()));
            assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(true), "{what}");
        }
    }
}
