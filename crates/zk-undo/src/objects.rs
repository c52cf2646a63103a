//! Contents of the journal: private files named by the SHA-256 of their bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest::{Context, SHA256};
use zk_core::service::{make_private_dir, open_regular};

use crate::UndoError;

/// Size of the pieces in which contents are copied, in bytes.
const PIECE_BYTES: usize = 128 * 1024;

/// Store of contents by their hash, with a limit on its total size.
#[derive(Debug)]
pub(crate) struct Objects {
    dir: PathBuf,
    max_bytes: u64,
    /// Size of all contents in bytes; `u64::MAX` until it is counted.
    total: AtomicU64,
    /// Number of the next temporary file of this process.
    next: AtomicU64,
    /// Whether contents survive a power cut once they are kept.
    is_synced: bool,
}

impl Objects {
    pub(crate) fn new(dir: PathBuf, max_bytes: u64) -> Self {
        let (total, next) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Self { dir, max_bytes, total, next, is_synced: false }
    }

    /// Store without a limit, whose contents survive a power cut.
    pub(crate) fn lasting(dir: PathBuf) -> Self {
        Self { is_synced: true, ..Self::new(dir, u64::MAX) }
    }

    /// Path at which the content with this hash is kept.
    pub(crate) fn path(&self, hash: &str) -> PathBuf {
        let (first, rest) = hash.split_at_checked(2).unwrap_or(("00", hash));
        self.dir.join(first).join(rest)
    }

    pub(crate) fn has(&self, hash: &str) -> bool {
        is_hash(hash) && self.path(hash).is_file()
    }

    /// Keeps bytes and returns their hash; `None` if the journal is full.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<Option<String>, UndoError> {
        let hash = hash_of(bytes);
        if self.has(&hash) {
            return Ok(Some(hash));
        }
        if !self.has_room(bytes.len() as u64) {
            return Ok(None);
        }
        let (mut file, temporary) = self.create_temporary()?;
        if let Err(error) = file.write_all(bytes).and_then(|()| self.sync(&file)) {
            let _ = std::fs::remove_file(&temporary);
            return Err(UndoError::io("write", &temporary)(error));
        }
        self.move_into_place(&temporary, &hash, bytes.len() as u64)?;
        Ok(Some(hash))
    }

    /// Keeps the content of an open file, as a clone where the file system can; `None` if the journal is full.
    pub(crate) fn put_file(&self, from: &File, size: u64) -> Result<Option<String>, UndoError> {
        if !self.has_room(size) {
            return Ok(None);
        }
        let (mut file, temporary) = self.create_temporary()?;
        let copied = copy_and_hash(from, &mut file).and_then(|copied| self.sync(&file).map(|()| copied));
        let (hash, size) = match copied {
            Ok(copied) => copied,
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                return Err(UndoError::io("write", &temporary)(error));
            }
        };
        if self.has(&hash) {
            let _ = std::fs::remove_file(&temporary);
        } else {
            self.move_into_place(&temporary, &hash, size)?;
        }
        Ok(Some(hash))
    }

    /// Opens a content, after it was checked against its hash.
    pub(crate) fn open(&self, hash: &str) -> Result<File, UndoError> {
        let path = self.path(hash);
        if !is_hash(hash) {
            return Err(UndoError::damaged(&path, "no such content"));
        }
        let opened = open_regular(OpenOptions::new().read(true), &path);
        let mut file = opened.map_err(UndoError::io("read", &path))?;
        let (found, _) = hash_reader(&mut file, None).map_err(UndoError::io("read", &path))?;
        if found != hash {
            return Err(UndoError::damaged(&path, "its bytes are not those that were kept"));
        }
        file.rewind().map_err(UndoError::io("read", &path))?;
        Ok(file)
    }

    fn list_all(&self) -> Vec<(String, PathBuf, u64)> {
        let dirs = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let files = dirs.filter_map(|dir| {
            let first = dir.file_name().into_string().ok()?;
            Some(std::fs::read_dir(dir.path()).ok()?.flatten().map(move |file| (first.clone(), file)))
        });
        let all = files.flatten().filter_map(|(first, file)| {
            let rest = file.file_name().into_string().ok()?;
            Some((first + &rest, file.path(), file.metadata().ok()?.len()))
        });
        all.collect()
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        if self.is_synced { file.sync_data() } else { Ok(()) }
    }

    fn has_room(&self, size: u64) -> bool {
        if self.max_bytes == u64::MAX {
            return true;
        }
        let mut total = self.total.load(Ordering::Relaxed);
        if total == u64::MAX {
            total = self.list_all().iter().map(|(_, _, size)| size).sum();
            self.total.store(total, Ordering::Relaxed);
        }
        total.saturating_add(size) <= self.max_bytes
    }

    fn create_temporary(&self) -> Result<(File, PathBuf), UndoError> {
        make_private_dir(&self.dir).map_err(UndoError::io("make", &self.dir))?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("new-{}-{number}", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((file, path)),
                // The file was left by a process that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(UndoError::io("write", &path)(error)),
            }
        }
    }

    fn move_into_place(&self, temporary: &Path, hash: &str, size: u64) -> Result<(), UndoError> {
        let path = self.path(hash);
        let made = path.parent().map_or(Ok(()), make_private_dir);
        let placed = made.and_then(|()| std::fs::rename(temporary, &path));
        if let Err(error) = placed {
            let _ = std::fs::remove_file(temporary);
            return Err(UndoError::io("write", &path)(error));
        }
        self.total.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }
}

/// Copies a file and returns the hash and the size of the copy.
fn copy_and_hash(from: &File, to: &mut File) -> io::Result<(String, u64)> {
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(&*to, from).is_ok() {
        to.rewind()?;
        return hash_reader(to, None);
    }
    let mut from = from;
    from.rewind()?;
    hash_reader(&mut from, Some(to))
}

/// Hash and number of the bytes of a reader, which are written to `to` as well.
fn hash_reader(from: &mut impl Read, mut to: Option<&mut File>) -> io::Result<(String, u64)> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; PIECE_BYTES];
    let mut size = 0;
    loop {
        let read = match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
        context.update(piece);
        size += read as u64;
        if let Some(to) = &mut to {
            to.write_all(piece)?;
        }
    }
    Ok((hex(context.finish().as_ref()), size))
}

/// SHA-256 of bytes in hexadecimal.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
