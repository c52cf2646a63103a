mod flaws;

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use zk_core::service::{
    Durability, HostFiles, HostRead, StateFileError, StateFiles, StateLock, make_private_dir,
};

use crate::LocalHostFiles;
pub use flaws::{StateFlaw, StateFlawKind, state_flaws};

/// Longest wait for a lock; a write takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Pause between two attempts at a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Mode bits that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Mode bits that let anybody but the owner use a file.
const FOR_OTHERS: u32 = 0o077;
/// Mode bit without which a file is read-only for its owner.
const OWNER_WRITES: u32 = 0o200;
/// Bits of a mode that are permissions.
const PERMISSION_BITS: u32 = 0o7777;
/// Mode of a file that only its owner can use.
const PRIVATE_MODE: u32 = 0o600;

/// The `dyn StateFiles` of this machine. Each file is locked through a second file next to it, `NAME.lock`.
///
/// ```
/// use zk_core::service::StateFiles;
/// use zk_exec::LocalStateFiles;
///
/// let (files, dir) = (LocalStateFiles::default(), tempfile::tempdir().unwrap());
/// let path = dir.path().join("state/trust.json");
/// assert_eq!(files.read(&path, 1024).unwrap(), None);
/// let lock = files.lock(&path).unwrap();
/// files.replace(&path, b"{}").unwrap();
/// drop(lock);
/// assert_eq!(files.read(&path, 1024).unwrap().as_deref(), Some(&b"{}"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LocalStateFiles {
    host: LocalHostFiles,
    follows_links: bool,
    modes: ModeRule,
    /// File of the last append: each tool call appends twice to one file.
    open: Arc<Mutex<Option<OpenFile>>>,
}

/// Rule for the mode of a file that is replaced.
#[derive(Clone, Copy, Debug, Default)]
enum ModeRule {
    /// [`PRIVATE_MODE`], whatever it was.
    #[default]
    Private,
    /// Present mode of the file; for a new file this one, less the umask.
    Kept { new: u32 },
}

/// File that stays open between appends.
#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: File,
    /// Device and inode.
    id: (u64, u64),
    /// Whether it is on a disk of this machine. On another, a file that stays open shows no appends of others.
    is_local: bool,
}

impl OpenFile {
    /// Size of the file; `None` unless the path still names it, for its owner alone.
    fn size_at(&self, path: &Path) -> Option<u64> {
        let found = path.symlink_metadata().ok().filter(|_| self.path == path)?;
        let is_this = (found.dev(), found.ino()) == self.id && found.mode() & FOR_OTHERS == 0;
        is_this.then_some(found.len())
    }
}

impl LocalStateFiles {
    /// State files whose owners are checked as `host` checks them.
    #[must_use]
    pub fn new(host: LocalHostFiles) -> Self {
        Self { host, ..Self::default() }
    }

    /// Allows symbolic links in place of files, since managers of configuration files make such links: reads go
    /// through them, and a replacement is that of the file they lead to.
    #[must_use]
    pub fn follow_links(self) -> Self {
        Self { follows_links: true, ..self }
    }

    /// Keeps the modes of files that are replaced, for files that a person writes as well. A new file gets `new`, less
    /// the umask. A file that is read-only for its owner is not replaced.
    #[must_use]
    pub fn keep_modes(self, new: u32) -> Self {
        Self { modes: ModeRule::Kept { new }, ..self }
    }

    /// Returns the file that a replacement of `path` replaces.
    fn target_of(&self, path: &Path) -> Result<PathBuf, StateFileError> {
        let is_link = self.follows_links && path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if !is_link {
            return Ok(path.to_owned());
        }
        path.canonicalize().map_err(|source| StateFileError::Io {
            doing: "follow the link",
            path: path.to_owned(),
            source,
        })
    }
}

/// Retries a lock for up to [`LOCK_WAIT`]; the inner error is the time that was waited.
fn retry_lock(mut attempt: impl FnMut() -> Result<(), TryLockError>) -> io::Result<Result<(), Duration>> {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(Ok(())),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if start.elapsed() >= LOCK_WAIT => return Ok(Err(start.elapsed())),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}

