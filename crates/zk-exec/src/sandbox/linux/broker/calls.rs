//! System calls that create names, carried out by the broker on behalf of commands.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fcntl_getfl, fcntl_setfl, fstat, linkat, mkdirat,
    mknodat, openat, renameat_with, statat, symlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, fchdir, pidfd_getfd, pidfd_open, umask};

use super::Waiting;
use super::guard::Guard;
use super::notice::{Listener, Notice, bind, read_memory};
use super::reports::Reports;
use super::resolve::{MAX_LINKS, Place, Proc, Status};

const MAX_PATH_BYTES: usize = 4096;
const PAGE_BYTES: usize = 4096;
const MAX_ADDRESS_BYTES: usize = 128;
/// Error for the creation of a guarded name: "read-only file system", which programs report clearly.
const GUARDED: Errno = Errno::ROFS;
/// Interval at which the open of a named pipe without a reader is repeated.
const PIPE_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Blocked thread of a command, whose system call is being carried out.
pub(super) struct Caller<'a> {
    pub(super) notice: Notice,
    pub(super) listener: &'a Listener,
    pub(super) guard: &'a Guard,
    pub(super) reports: &'a Reports,
    /// Called before a blocking wait, which ends when the returned value is dropped.
    pub(super) waiting: &'a dyn Fn() -> Waiting<'a>,
}

/// Path argument of a system call: the directory's descriptor number, and the address of the path in the
/// caller's memory.
#[derive(Clone, Copy)]
struct Named {
    directory: i32,
    path: u64,
}

