//! The kernel's user notification, which no crate has as safe functions.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use seccompiler::sock_filter;

/// Flag of an added file whose number is the answer: `SECCOMP_ADDFD_FLAG_SEND`.
const ADD_AND_ANSWER: u32 = 2;

/// The source of the calls that wait for an answer.
pub(super) struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    pub(super) id: u64,
    /// The thread that called, as this process numbers it.
    pub(super) thread: u32,
    pub(super) call: libc::c_long,
    pub(super) args: [u64; 6],
}

/// Lays a filter on this thread whose notifications come to the listener that is returned.
#[expect(unsafe_code, reason = "seccompiler installs no filter that notifies")]
pub(super) fn install(filter: &[sock_filter]) -> io::Result<Listener> {
    let mut filter: Vec<libc::sock_filter> = filter
        .iter()
        .map(|step| libc::sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k })
        .collect();
    let len = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the program points to as many steps as it says, which live through the call.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let mut fd =
        install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // Before Linux 5.19 a signal makes a call that waits start anew.
        fd = install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    let listener = Listener(unsafe { OwnedFd::from_raw_fd(fd) });
    // Since Linux 6.6: the answering thread runs where the calling one waits. Slower without.
    // SAFETY: the argument of this request is a number.
    unsafe { libc::ioctl(listener.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1_u64) };
    Ok(listener)
}

#[expect(unsafe_code, reason = "the requests of a listener are in no crate")]
impl Listener {
    /// Waits for the next call.
    pub(super) fn next(&self) -> io::Result<Notice> {
        loop {
            // SAFETY: all zero is a value of this structure, and the one that the kernel asks for.
            let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the request fills the structure, which lives through the call.
            let done =
                unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) };
            if done == 0 {
                return Ok(Notice {
                    id: notice.id,
                    thread: notice.pid,
                    call: notice.data.nr.into(),
                    args: notice.data.args,
                });
            }
            let error = io::Error::last_os_error();
            // The caller ended meanwhile, or a signal came.
            if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) {
                return Err(error);
            }
        }
    }

    /// Whether a call still waits, so that its thread is the one that it was.
    pub(super) fn waits(&self, id: u64) -> bool {
        // SAFETY: the request reads a number that lives through the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Fails where the kernel cannot answer a call with an open file in one step.
    pub(super) fn check(&self) -> io::Result<()> {
        // No call has this number. A kernel that knows the request looks for it.
        let nobody = self.answer_with_file(u64::MAX, &self.0, true);
        match nobody {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a call with what it returns.
    pub(super) fn answer(&self, id: u64, result: Result<(), Errno>) {
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
        // SAFETY: the request reads the structure, which lives through the call. A caller that ended needs no answer.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    }

    /// Answers a call with an open file, which the caller gets the lowest free number for.
    pub(super) fn answer_with_file(&self, id: u64, file: &OwnedFd, close_at_exec: bool) -> Result<(), Errno> {
        let flags = if close_at_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let mut added = libc::seccomp_notif_addfd {
            id,
            flags: ADD_AND_ANSWER,
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: flags,
        };
        // SAFETY: the request reads the structure, which lives through the call.
        let fd = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut added) };
        if fd >= 0 { Ok(()) } else { Err(last_error()) }
    }
}

/// Reads memory of another process from `address` on, as much as its page has.
#[expect(unsafe_code, reason = "process_vm_readv is not in rustix")]
pub(super) fn read_memory(thread: u32, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the kernel writes to `into` alone, and no further than its length. The other address is of the other
    // process and only read there.
    let read =
        unsafe { libc::process_vm_readv(thread.cast_signed(), &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read).map_err(|_| last_error())
}

/// Binds a socket to an address as a caller gave it.
#[expect(unsafe_code, reason = "rustix takes no address in the form it has in memory")]
pub(super) fn bind(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let len = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads `len` bytes of the address, whatever they are.
    let done = unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), len) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
