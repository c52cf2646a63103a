use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a regular file with `options`: follows no link at the end of the path, and never waits for a pipe or a device.
///
/// All files of zk's own state are opened with it, since anything may stand in their place.
///
/// ```
/// use std::fs::OpenOptions;
///
/// use zk_core::service::open_regular;
///
/// let refused = open_regular(OpenOptions::new().read(true), "/dev/null".as_ref()).unwrap_err();
/// assert_eq!(refused.to_string(), "it is not a regular file");
/// ```
///
/// # Errors
/// The system's error, and [`ErrorKind::PermissionDenied`] for a link or something else that is no regular file.
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => refused_error("a symbolic link"),
        // The path is a pipe without a reader, or a socket.
        Some(Errno::NXIO) => refused_error("not a regular file"),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused_error("not a regular file")) }
}

/// Reads a regular file of at most `most` bytes, opened with [`open_regular`].
///
/// # Errors
/// Those of [`open_regular`], the system's, and [`ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(OpenOptions::new().read(true), path)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

fn refused_error(found: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, format!("it is {found}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened_without_waiting() {
        let dir = std::env::temp_dir().join(format!("zk-regular-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let at = |name: &str| dir.join(name);
        std::fs::write(at("file"), "content").unwrap();
        mkfifoat(CWD, at("pipe"), Mode::RWXU).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir_all(at("dir")).unwrap();
        let (sent, done) = mpsc::channel();
        let paths = ["pipe", "link", "socket", "dir"].map(at).into_iter().chain(["/dev/zero".into()]);
        std::thread::spawn(move || {
            for path in paths {
                for options in [OpenOptions::new().read(true), OpenOptions::new().append(true)] {
                    let refused = open_regular(options, &path).map(drop).unwrap_err();
                    sent.send((path.clone(), refused)).unwrap();
                }
            }
        });
        let mut count = 0;
        while let Ok((path, refused)) = done.recv_timeout(Duration::from_secs(20)) {
            let is_told = refused.kind() == ErrorKind::PermissionDenied || path.ends_with("dir");
            assert!(is_told, "{}: {refused}", path.display());
            count += 1;
        }
        assert_eq!(count, 10);
        assert_eq!(read_regular(&at("file"), 7).unwrap(), b"content");
        assert_eq!(read_regular(&at("file"), 6).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