/// Options to open or make a file that only its owner can use; links and pipes are refused.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    options.write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

impl StateFiles for LocalStateFiles {
    fn read(&self, path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>, StateFileError> {
        let unusable = |why: String| StateFileError::Unusable { path: path.to_owned(), why };
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() && !self.follows_links => {
                return Err(unusable("it is a link".to_owned()));
            }
            Ok(found) if found.mode() & OTHERS_WRITE != 0 && !found.is_symlink() => {
                return Err(unusable("others can write to it".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        }
        let read = self.host.read(path, &HostRead::whole(max_bytes).own_only());
        read.map(|file| Some(file.bytes)).map_err(|error| unusable(error.to_string()))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| StateFileError::Io { doing, path, source }
        };
        make_private_dir(dir).map_err(failed("make the directory", dir))?;
        let path = &self.target_of(path)?;
        let mode = self.modes.mode_of(path).map_err(failed("write", path))?;
        write_and_rename(path, mode, bytes, Durability::Disk).map_err(failed("write", path))
    }

    fn publish(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let mode = NewMode::Exact(PRIVATE_MODE);
        let written =
            make_private_dir(dir).and_then(|()| write_and_rename(path, mode, bytes, Durability::Process));
        written.map_err(|source| StateFileError::Io { doing: "write", path: path.to_owned(), source })
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> Result<u64, StateFileError> {
        let failed = |source| StateFileError::Io { doing: "append to", path: path.to_owned(), source };
        let kept = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let kept = kept.and_then(|kept| kept.size_at(path).map(|size| (kept, size)));
        let (mut open, size) = kept.map_or_else(|| open_end(path), Ok).map_err(failed)?;
        open.file.write_all(bytes).map_err(failed)?;
        // A file that failed is opened again.
        if open.is_local {
            *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        }
        Ok(size.saturating_add(bytes.len() as u64))
    }

    fn lock(&self, path: &Path) -> Result<StateLock, StateFileError> {
        let failed = |source| StateFileError::Io { doing: "lock", path: path.to_owned(), source };
        let file = open_lock(path).map_err(failed)?;
        match retry_lock(|| file.try_lock()).map_err(failed)? {
            Ok(()) => Ok(StateLock::holding(file)),
            Err(waited) => Err(StateFileError::Busy { path: path.to_owned(), waited }),
        }
    }

    fn try_lock(&self, path: &Path) -> Result<Option<StateLock>, StateFileError> {
        let failed = |source| StateFileError::Io { doing: "lock", path: path.to_owned(), source };
        let file = open_lock(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(StateLock::holding(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Opens the file at `path` for appends, and makes it and its directory if missing. Returns its size, too.
fn open_end(path: &Path) -> io::Result<(OpenFile, u64)> {
    let open = || private_options().append(true).create(true).open(path);
    // The directory nearly always exists, so it is created only after a failed open.
    let file = match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_private_dir(path.parent().unwrap_or(Path::new("/"))).and_then(|()| open())
        }
        opened => opened,
    }?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // A file that was copied or restored may have a mode that lets other users in.
    if found.mode() & FOR_OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let (id, is_local) = ((found.dev(), found.ino()), is_on_local_disk(&file));
    Ok((OpenFile { path: path.to_owned(), file, id, is_local }, found.len()))
}

/// Whether a file is on a file system of this machine alone.
#[cfg(target_os = "linux")]
fn is_on_local_disk(file: &File) -> bool {
    /// Magic numbers of NFS, SMB (two), FUSE, 9P, Ceph and AFS, of `linux/magic.h`.
    const SHARED: [u32; 7] =
        [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];
    // The type has 32 bits, sign-extended or not.
    rustix::fs::fstatfs(file).is_ok_and(|found| !SHARED.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_on_local_disk(_file: &File) -> bool {
    false
}

/// Opens the file by which the file at `path` is locked, and makes it and its directory if missing.
fn open_lock(path: &Path) -> io::Result<File> {
    make_private_dir(path.parent().unwrap_or(Path::new("/")))?;
    private_options().create(true).truncate(false).open(path.with_extension("lock"))
}

/// Mode of a file that is about to be written.
#[derive(Clone, Copy)]
enum NewMode {
    /// Exactly this one, whatever the umask is.
    Exact(u32),
    /// Less the umask.
    Masked(u32),
}

impl ModeRule {
    /// Returns the mode of the file that replaces the one at `path`.
    ///
    /// # Errors
    /// The present file is read-only.
    fn mode_of(self, path: &Path) -> io::Result<NewMode> {
        let Self::Kept { new } = self else { return Ok(NewMode::Exact(PRIVATE_MODE)) };
        match path.symlink_metadata() {
            Ok(found) if found.mode() & OWNER_WRITES == 0 => {
                let why = format!("it is read-only; `chmod u+w {}` makes it writable", path.display());
                Err(io::Error::new(ErrorKind::PermissionDenied, why))
            }
            Ok(found) => Ok(NewMode::Exact(found.mode() & PERMISSION_BITS)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(NewMode::Masked(new)),
            Err(error) => Err(error),
        }
    }
}

/// Writes a new file with a mode.
fn write_new((new, mode): (&Path, NewMode), bytes: &[u8]) -> io::Result<File> {
    let mut options = private_options();
    let mut file = match mode {
        NewMode::Exact(mode) => {
            let file = options.create_new(true).open(new)?;
            // Overrides the process's umask.
            file.set_permissions(Permissions::from_mode(mode))?;
            file
        }
        NewMode::Masked(mode) => options.mode(mode).create_new(true).open(new)?,
    };
    file.write_all(bytes)?;
    Ok(file)
}

/// Replaces the file at `path` in one step; with [`Durability::Disk`], the file and its directory are synced.
#[expect(clippy::disallowed_methods, reason = "the one writer of files of state")]
fn write_and_rename(path: &Path, mode: NewMode, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    // An earlier process with the same id may have left this file.
    let _ = std::fs::remove_file(&new);
    let written = write_new((&new, mode), bytes).and_then(|file| match durability {
        Durability::Process => std::fs::rename(&new, path),
        Durability::Disk => {
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
        }
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_owners_and_is_refused_once_others_can_write_it_or_it_is_a_link() {
        let (files, temp) = (LocalStateFiles::default(), tempfile::tempdir().unwrap());
        let path = temp.path().join("a/b/list.json");
        files.replace(&path, b"one").unwrap();
        files.replace(&path, b"two").unwrap();
        assert_eq!(files.read(&path, 3).unwrap().as_deref(), Some(&b"two"[..]));
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1, "nothing is left beside it");
        let why = |read: Result<Option<Vec<u8>>, StateFileError>| read.unwrap_err().to_string();
        assert!(why(files.read(&path, 2)).contains("larger than 2 bytes"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(why(files.read(&path, 3)).contains("others can write"));
        std::fs::remove_file(&path).unwrap();
        let target = temp.path().join("target");
        std::fs::write(&target, "one").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(why(files.read(&path, 3)).contains("it is a link"));
        let following = files.follow_links();
        assert_eq!(following.read(&path, 3).unwrap().as_deref(), Some(&b"one"[..]));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(following.read(&path, 3).is_err());
    }

    #[test]
    fn a_file_of_a_person_keeps_its_link_and_its_mode_and_is_not_replaced_while_it_is_read_only() {
        let temp = tempfile::tempdir().unwrap();
        let files = LocalStateFiles::default().follow_links().keep_modes(0o666);
        let (link, target) = (temp.path().join("settings.toml"), temp.path().join("dotfiles/zk.toml"));
        std::fs::create_dir(temp.path().join("dotfiles")).unwrap();
        std::os::unix::fs::symlink("dotfiles/zk.toml", &link).unwrap();
        let broken = files.replace(&link, b"new").unwrap_err().to_string();
        assert!(broken.contains("follow the link") && broken.contains("settings.toml"), "{broken}");
        std::fs::write(&target, "old").unwrap();
        for mode in [0o644, 0o640, 0o600] {
            std::fs::set_permissions(&target, Permissions::from_mode(mode)).unwrap();
            files.replace(&link, format!("{mode:o}").as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&target).unwrap(), format!("{mode:o}"));
            assert_eq!(target.metadata().unwrap().mode() & 0o777, mode);
        }
        assert!(link.symlink_metadata().unwrap().is_symlink());
        std::fs::set_permissions(&target, Permissions::from_mode(0o444)).unwrap();
        let refused = files.replace(&link, b"new").unwrap_err().to_string();
        assert!(refused.contains("read-only") && refused.contains("chmod u+w"), "{refused}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "600");
        assert_eq!(temp.path().join("dotfiles").read_dir().unwrap().count(), 1);
        let shared = temp.path().join("shared.toml");
        files.replace(&shared, b"new").unwrap();
        let plain = temp.path().join("plain");
        File::create(&plain).unwrap();
        assert_eq!(shared.metadata().unwrap().mode(), plain.metadata().unwrap().mode(), "as the umask says");
    }

    #[test]
    fn a_published_file_is_its_owners_and_replaces_a_link_but_not_its_target() {
        let (files, temp) = (LocalStateFiles::default(), tempfile::tempdir().unwrap());
        let path = temp.path().join("a/live.json");
        files.publish(&path, b"one").unwrap();
        files.publish(&path, b"two").unwrap();
        assert_eq!(files.read(&path, 3).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1, "nothing is left beside it");
        let target = temp.path().join("target");
        std::fs::rename(&path, &target).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        files.publish(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"two");
        std::fs::create_dir(temp.path().join("dir")).unwrap();
        let error = files.publish(&temp.path().join("dir"), b"x").unwrap_err().to_string();
        assert!(error.contains("write") && error.contains("dir"), "{error}");
        assert_eq!(temp.path().read_dir().unwrap().count(), 3, "nothing is left after an error");
    }

    #[test]
    fn what_is_appended_comes_after_what_was_there_in_a_file_of_the_owner_and_through_no_link() {
        let (files, temp) = (LocalStateFiles::default(), tempfile::tempdir().unwrap());
        let path = temp.path().join("a/b/lines.log");
        assert_eq!(files.append(&path, b"one\n").unwrap(), 4);
        assert_eq!(files.append(&path, b"two\n").unwrap(), 8);
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!((files.append(&path, b"").unwrap(), mode(&path)), (8, 0o600));
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(files.append(&link, b"x").unwrap_err().to_string().contains("append to"));
        let pipe = temp.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        assert!(files.append(&pipe, b"x").is_err());
        assert!(files.read(&pipe, 16).is_err());
        assert_eq!(std::fs::read(&path).unwrap().len(), 8);
        // Others may move, replace and delete the file between two appends.
        std::fs::rename(&path, temp.path().join("old.log")).unwrap();
        assert_eq!(files.append(&path, b"three\n").unwrap(), 6);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(temp.path().join("old.log"), &path).unwrap();
        assert!(files.append(&path, b"x").is_err());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.append(&path, b"four\n").unwrap(), 5);
        assert_eq!(std::fs::read(temp.path().join("old.log")).unwrap().len(), 8);
    }

    #[test]
    fn a_lock_that_another_process_holds_is_waited_for_and_then_reported() {
        let (files, temp) = (LocalStateFiles::default(), tempfile::tempdir().unwrap());
        let path = temp.path().join("trust.json");
        let held = files.lock(&path).unwrap();
        let error = files.lock(&path).unwrap_err();
        assert!(matches!(&error, StateFileError::Busy { waited, .. } if *waited >= LOCK_WAIT), "{error}");
        assert!(error.to_string().contains("trust.json"), "{error}");
        assert!(files.try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(files.try_lock(&path).unwrap().is_some());
        drop(files.lock(&path).unwrap());
    }
}