impl Caller<'_> {
    /// Carries out the caller's system call and answers with its result.
    pub(super) fn answer(&self) {
        let [first, second, third, fourth, fifth, _] = self.notice.args;
        let here = |path| Named { directory: libc::AT_FDCWD, path };
        let at = |directory, path| Named { directory: int(directory), path };
        let done = match self.notice.call {
            libc::SYS_openat => return self.answer_open(at(first, second), third, fourth),
            libc::SYS_mkdirat => self.make_directory(at(first, second), third),
            libc::SYS_mknodat => self.make_node(at(first, second), third, fourth),
            libc::SYS_symlinkat => self.make_symlink(first, at(second, third)),
            libc::SYS_linkat => self.make_link(at(first, second), at(third, fourth), fifth),
            libc::SYS_renameat2 => self.rename(at(first, second), at(third, fourth), fifth),
            libc::SYS_renameat => self.rename(at(first, second), at(third, fourth), 0),
            libc::SYS_bind => self.bind(first, second, third),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => return self.answer_open(here(first), second, third),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                return self.answer_open(here(first), u64::from(flags.cast_unsigned()), second);
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make_directory(here(first), second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => self.make_node(here(first), second, third),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => self.make_symlink(first, here(second)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => self.make_link(here(first), here(second), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename(here(first), here(second), 0),
            _ => Err(Errno::NOSYS),
        };
        self.listener.answer(self.notice.id, done);
    }

    fn answer_open(&self, named: Named, flags: u64, mode: u64) {
        let flags = OFlags::from_bits_retain(int(flags).cast_unsigned());
        let id = self.notice.id;
        let done = self
            .open(named, flags, Mode::from_raw_mode(permissions(mode)))
            .and_then(|file| self.listener.answer_with_file(id, &file, flags.contains(OFlags::CLOEXEC)));
        if let Err(error) = done {
            self.listener.answer(id, Err(error));
        }
    }

    fn open(&self, named: Named, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let mut place = self.resolve_place(named)?;
        self.apply_umask()?;
        // Never takes a controlling terminal, and never blocks on the other end of a pipe.
        let plain = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let follows = !flags.intersects(OFlags::NOFOLLOW | OFlags::EXCL);
        for _ in 0..=MAX_LINKS {
            if place.proc == Some(Proc::Below) {
                return open_in_proc(&place, flags, plain);
            }
            let is_guarded = self.is_guarded(&place)?;
            let mut wanted = plain | OFlags::NOFOLLOW;
            if is_guarded || place.proc.is_some() {
                wanted.remove(OFlags::CREATE | OFlags::EXCL);
            }
            let access = flags & OFlags::RWMODE;
            if access == OFlags::RDONLY && !flags.contains(OFlags::NONBLOCK) && is_pipe(&place) {
                wanted.remove(OFlags::NONBLOCK);
            }
            let waits = !wanted.contains(OFlags::NONBLOCK);
            let _waiting = waits.then(|| (self.waiting)());
            match openat(&place.parent, &place.name, wanted, mode) {
                Ok(_) if is_guarded && flags.contains(OFlags::EXCL) => return Err(Errno::EXIST),
                Ok(file) => {
                    self.reports.report_created(&place);
                    return restore_blocking(file, flags);
                }
                Err(Errno::LOOP) if follows => {
                    place = place.followed(self.notice.thread)?.ok_or(Errno::LOOP)?;
                }
                Err(Errno::LOOP) if flags.contains(OFlags::EXCL) => return Err(Errno::EXIST),
                Err(Errno::NOENT) if is_guarded => return Err(GUARDED),
                Err(Errno::NXIO) => return self.open_special(&place, flags, wanted),
                Err(error) => return Err(error),
            }
        }
        Err(Errno::LOOP)
    }

    /// Opens a pipe without a reader, or the caller's controlling terminal, which this process does not
    /// share.
    fn open_special(&self, place: &Place, flags: OFlags, wanted: OFlags) -> Result<OwnedFd, Errno> {
        let found = statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::CharacterDevice if found.st_rdev == libc::makedev(5, 0) => self.terminal(),
            FileType::Fifo if !flags.contains(OFlags::NONBLOCK) => {
                let wanted = wanted - OFlags::CREATE;
                let _waiting = (self.waiting)();
                while self.listener.is_waiting(self.notice.id) {
                    match openat(&place.parent, &place.name, wanted, Mode::empty()) {
                        Err(Errno::NXIO) => std::thread::sleep(PIPE_RETRY_INTERVAL),
                        Ok(file) => return restore_blocking(file, flags),
                        Err(error) => return Err(error),
                    }
                }
                Err(Errno::INTR)
            }
            _ => Err(Errno::NXIO),
        }
    }

    /// Controlling terminal of the caller, found among the caller's open files.
    fn terminal(&self) -> Result<OwnedFd, Errno> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.notice.thread));
        let stat = stat.map_err(|_| Errno::NXIO)?;
        // Fields after the name in parentheses: state, parent, group, session, terminal.
        let device = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(4));
        let device = device.and_then(|device| device.parse::<u32>().ok()).filter(|device| *device != 0);
        let device = device.ok_or(Errno::NXIO)?;
        let device = libc::makedev((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
        let is_terminal = |file: &OwnedFd| {
            let writes = fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
            writes && fstat(file).is_ok_and(|found| found.st_rdev == device)
        };
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.notice.thread)).map_err(|_| Errno::NXIO)?;
        files
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|number| self.duplicate_file(number).ok())
            .find(is_terminal)
            .ok_or(Errno::NXIO)
    }

    fn make_directory(&self, named: Named, mode: u64) -> Result<(), Errno> {
        let place = self.new_name(named)?;
        self.apply_umask()?;
        mkdirat(&place.parent, &place.name, Mode::from_raw_mode(permissions(mode)))?;
        self.reports.report_created(&place);
        Ok(())
    }

    fn make_node(&self, named: Named, mode: u64, device: u64) -> Result<(), Errno> {
        let place = self.new_name(named)?;
        self.apply_umask()?;
        let mode_bits = u32::try_from(mode & 0xffff_ffff).map_err(|_| Errno::INVAL)?;
        let kind = match mode_bits & libc::S_IFMT {
            0 => FileType::RegularFile,
            kind => FileType::from_raw_mode(kind),
        };
        mknodat(&place.parent, &place.name, kind, Mode::from_raw_mode(permissions(mode)), device)?;
        self.reports.report_created(&place);
        Ok(())
    }

    fn make_symlink(&self, target: u64, named: Named) -> Result<(), Errno> {
        let target = self.read_path(target)?;
        let place = self.new_name(named)?;
        let target = CString::new(target).map_err(|_| Errno::INVAL)?;
        symlinkat(&target, &place.parent, &place.name)?;
        self.reports.report_created(&place);
        Ok(())
    }

    fn make_link(&self, old: Named, new: Named, flags: u64) -> Result<(), Errno> {
        let flags = AtFlags::from_bits_retain(int(flags).cast_unsigned());
        if !(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
            return Err(Errno::INVAL);
        }
        let follows = flags.contains(AtFlags::SYMLINK_FOLLOW);
        let mut old = self.resolve_place(old)?;
        let new = self.new_name(new)?;
        for _ in 0..=MAX_LINKS {
            let next = if follows { old.followed(self.notice.thread)? } else { None };
            let Some(next) = next else {
                let is_magic = old.proc == Some(Proc::Below) && follows;
                let flags = if is_magic { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
                linkat(&old.parent, &old.name, &new.parent, &new.name, flags)?;
                self.reports.report_created(&new);
                return Ok(());
            };
            old = next;
        }
        Err(Errno::LOOP)
    }

    fn rename(&self, old: Named, new: Named, flags: u64) -> Result<(), Errno> {
        let (old, new) = (self.resolve_place(old)?, self.resolve_place(new)?);
        if self.is_guarded(&old)? || self.is_guarded(&new)? {
            return Err(GUARDED);
        }
        let flags = RenameFlags::from_bits_retain(int(flags).cast_unsigned());
        renameat_with(&old.parent, &old.name, &new.parent, &new.name, flags)?;
        self.reports.report_moved(&new);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.reports.report_moved(&old);
        }
        Ok(())
    }

    fn bind(&self, socket: u64, address: u64, len: u64) -> Result<(), Errno> {
        let len =
            usize::try_from(int(len)).ok().filter(|len| *len <= MAX_ADDRESS_BYTES).ok_or(Errno::INVAL)?;
        let mut bytes = [0; MAX_ADDRESS_BYTES];
        let bytes = bytes.get_mut(..len).ok_or(Errno::INVAL)?;
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match read_memory(self.notice.thread, address.wrapping_add(read as u64), rest)? {
                0 => return Err(Errno::FAULT),
                more => read += more,
            }
        }
        let socket = self.duplicate_file(int(socket))?;
        let (Some(family), Some(path)) = (bytes.get(..2), bytes.get(2..)) else {
            return bind(&socket, bytes);
        };
        let path: Vec<u8> = path.iter().copied().take_while(|byte| *byte != 0).collect();
        if family != u16::try_from(libc::AF_UNIX).unwrap_or_default().to_ne_bytes() || path.is_empty() {
            self.check_waiting()?;
            return bind(&socket, bytes);
        }
        let base = self.open_directory(libc::AT_FDCWD)?;
        self.check_waiting()?;
        let place = Place::of(base.as_fd(), &path, self.notice.thread)?;
        if self.is_guarded(&place)? {
            let is_taken = statat(&place.parent, place.bare_name(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
            return Err(if is_taken { Errno::ADDRINUSE } else { GUARDED });
        }
        self.apply_umask()?;
        // The socket keeps the relative address that the caller gave, if a second look-up of the path cannot
        // lead elsewhere.
        let done = if place.is_direct && place.proc.is_none() && !self.guard.guards_name(place.bare_name()) {
            fchdir(&base)?;
            bind(&socket, bytes)
        } else {
            fchdir(&place.parent)?;
            let address = [family, place.name.as_bytes_with_nul()].concat();
            bind(&socket, &address)
        };
        rustix::process::chdir(c"/")?;
        done
    }

    /// Resolves the path of a name to be created; fails if the name is guarded, or a guarded name exists
    /// already.
    fn new_name(&self, named: Named) -> Result<Place, Errno> {
        let place = self.resolve_place(named)?;
        if self.is_guarded(&place)? {
            let is_taken = statat(&place.parent, place.bare_name(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
            return Err(if is_taken { Errno::EXIST } else { GUARDED });
        }
        Ok(place)
    }

    fn is_guarded(&self, place: &Place) -> Result<bool, Errno> {
        self.guard.guards_in(&place.parent, place.bare_name())
    }

    /// Resolves a path of the caller. The path is read from memory once, so that it cannot change between
    /// check and use.
    fn resolve_place(&self, named: Named) -> Result<Place, Errno> {
        let path = self.read_path(named.path)?;
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.starts_with(b"/") {
            self.check_waiting()?;
            return Place::of(CWD, &path, self.notice.thread);
        }
        let base = self.open_directory(named.directory)?;
        self.check_waiting()?;
        Place::of(base.as_fd(), &path, self.notice.thread)
    }

    /// Fails if the caller has ended, since its thread id may be reused then.
    fn check_waiting(&self) -> Result<(), Errno> {
        if self.listener.is_waiting(self.notice.id) { Ok(()) } else { Err(Errno::SRCH) }
    }

    fn read_path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::new();
        while text.len() < MAX_PATH_BYTES {
            let from = address.wrapping_add(text.len() as u64);
            let in_page = usize::try_from(from % PAGE_BYTES as u64).unwrap_or_default();
            let mut chunk = [0; 256];
            let most = (PAGE_BYTES - in_page).min(chunk.len()).min(MAX_PATH_BYTES - text.len());
            let chunk = chunk.get_mut(..most).ok_or(Errno::FAULT)?;
            let read = read_memory(self.notice.thread, from, chunk)?;
            let chunk = chunk.get(..read).filter(|chunk| !chunk.is_empty()).ok_or(Errno::FAULT)?;
            match chunk.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(chunk.get(..end).unwrap_or_default());
                    return Ok(text);
                }
                None => text.extend_from_slice(chunk),
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    fn open_directory(&self, number: i32) -> Result<OwnedFd, Errno> {
        let thread = self.notice.thread;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        if number == libc::AT_FDCWD {
            return openat(CWD, format!("/proc/{thread}/cwd"), flags, Mode::empty());
        }
        let found = openat(CWD, format!("/proc/{thread}/fd/{number}"), flags, Mode::empty());
        found.map_err(|error| if error == Errno::NOENT { Errno::BADF } else { error })
    }

    /// Duplicates an open file of the caller.
    fn duplicate_file(&self, number: i32) -> Result<OwnedFd, Errno> {
        let process = self.thread_status()?.process;
        let process = Pid::from_raw(process.cast_signed()).ok_or(Errno::SRCH)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    fn thread_status(&self) -> Result<Status, Errno> {
        Status::of(self.notice.thread).ok_or(Errno::SRCH)
    }

    /// Sets this thread's umask to the caller's.
    fn apply_umask(&self) -> Result<(), Errno> {
        umask(Mode::from_raw_mode(self.thread_status()?.umask));
        Ok(())
    }
}

/// Opens a file in `/proc`, or the target of a link there.
fn open_in_proc(place: &Place, flags: OFlags, plain: OFlags) -> Result<OwnedFd, Errno> {
    if flags.contains(OFlags::EXCL) {
        statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        return Err(Errno::EXIST);
    }
    let file = openat(&place.parent, &place.name, plain - OFlags::CREATE, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Directory {
        return Err(Errno::ISDIR);
    }
    restore_blocking(file, flags)
}

/// Clears `O_NONBLOCK`, which the broker added, unless the caller set it.
fn restore_blocking(file: OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    if !flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags)?;
    }
    Ok(file)
}

fn is_pipe(place: &Place) -> bool {
    let found = statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
}

/// Argument as the kernel truncates it to an `int`.
fn int(value: u64) -> i32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or_default().cast_signed()
}

fn permissions(mode: u64) -> u32 {
    u32::try_from(mode & 0o7777).unwrap_or_default()
}
