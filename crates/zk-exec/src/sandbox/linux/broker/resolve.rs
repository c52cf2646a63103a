//! Resolution of a command's path to a parent directory and a name, without a second look-up that could lead
//! elsewhere.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat, openat2, readlinkat,
};
use rustix::io::Errno;

/// Maximum number of symbolic links in one path, as in the kernel.
pub(super) const MAX_LINKS: usize = 40;
const PROC_ROOT_INODE: u64 = 1;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ANY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Resolved path: an open parent directory and a name in it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: OwnedFd,
    /// Name in the directory, with a trailing slash if the path has one.
    pub(super) name: CString,
    /// Whether the path to the parent has no symbolic link.
    pub(super) is_direct: bool,
    pub(super) proc: Option<Proc>,
}

/// Directory of `/proc`: no name can be created there, and some links depend on the process that follows
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proc {
    Root,
    Below,
}

impl Place {
    /// Resolves `path`, relative to `base`, as `thread` would.
    pub(super) fn of(base: BorrowedFd<'_>, path: &[u8], thread: u32) -> Result<Self, Errno> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let (bare, slashes) = path.split_at_checked(end).ok_or(Errno::INVAL)?;
        let begin = bare.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (above, name) = bare.split_at_checked(begin).ok_or(Errno::INVAL)?;
        let mut name = name.to_owned();
        // The root has no name in a parent directory.
        let above = if name.is_empty() { slashes } else { above };
        if name.is_empty() {
            name.push(b'.');
        } else if !slashes.is_empty() {
            name.push(b'/');
        }
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let above = if above.is_empty() { b"." } else { above };
        let resolved = openat2(base, above, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let (parent, is_direct) = match resolved {
            Ok(parent) => (parent, true),
            Err(Errno::LOOP) => (walk(base, above, thread)?, false),
            Err(error) => return Err(error),
        };
        let proc = proc_of(&parent)?;
        if proc == Some(Proc::Below) {
            belongs_to_command(&parent)?;
        }
        Ok(Self { parent, name, is_direct, proc })
    }

    /// Name without the trailing slash.
    pub(super) fn bare_name(&self) -> &[u8] {
        self.name.as_bytes().strip_suffix(b"/").unwrap_or(self.name.as_bytes())
    }

    /// Resolves the link of this name; `None` if it is no link with a target path.
    pub(super) fn followed(&self, thread: u32) -> Result<Option<Self>, Errno> {
        if self.proc == Some(Proc::Root) && matches!(self.bare_name(), b"self" | b"thread-self") {
            return Self::of(self.parent.as_fd(), thread.to_string().as_bytes(), thread).map(Some);
        }
        if self.proc == Some(Proc::Below) {
            return Ok(None);
        }
        match readlinkat(&self.parent, self.bare_name(), Vec::new()) {
            Ok(target) => Self::of(self.parent.as_fd(), target.as_bytes(), thread).map(Some),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Walks a path component by component, following links as the thread would.
fn walk(base: BorrowedFd<'_>, path: &[u8], thread: u32) -> Result<OwnedFd, Errno> {
    let mut at =
        openat(if path.starts_with(b"/") { CWD } else { base }, start_directory(path), ANY, Mode::empty())?;
    let mut todo: Vec<Vec<u8>> = Vec::new();
    let push = |todo: &mut Vec<Vec<u8>>, path: &[u8]| {
        todo.extend(
            path.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty()).map(<[u8]>::to_vec),
        );
    };
    push(&mut todo, path);
    let mut left = MAX_LINKS;
    while let Some(name) = todo.pop() {
        let proc = proc_of(&at)?;
        let is_self = matches!(&*name, b"self" | b"thread-self");
        let name = if proc == Some(Proc::Root) && is_self { thread.to_string().into_bytes() } else { name };
        let next = openat(&at, &*name, ANY, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&next)?.st_mode) != FileType::Symlink {
            at = next;
            continue;
        }
        left = left.checked_sub(1).ok_or(Errno::LOOP)?;
        if proc == Some(Proc::Below) {
            // A link of `/proc` to an open file has no target path.
            belongs_to_command(&at)?;
            at = openat(&at, &*name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            continue;
        }
        let target = readlinkat(&next, c"", Vec::new())?;
        if target.as_bytes().starts_with(b"/") {
            at = openat(CWD, c"/", ANY, Mode::empty())?;
        }
        push(&mut todo, target.as_bytes());
    }
    Ok(at)
}

fn start_directory(path: &[u8]) -> &'static std::ffi::CStr {
    if path.starts_with(b"/") { c"/" } else { c"." }
}

fn proc_of(directory: &OwnedFd) -> Result<Option<Proc>, Errno> {
    if fstatfs(directory)?.f_type != PROC_SUPER_MAGIC {
        return Ok(None);
    }
    let is_root = fstat(directory)?.st_ino == PROC_ROOT_INODE;
    Ok(Some(if is_root { Proc::Root } else { Proc::Below }))
}

/// Refuses the `/proc` directory of a process that is not a command, recognised by its lack of the command's
/// filters: a broker's own files, for example.
fn belongs_to_command(directory: &OwnedFd) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let own = rustix::fs::stat(c"/proc").map_err(|_| Errno::ACCESS)?;
    if fstat(directory)?.st_dev != own.st_dev {
        return Err(Errno::ACCESS);
    }
    let path = readlinkat(CWD, format!("/proc/self/fd/{}", directory.as_raw_fd()), Vec::new())?;
    let path = path.into_string().map_err(|_| Errno::ACCESS)?;
    let first = path.strip_prefix("/proc/").and_then(|path| path.split('/').next()).ok_or(Errno::ACCESS)?;
    let Ok(number) = first.parse::<u32>() else { return Ok(()) };
    let leader = Status::of(number).ok_or(Errno::NOENT)?.process;
    // Filters that zk itself runs under, as in a container, count for both processes.
    let filters = |process| Status::of(process).map(|status| status.filters);
    if filters(leader) > filters(std::process::id()) { Ok(()) } else { Err(Errno::ACCESS) }
}

/// Fields of `/proc/THREAD/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) umask: u32,
    pub(super) process: u32,
    /// Number of seccomp filters of the thread.
    filters: u32,
}

impl Status {
    pub(super) fn of(thread: u32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{thread}/status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim)
        };
        Some(Self {
            umask: u32::from_str_radix(field("Umask")?, 8).ok()?,
            process: field("Tgid")?.parse().ok()?,
            filters: field("Seccomp_filters")?.parse().ok()?,
        })
    }
}
